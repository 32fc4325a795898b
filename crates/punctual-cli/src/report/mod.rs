//! What the program tells while it runs: events, the output of jobs, and on a terminal a table.
//!
//! Workers never write themselves. They hand finished text to a bounded [queue](queue::Queue), and one thread, the
//! printer, takes it from there; so a reader of our output that stops reading holds up neither a job nor the
//! schedule. The printer alone knows the terminal: in the live style it takes the table away, writes what has
//! come, and draws the table anew below.

mod event;
mod printer;
mod queue;
mod style;
mod table;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::board::Board;
use crate::process::Stream;
pub(crate) use event::{Event, JobWhat, What, stamp};
use queue::{Parcel, Queue};
pub(crate) use style::Style;

/// How long the end of the program waits for somebody to read its last words.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Where everything that is to be told goes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    style: Style,
    queue: Arc<Queue>,
}

impl Reporter {
    /// Starts the printer.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start(style: Style, board: &Arc<Board>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (source, board) = (Arc::clone(&queue), Arc::clone(board));
        std::thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || printer::print(style, &source, &board))?;
        Ok(Self { style, queue })
    }

    pub(crate) fn tell(&self, what: What) {
        let text = self.style.event(&Event::now(what));
        if !text.is_empty() {
            self.queue.event(text);
        }
    }

    pub(crate) fn tell_of(&self, job: &Arc<str>, what: JobWhat) {
        self.tell(What::Job { job: Arc::clone(job), what });
    }

    /// Turns a line of a job into the text that is [passed on](Self::pass).
    pub(crate) fn dress(&self, job: &str, stream: Stream, line: &[u8], out: &mut Vec<u8>) {
        self.style.output(job, stream, line, out);
    }

    /// Passes output of a job on; may wait for room.
    pub(crate) fn pass(&self, stream: Stream, text: Vec<u8>) {
        // A program that reads our events reads them from one place.
        let stream = if self.style == Style::Plain { stream } else { Stream::Out };
        self.queue.output(Parcel { stream, text });
    }

    /// Takes nothing more, and returns when everything is written, or nobody reads.
    pub(crate) fn close(&self) {
        self.queue.close(LAST_PATIENCE);
    }

    /// One without a printer: what is told stays in the queue.
    #[cfg(test)]
    pub(crate) fn mute(style: Style) -> Self {
        Self { style, queue: Arc::default() }
    }

    /// What a [mute](Self::mute) one has been given: for standard output, and for standard error.
    #[cfg(test)]
    pub(crate) fn given(&self) -> (String, String) {
        let queue::Delivery::Some(parcels, 0) = self.queue.take(Some(Duration::ZERO)) else {
            return Default::default();
        };
        let of = |wanted| parcels.iter().filter(move |parcel| parcel.stream == wanted);
        let text = |wanted| of(wanted).map(|parcel| String::from_utf8_lossy(&parcel.text)).collect();
        (text(Stream::Out), text(Stream::Err))
    }
}
