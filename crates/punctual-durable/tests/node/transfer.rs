//! Exported files: what is in them, and what is wrong with others.

use std::io::{self, Write};

use punctual_durable::{Cadence, Filter, MemoryStore, NewJob, NewSchedule, Overlap, Store, export, import};

fn store_of(jobs: usize) -> MemoryStore {
    let store = MemoryStore::new();
    store.enqueue((0..jobs).map(|n| NewJob::new("mail", n.to_string())).collect()).unwrap();
    store
}

fn exported(store: &MemoryStore) -> String {
    let mut file = Vec::new();
    export(store, &mut file).unwrap();
    String::from_utf8(file).unwrap()
}

#[test]
fn a_file_cut_off_anywhere_is_noticed_and_the_whole_one_completes_it() {
    let source = store_of(250);
    let file = exported(&source);
    assert_eq!(file.lines().count(), 1 + 250 + 1 + 1, "a line for each, and the first and the last");
    let copy = MemoryStore::new();
    let mut before = 0;
    // A prime step, so that the cuts fall everywhere within lines.
    for cut in (0..file.len() - 1).step_by(4_099) {
        let error = import(&file.as_bytes()[..cut], &copy).unwrap_err();
        assert!(error.is_invalid(), "{error}");
        let have = copy.find(&Filter::new().limit(999)).unwrap().len();
        assert!(have >= before && have < 250, "{have}");
        before = have;
    }
    assert!(before > 0, "the pages before the cut are there");
    import(file.as_bytes(), &copy).unwrap();
    let payloads: Vec<_> =
        copy.find(&Filter::new().limit(999)).unwrap().into_iter().filter_map(|job| job.payload).collect();
    assert_eq!(payloads, (0..250).map(|n| n.to_string()).collect::<Vec<_>>(), "each once, in order");
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_the_number_of_the_line() {
    let file = exported(&store_of(2));
    let lines: Vec<&str> = file.lines().collect();
    let refused = |text: String| import(text.as_bytes(), &MemoryStore::new()).unwrap_err().to_string();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        lines.join("\n")
    };
    assert!(refused(String::new()).contains("first line"));
    assert!(refused(with(0, lines[1])).contains("first line"));
    assert!(refused(with(0, "{\"punctual\":{\"format\":9,\"store\":1}}")).contains("format 9"));
    assert!(refused(with(2, "{\"job\":{}}")).contains("line 3"));
    assert!(refused(with(2, "nonsense")).contains("line 3"));
    assert!(refused(with(2, lines[0])).contains("line 3 begins another export"));
    assert!(refused(with(2, lines[3])).contains("speaks of 2 jobs, and there were 1"));
    assert!(refused(with(2, lines[1])).contains("not in the order"), "a job twice");
    let nameless = lines[2].replace("\"kind\":\"mail\"", "\"kind\":\"\"");
    assert!(refused(with(2, &nameless)).contains("the kind is empty"));
    let huge = lines[2].replace("\"fence\":0", "\"fence\":9223372036854775807");
    assert!(refused(with(2, &huge)).contains("fence 9223372036854775807"));
    assert!(refused("\u{fffd}".repeat(9)).contains("line 1"));
}

/// What was written before schedules had policies for gaps, failures and delays: they have the defaults.
#[test]
fn a_file_of_an_earlier_version_is_read_as_it_was_meant() {
    const SCHEDULE: &str = r#"{"schedule":{"definition":{"name":"nightly","cadence":{"Cron":{"expression":"30 2 * * *",
        "zone":"Europe/Berlin"}},"start":null,"job":{"kind":"mail","queue":"default","lane":"Normal","payload":"{}",
        "due":"Now","limits":{"max_attempts":20,"max_crashes":3,"on_lost":"Rerun","timeout":null},"unique":null,
        "then":[]},"missed":{"most":1,"within":null},"overlap":"Allow"},"next":5,"last":4,"owed":null,"version":7,
        "paused":null}}"#;
    let schedule = SCHEDULE.replace('\n', "");
    let file =
        format!("{{\"punctual\":{{\"format\":1,\"store\":1}}}}\n{schedule}\n{{\"end\":{{\"jobs\":0}}}}\n");
    let store = MemoryStore::new();
    assert_eq!(import(file.as_bytes(), &store).unwrap().schedules, 1);
    let record = store.schedules().unwrap().remove(0);
    let cadence = Cadence::cron("30 2 * * *", "Europe/Berlin").unwrap();
    let mut expected = NewSchedule::new("nightly", cadence, NewJob::new("mail", "{}"));
    expected.overlap = Overlap::Allow;
    assert_eq!((record.definition, record.version, record.failures), (expected, 7, 0));
}

#[test]
fn a_full_disk_is_an_error_and_no_half_truth() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = export(&store_of(9), Full(500)).unwrap_err();
    assert!(error.is_transient(), "{error}");
}
