//! How processes that share a file tell each other that there is something new.
//!
//! A datagram socket beside the file, `<name>-bell`, bound by whoever has the file. Others send it a message after each of
//! their commits. Everything here is a courtesy: a bell that cannot be hung (the path is too long, the file system has
//! no sockets) or is not heard costs time, never a job, because nodes also look from time to time.
//!
//! # Protocol
//! Taking the file: remove the socket that a dead owner left, bind, listen on a thread. Giving it up: remove the socket
//! and shut it down, which ends the thread. Both happen while the file is locked (`owner.rs`), so nobody removes the
//! socket of a living owner.
//!
//! Who waits for a job, and does not have the file, has an *ear*: a socket whose name is in no folder (Linux has such), so
//! that nothing is left behind by a process that is killed. It asks the bell from there; whoever has the file remembers
//! the last [`MOST_EARS`] who asked, and tells them what is over. Elsewhere there are no ears, and one looks.

use std::path::{Path, PathBuf};

pub(super) fn path_beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-bell");
    path.into()
}

/// How many are told that something is over.
#[cfg(target_os = "linux")]
const MOST_EARS: usize = 100;

#[cfg(unix)]
mod hung {
    use std::net::Shutdown;
    use std::os::unix::net::UnixDatagram;
    use std::path::{Path, PathBuf};
    use std::thread::{Builder, JoinHandle};

    use super::super::super::News;
    use super::super::super::news::Ears;
    use super::ears::Asking;

    /// Longer than any message.
    const LONGEST: usize = 8_192;

    /// A socket, and somebody who listens there.
    #[derive(Debug)]
    pub(super) struct Listening {
        socket: UnixDatagram,
        listener: Option<JoinHandle<()>>,
    }

    impl Listening {
        pub(super) fn start(socket: UnixDatagram, ears: Ears, asking: Asking) -> Option<Self> {
            let mine = socket.try_clone().ok()?;
            let listen = move || {
                let mut message = [0; LONGEST];
                // Empty: the socket has been shut down.
                while let Ok((length @ 1.., from)) = mine.recv_from(&mut message) {
                    let news = News::decode(&String::from_utf8_lossy(&message[..length]));
                    asking.note(&news, from);
                    ears.tell(&news);
                }
            };
            let listener = Builder::new().name("punctual-bell".to_owned()).spawn(listen).ok();
            Some(Self { socket, listener })
        }

        /// From this socket, so that the other side knows where to answer.
        #[cfg(target_os = "linux")]
        pub(super) fn socket(&self) -> &UnixDatagram {
            &self.socket
        }
    }

    impl Drop for Listening {
        fn drop(&mut self) {
            let ended = self.socket.shutdown(Shutdown::Both).is_ok();
            if let Some(listener) = self.listener.take().filter(|_| ended) {
                // Its last call may be what drops us.
                if listener.thread().id() != std::thread::current().id() {
                    let _ = listener.join();
                }
            }
        }
    }

    /// A bell that hangs.
    #[derive(Debug)]
    pub(in super::super) struct Bell {
        path: PathBuf,
        asking: Asking,
        _listening: Listening,
    }

    impl Bell {
        pub(in super::super) fn hang(path: &Path, ears: Ears) -> Option<Self> {
            let _ = std::fs::remove_file(path);
            let socket = UnixDatagram::bind(path).ok()?;
            let asking = Asking::default();
            let listening = Listening::start(socket, ears, asking.clone())?;
            Some(Self { path: path.to_owned(), asking, _listening: listening })
        }

        /// Tells those who have asked.
        pub(in super::super) fn answer(&self, news: &News) {
            self.asking.answer(news);
        }
    }

    impl Drop for Bell {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// A socket to send from, which does not wait for anybody.
    pub(super) fn voice() -> Option<UnixDatagram> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok().map(|()| socket)
    }

    /// What is sent: a message without words would be taken for the end.
    pub(super) fn sent(message: String) -> Vec<u8> {
        if message.is_empty() { vec![1] } else { message.into_bytes() }
    }

    /// Rings, if a bell hangs there and has room for more.
    pub(in super::super) fn ring(path: &Path, news: &News) {
        if let Some(socket) = voice() {
            for message in news.encode() {
                let _ = socket.send_to(&sent(message), path);
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod ears {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use super::super::super::News;
    use super::super::super::news::Ears;
    use super::MOST_EARS;
    use super::hung::{Listening, sent, voice};

    /// The names of those who have asked, the last one last.
    #[derive(Clone, Debug, Default)]
    pub(super) struct Asking(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Asking {
        pub(super) fn note(&self, news: &News, from: SocketAddr) {
            if let News::Over(_) = news {
                self.answer(news);
            }
            if let (News::Waiting(_), Some(name)) = (news, from.as_abstract_name()) {
                let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                names.retain(|known| known != name);
                names.push(name.to_owned());
                if names.len() > MOST_EARS {
                    names.remove(0);
                }
            }
        }

        pub(super) fn answer(&self, news: &News) {
            let names = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(socket) = voice().filter(|_| !names.is_empty()) else { return };
            for message in news.encode().into_iter().map(sent) {
                for name in &names {
                    // Those who have gone are not there, and forgotten when others come.
                    let _ = SocketAddr::from_abstract_name(name)
                        .and_then(|address| socket.send_to_addr(&message, &address));
                }
            }
        }
    }

    /// Where somebody who does not have the file hears.
    #[derive(Debug)]
    pub(in super::super) struct Ear(Listening);

    impl Ear {
        pub(in super::super) fn open(ears: Ears) -> Option<Self> {
            let name = format!("punctual-{}-{:016x}", std::process::id(), fastrand::u64(..));
            let socket = SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
            let socket = socket.ok()?;
            // Whoever has the file may be stopped, and its bell full.
            socket.set_write_timeout(Some(Duration::from_millis(1))).ok()?;
            Listening::start(socket, ears, Asking::default()).map(Self)
        }

        /// Rings from here.
        pub(in super::super) fn ask(&self, bell: &Path, news: &News) {
            for message in news.encode() {
                let _ = self.0.socket().send_to(&sent(message), bell);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod ears {
    use std::path::Path;

    use super::super::super::News;
    use super::super::super::news::Ears;

    /// Nobody can ask here.
    #[cfg(unix)]
    #[derive(Clone, Debug, Default)]
    pub(super) struct Asking;

    #[cfg(unix)]
    impl Asking {
        pub(super) fn note(&self, _: &News, _: std::os::unix::net::SocketAddr) {}
        pub(super) fn answer(&self, _: &News) {}
    }

    /// There are no ears on this platform.
    #[derive(Debug)]
    pub(in super::super) struct Ear;

    impl Ear {
        pub(in super::super) fn open(_: Ears) -> Option<Self> {
            None
        }

        pub(in super::super) fn ask(&self, _: &Path, _: &News) {}
    }
}

#[cfg(not(unix))]
mod hung {
    use std::path::Path;

    use super::super::super::News;
    use super::super::super::news::Ears;

    /// There are no bells on this platform.
    #[derive(Debug)]
    pub(in super::super) struct Bell;

    impl Bell {
        pub(in super::super) fn hang(_: &Path, _: Ears) -> Option<Self> {
            None
        }

        pub(in super::super) fn answer(&self, _: &News) {}
    }

    pub(in super::super) fn ring(_: &Path, _: &News) {}
}

pub(super) use ears::Ear;
pub(super) use hung::{Bell, ring};
