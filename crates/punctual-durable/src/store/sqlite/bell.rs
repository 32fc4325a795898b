//! How a process tells the one that has the file that there is something new in it.
//!
//! A datagram socket beside the file, `<name>-bell`, bound by whoever has the file. Others send it a byte after each of
//! their commits. Everything here is a courtesy: a bell that cannot be hung (the path is too long, the file system has
//! no sockets) or is not heard costs time, never a job, because nodes also look from time to time.
//!
//! # Protocol
//! Taking the file: remove the socket that a dead owner left, bind, listen on a thread. Giving it up: remove the socket
//! and shut it down, which ends the thread. Both happen while the file is locked (`owner.rs`), so nobody removes the
//! socket of a living owner.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Called when somebody has rung. Does not block.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Who is to be woken, now and later.
#[derive(Clone, Default)]
pub(super) struct Sleeper(Arc<Mutex<Option<Wake>>>);

impl Sleeper {
    pub(super) fn set(&self, wake: Wake) {
        let old = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(wake);
        drop(old);
    }

    fn wake(&self) {
        let wake = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

pub(super) fn path_beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-bell");
    path.into()
}

#[cfg(unix)]
mod hung {
    use std::net::Shutdown;
    use std::os::unix::net::UnixDatagram;
    use std::path::{Path, PathBuf};
    use std::thread::{Builder, JoinHandle};

    use super::Sleeper;

    /// A bell that hangs, and somebody who listens.
    #[derive(Debug)]
    pub(in super::super) struct Bell {
        path: PathBuf,
        socket: UnixDatagram,
        listener: Option<JoinHandle<()>>,
    }

    impl Bell {
        pub(in super::super) fn hang(path: &Path, sleeper: Sleeper) -> Option<Self> {
            let _ = std::fs::remove_file(path);
            let socket = UnixDatagram::bind(path).ok()?;
            let ears = socket.try_clone().ok()?;
            let listen = move || {
                // Empty: the socket has been shut down.
                while ears.recv(&mut [0; 1]).is_ok_and(|length| length > 0) {
                    sleeper.wake();
                }
            };
            let listener = Builder::new().name("punctual-bell".to_owned()).spawn(listen).ok();
            Some(Self { path: path.to_owned(), socket, listener })
        }
    }

    impl Drop for Bell {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
            let ended = self.socket.shutdown(Shutdown::Both).is_ok();
            if let Some(listener) = self.listener.take().filter(|_| ended) {
                // Its last wake may be what drops us.
                if listener.thread().id() != std::thread::current().id() {
                    let _ = listener.join();
                }
            }
        }
    }

    /// Rings, if a bell hangs there and has room for one more.
    pub(in super::super) fn ring(path: &Path) {
        if let Ok(socket) = UnixDatagram::unbound()
            && socket.set_nonblocking(true).is_ok()
        {
            let _ = socket.send_to(&[1], path);
        }
    }
}

#[cfg(not(unix))]
mod hung {
    use std::path::Path;

    use super::Sleeper;

    /// There are no bells on this platform.
    #[derive(Debug)]
    pub(in super::super) struct Bell;

    impl Bell {
        pub(in super::super) fn hang(_: &Path, _: Sleeper) -> Option<Self> {
            None
        }
    }

    pub(in super::super) fn ring(_: &Path) {}
}

pub(super) use hung::{Bell, ring};

impl std::fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sleeper")
    }
}
