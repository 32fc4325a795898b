//! A process run to its end, or to a time-out.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What a process has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs to the end, or to the time-out, without looking in between: that would take a processor from what is measured.
pub(crate) fn run(mut command: Command, timeout: Duration) -> Result<Ended, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start: {error}"))?;
    let output = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let Ok(text) = output.recv_timeout(timeout) else {
        return Err(format!("still running after {} s, {}", timeout.as_secs(), kill(&mut child)));
    };
    let status = child.wait().map_err(|error| format!("cannot wait: {error}"))?;
    Ok(Ended { code: status.code(), output: text, errors: errors.recv().unwrap_or_default() })
}

/// Sends all of `stream` when it ends: when the process does.
fn collect(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read before an error is all there is.
            let _ = stream.read_to_end(&mut bytes);
        }
        // Nobody waits for it any more after a time-out.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn kill(child: &mut Child) -> &'static str {
    match child.kill().and_then(|()| child.wait()) {
        Ok(_) => "killed",
        Err(_) => "and cannot be killed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn output_errors_and_exit_code_of_a_process_are_told() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let ended = run(command, Duration::from_secs(60)).unwrap();
        let expected = Ended { code: Some(3), output: "out\n".to_owned(), errors: "err\n".to_owned() };
        assert_eq!(ended, expected);
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_hangs_is_killed() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec sleep 1000"]);
        let error = run(command, Duration::from_millis(200)).unwrap_err();
        assert!(error.ends_with("killed"), "{error}");
    }
}
