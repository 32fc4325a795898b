//! The one thread that writes, and how many callers share one commit.
//!
//! A commit waits for the disk; what arrives meanwhile waits for the commit, and goes into the next one together. So
//! a lone caller pays one commit and no delay, and a thousand callers share one. There is no timer and no setting.
//!
//! # Protocol
//! Take all that has been sent, at most [`MOST`]; begin; run each call in a savepoint of its own; commit; answer
//! everybody. A call that fails is undone alone and answered with its error; so is one that panics. If the commit fails
//! nobody's effect is kept, and everybody is answered with that error.
//!
//! # Invariants
//! 1. No caller is told `Ok` before the commit that holds its effect has returned.
//! 2. Every caller gets an answer: if the thread is gone, an error.
//! 3. The thread goes on until nobody can call any more, whatever a call does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;

use super::failed;
use crate::error::{Error, Result};
use crate::node::panic_message;

/// Calls in one commit.
const MOST: usize = 1_000;

#[derive(Debug)]
pub(super) struct Writer {
    /// `None` only while it is dropped.
    calls: Option<Sender<Box<dyn Call>>>,
    thread: Option<JoinHandle<()>>,
}

/// What a caller wants done, and its way to be told.
trait Call: Send {
    /// Does it; says whether it is to be kept.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Tells the caller. An error is of the commit, or of what should have led to it.
    fn answer(self: Box<Self>, committed: Result<(), &Error>);
}

struct Request<F, T> {
    work: Option<F>,
    result: Option<Result<T>>,
    reply: SyncSender<Result<T>>,
}

impl<F, T> Call for Request<F, T>
where
    F: FnOnce(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let work = self.work.take().expect("a call is run once");
        // By 3. What it leaves behind is in the savepoint, which is undone.
        let result = catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or_else(|panic| {
            Err(Error::broken(format!("a call of the store panicked: {}", panic_message(panic))))
        });
        let kept = result.is_ok();
        self.result = Some(result);
        kept
    }

    fn answer(self: Box<Self>, committed: Result<(), &Error>) {
        let result = match (self.result, committed) {
            // Its own error says more than that of the others.
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(error)) => Err(error.copy()),
            (None, Ok(())) => Err(Error::transient("the call was not run")),
        };
        // A caller waits until it is answered, unless its thread is gone with the process.
        let _ = self.reply.send(result);
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, path: &Path) -> Result<Self> {
        let (calls, receiver) = channel();
        let log = Log { connection, path: path.to_owned() };
        let thread = Builder::new()
            .name("punctual-sqlite".to_owned())
            .spawn(move || log.serve(&receiver))
            .map_err(|error| Error::transient("cannot start the thread that writes").with_source(error))?;
        Ok(Self { calls: Some(calls), thread: Some(thread) })
    }

    /// Runs `work` in a transaction, and returns when it is on the disk.
    pub(super) fn call<T, F>(&self, work: F) -> Result<T>
    where
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let gone = || Error::closed("the thread that writes to the file is gone");
        let (reply, answer) = sync_channel(1);
        let request = Box::new(Request { work: Some(work), result: None, reply });
        self.calls.as_ref().and_then(|calls| calls.send(request).ok()).ok_or_else(gone)?;
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Writer {
    /// The file is closed when this returns.
    fn drop(&mut self) {
        drop(self.calls.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Log {
    connection: Connection,
    path: PathBuf,
}

impl Log {
    fn serve(&self, calls: &Receiver<Box<dyn Call>>) {
        while let Ok(first) = calls.recv() {
            let mut batch = vec![first];
            batch.extend(calls.try_iter().take(MOST - 1));
            let committed = self.commit(&mut batch);
            for call in batch {
                call.answer(committed.as_ref().copied());
            }
        }
    }

    fn commit(&self, batch: &mut [Box<dyn Call>]) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        let done = self.run_all(batch).and_then(|()| self.execute("COMMIT"));
        if done.is_err() && !self.connection.is_autocommit() {
            // Should even this fail, the next BEGIN does, and says so.
            let _ = self.execute("ROLLBACK");
        }
        done
    }

    fn run_all(&self, batch: &mut [Box<dyn Call>]) -> Result<()> {
        for call in batch {
            self.execute("SAVEPOINT one")?;
            if !call.run(&self.connection) {
                if self.connection.is_autocommit() {
                    // A full disk or the like has undone the whole transaction, not the one call.
                    return Err(Error::transient(format!(
                        "a transaction on {} was rolled back",
                        self.path.display()
                    )));
                }
                self.execute("ROLLBACK TO one")?;
            }
            self.execute("RELEASE one")?;
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<()> {
        let run = || self.connection.prepare_cached(sql)?.execute([]);
        run().map(drop).map_err(|error| failed("cannot write to", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `sql` on the thread that writes.
    fn run(writer: &Writer, sql: &'static str) {
        let path = Path::new("test");
        writer.call(move |to| to.execute_batch(sql).map_err(|error| failed("on", path, error))).unwrap();
    }

    #[test]
    fn a_call_that_panics_is_undone_and_answered_and_others_go_on() {
        let writer = Writer::start(Connection::open_in_memory().unwrap(), Path::new("test")).unwrap();
        run(&writer, "CREATE TABLE kept (number INTEGER); INSERT INTO kept VALUES (1)");
        let panics = |to: &Connection| -> Result<()> {
            to.execute("INSERT INTO kept VALUES (2)", []).unwrap();
            panic!("out of luck");
        };
        let error = writer.call(panics).unwrap_err();
        assert!(error.is_broken() && error.to_string().contains("out of luck"), "{error}");
        run(&writer, "INSERT INTO kept VALUES (3)");
        let sum = "SELECT sum(number) FROM kept";
        let sum = writer.call(move |to| Ok(to.query_row(sum, [], |row| row.get::<_, i64>(0)).unwrap()));
        assert_eq!(sum.unwrap(), 4);
    }
}
