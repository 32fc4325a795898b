//! Carries the output of one run from its pipes to where it goes.
//!
//! One thread per run reads both pipes as they fill, so a command is never held up by a full pipe, and holds one
//! line of each in memory. It ends when the pipes are closed, which is when the command *and everything it
//! started* have ended; or when it is told to [finish](Pump::finish): a command that leaves a process in the
//! background with the pipe open must not keep its run open, too. Then what is already in the pipes is still
//! taken, and no more.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};

use super::lines::Lines;

/// Which of its two outputs a command wrote to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// Where lines go. Called by the thread of one run alone.
pub(crate) trait Sink: Send {
    /// A line without its end, no longer than [`LONGEST_LINE`](super::lines::LONGEST_LINE).
    fn line(&mut self, stream: Stream, line: &[u8]);

    /// Nothing more comes for now: what was held back for the sake of speed should go out.
    fn pause(&mut self) {}
}

/// How much is still taken from a pipe at the end: as much as pipes hold by default on Linux, and more.
const LAST_DRAUGHT: usize = 1 << 20;
const CHUNK: usize = 64 << 10;

/// The thread that reads.
#[derive(Debug)]
pub(crate) struct Pump {
    thread: JoinHandle<()>,
    /// Sending, or dropping it, lets the thread begin.
    gate: Sender<()>,
    /// Dropping it tells the thread to come to an end.
    stop: OwnedFd,
}

struct Source {
    pipe: OwnedFd,
    stream: Stream,
    lines: Lines,
}

/// The two ends to give to the command.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) out: OwnedFd,
    pub(crate) err: OwnedFd,
}

impl Pump {
    /// Makes the pipes, from which nothing is read before [`begin`](Self::begin): so the start of a command can
    /// be told before its first line. `closed` is called when the pipes are, before [`finish`](Self::finish) or
    /// never.
    ///
    /// # Errors
    /// If there are no more files or threads to be had.
    pub(crate) fn start(
        sink: Box<dyn Sink>,
        closed: impl FnOnce() + Send + 'static,
    ) -> io::Result<(Self, Ends)> {
        let (read_out, out) = pipe_with(PipeFlags::CLOEXEC)?;
        let (read_err, err) = pipe_with(PipeFlags::CLOEXEC)?;
        let (told, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let sources = vec![Source::new(read_out, Stream::Out)?, Source::new(read_err, Stream::Err)?];
        let (gate, opened) = mpsc::channel();
        let thread = std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            let _ = opened.recv();
            carry(sources, &told, sink, closed);
        })?;
        Ok((Self { thread, gate, stop }, Ends { out, err }))
    }

    /// Lets reading begin.
    pub(crate) fn begin(&self) {
        // The thread is there, or has ended in a panic: then there is nothing to begin.
        let _ = self.gate.send(());
    }

    /// Takes what is in the pipes and ends. Afterwards nothing more reaches the sink.
    pub(crate) fn finish(self) {
        drop((self.gate, self.stop));
        // A sink that panics has lost its output; the run has its outcome all the same.
        let _ = self.thread.join();
    }
}

impl Source {
    fn new(pipe: OwnedFd, stream: Stream) -> io::Result<Self> {
        // Of our end only: the command has an open file of its own.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, stream, lines: Lines::default() })
    }

    fn take(&mut self, buffer: &mut [u8], sink: &mut dyn Sink) -> Take {
        match read(&self.pipe, &mut *buffer) {
            Ok(0) => Take::Closed,
            Ok(count) => {
                self.lines.push(&buffer[..count], |line| sink.line(self.stream, line));
                Take::Some(count)
            }
            Err(Errno::AGAIN) => Take::Empty,
            Err(Errno::INTR) => Take::Some(0),
            Err(_) => Take::Closed,
        }
    }
}

enum Take {
    Some(usize),
    Empty,
    Closed,
}

fn carry(mut sources: Vec<Source>, told: &OwnedFd, mut sink: Box<dyn Sink>, closed: impl FnOnce()) {
    let mut buffer = vec![0; CHUNK];
    while !sources.is_empty() {
        let mut ready: Vec<PollFd<'_>> =
            sources.iter().map(|source| PollFd::new(&source.pipe, PollFlags::IN)).collect();
        ready.push(PollFd::new(told, PollFlags::IN));
        if poll(&mut ready, None).is_err_and(|error| error != Errno::INTR) {
            break;
        }
        let is_ready: Vec<bool> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
        if is_ready[sources.len()] {
            break;
        }
        let mut index = 0;
        sources.retain_mut(|source| {
            index += 1;
            if !is_ready[index - 1] || !matches!(source.take(&mut buffer, &mut *sink), Take::Closed) {
                return true;
            }
            source.lines.finish(|line| sink.line(source.stream, line));
            false
        });
        sink.pause();
    }
    let is_closed = sources.is_empty();
    for mut source in sources {
        let mut left = LAST_DRAUGHT;
        while let Take::Some(count) = source.take(&mut buffer, &mut *sink) {
            left = left.saturating_sub(count);
            if left == 0 {
                break;
            }
        }
        source.lines.finish(|line| sink.line(source.stream, line));
    }
    sink.pause();
    drop(sink);
    if is_closed {
        closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;

    struct Kept(mpsc::Sender<(Stream, Vec<u8>)>);

    impl Sink for Kept {
        fn line(&mut self, stream: Stream, line: &[u8]) {
            self.0.send((stream, line.to_vec())).unwrap();
        }
    }

    #[test]
    fn both_outputs_arrive_and_the_end_is_told_when_both_are_closed() {
        let (lines, received) = mpsc::channel();
        let (closed, told) = mpsc::channel();
        let (pump, Ends { out, err }) =
            Pump::start(Box::new(Kept(lines)), move || closed.send(()).unwrap()).unwrap();
        pump.begin();
        File::from(out).write_all(b"a\nb").unwrap();
        assert_eq!(received.recv().unwrap(), (Stream::Out, b"a".to_vec()));
        assert_eq!(received.recv().unwrap(), (Stream::Out, b"b".to_vec()));
        assert!(told.try_recv().is_err(), "the other one is open");
        File::from(err).write_all(b"c\n").unwrap();
        assert_eq!(received.recv().unwrap(), (Stream::Err, b"c".to_vec()));
        told.recv().unwrap();
        pump.finish();
    }

    #[test]
    fn a_pipe_that_stays_open_does_not_hold_up_the_end_and_what_is_in_it_is_taken() {
        let (lines, received) = mpsc::channel();
        let (pump, Ends { out, err }) = Pump::start(Box::new(Kept(lines)), || panic!("it is open")).unwrap();
        let mut file = File::from(out);
        let text = "0123456789\n".repeat(4_000);
        file.write_all(text.as_bytes()).unwrap();
        pump.finish();
        assert_eq!(received.iter().count(), 4_000);
        assert_eq!(file.write_all(b"late\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        drop(err);
    }
}
