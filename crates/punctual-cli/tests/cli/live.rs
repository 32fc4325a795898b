//! The table on a terminal.

use std::io::Read as _;
use std::process::Stdio;

use super::support::{Place, code, punctual, send, until};

#[test]
fn the_table_shows_each_job_below_the_output_and_the_cursor_comes_back() {
    let place = Place::new(
        "[job.tick]\ncommand = \"echo hello; echo x >> ticks\"\nevery = \"50ms\"\n\
         [job.broken]\ncommand = \"exit 9\"\nevery = \"1h\"\n",
    );
    let args = ["run", "--table", "always", &place.schedule()];
    let mut child = punctual().args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        text
    });
    until("it runs", || place.read("ticks").lines().count() > 5);
    send("TERM", child.id());
    assert_eq!(code(child.wait().unwrap()), 0);
    let text = reader.join().unwrap();
    assert!(text.starts_with("\x1b[?25l") && text.ends_with("\x1b[?25h"), "the cursor: {text:?}");
    let last = text.rsplit("\x1b[?2026h").next().unwrap();
    assert!(last.contains("JOB") && last.contains("every 50ms") && last.contains("exit 9"), "{last:?}");
    assert!(text.contains("hello"));
    let frames = text.matches("\x1b[?2026h").count();
    assert_eq!(text.matches("\x1b[?2026l").count(), frames);
}
