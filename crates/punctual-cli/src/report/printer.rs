//! The one thread that writes to our own output.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::tcgetwinsize;

use super::queue::{Delivery, Parcel, Queue};
use super::style::Style;
use super::table;
use crate::board::Board;
use crate::process::Stream;

/// How often the table is drawn when nothing happens, and at most when much does.
const FRAME: Duration = Duration::from_millis(250);

/// Writes whatever comes, until the queue is closed.
pub(super) fn print(style: Style, queue: &Queue, board: &Board) {
    match style {
        Style::Live => live(queue, board),
        Style::Plain | Style::Json => plain(style, queue),
    }
    queue.over();
}

fn plain(style: Style, queue: &Queue) {
    let (mut out, mut err) = (Pen::new(rustix::stdio::stdout()), Pen::new(rustix::stdio::stderr()));
    loop {
        match queue.take(None) {
            Delivery::Some(parcels, dropped) => {
                if dropped > 0 && out.write(&style.dropped(dropped)) > 0 {
                    queue.lost(dropped); // to be told another time
                }
                for Parcel { stream, text } in parcels {
                    let lost = match stream {
                        Stream::Out => out.write(&text),
                        Stream::Err => err.write(&text),
                    };
                    queue.lost(lost as u64);
                    queue.wrote(text.len());
                }
            }
            Delivery::Nothing => {}
            Delivery::Closed => return,
        }
    }
}

fn live(queue: &Queue, board: &Board) {
    let mut screen = Screen { pen: Pen::new(rustix::stdio::stdout()), drawn: 0, width: 0 };
    screen.pen.write(b"\x1b[?25l");
    loop {
        match queue.take(Some(FRAME)) {
            Delivery::Some(parcels, dropped) => {
                let mut text = Vec::new();
                if dropped > 0 {
                    text.extend(Style::Live.dropped(dropped));
                }
                let mut bytes = 0;
                for parcel in parcels {
                    bytes += parcel.text.len();
                    text.extend(parcel.text);
                }
                screen.draw(&text, board);
                queue.wrote(bytes);
            }
            Delivery::Nothing => screen.draw(b"", board),
            Delivery::Closed => {
                screen.draw(b"", board);
                screen.pen.write(b"\x1b[?25h");
                return;
            }
        }
    }
}

/// The lower end of a terminal.
struct Screen {
    pen: Pen<'static>,
    /// Lines of the table that is there now. The cursor is below it.
    drawn: usize,
    width: usize,
}

impl Screen {
    /// Puts `text` where the table was, and the table below it; all at once, so that nothing flickers.
    fn draw(&mut self, text: &[u8], board: &Board) {
        let size =
            tcgetwinsize(rustix::stdio::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (width, height) =
            size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let mut out = b"\x1b[?2026h".to_vec();
        if self.width != width && self.width > 0 {
            // The terminal has folded the lines of the old table: nobody knows how many they are now.
            out.extend_from_slice(b"\x1b[2J\x1b[H");
        } else if self.drawn > 0 {
            out.extend_from_slice(format!("\x1b[{}A\r\x1b[J", self.drawn).as_bytes());
        }
        self.width = width;
        out.extend_from_slice(text);
        let lines = table::lines(board, width - 1, (height - 1).max(1), SystemTime::now());
        for line in &lines {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        self.drawn = lines.len();
        out.extend_from_slice(b"\x1b[?2026l");
        self.pen.write(&out);
    }
}

/// Writes whole texts to one output.
///
/// If nobody can read any more, nothing is written from then on. Any other error, such as a full disk, may be mended:
/// the rest of that text is given up, and the next is tried again, on a line of its own.
struct Pen<'fd> {
    fd: std::os::fd::BorrowedFd<'fd>,
    is_broken: bool,
    /// The last text that was written ends within a line.
    is_torn: bool,
}

impl<'fd> Pen<'fd> {
    fn new(fd: std::os::fd::BorrowedFd<'fd>) -> Self {
        Self { fd, is_broken: false, is_torn: false }
    }

    /// How many bytes were lost.
    fn write(&mut self, text: &[u8]) -> usize {
        if self.is_torn && self.put(b"\n") == 0 {
            self.is_torn = false;
        }
        if self.is_torn {
            return text.len();
        }
        let lost = self.put(text);
        self.is_torn = 0 < lost && lost < text.len() && text.get(text.len() - lost - 1) != Some(&b'\n');
        lost
    }

    /// How many bytes at the end could not be written; none if nobody would miss them.
    fn put(&mut self, mut text: &[u8]) -> usize {
        while !text.is_empty() && !self.is_broken {
            match rustix::io::write(self.fd, text) {
                Ok(count) => text = &text[count..],
                Err(Errno::INTR) => {}
                // Somebody else has made the terminal we share non-blocking.
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.fd.as_fd(), PollFlags::OUT)], None);
                }
                Err(Errno::PIPE | Errno::BADF) => self.is_broken = true,
                Err(_) => return text.len(),
            }
        }
        0
    }
}
