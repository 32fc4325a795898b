//! The judge: compares what processes say they did with what the store says became of the jobs.
//!
//! Pure: lines of the side log and rows of the store in, violations out. It knows nothing of how the faults were made,
//! and each of its rules is shown to find the fault it is there for, at the end of this file.
//!
//! # What must hold
//! 1. An acknowledged job is in the store, and is over.
//! 2. It has been over once: no two processes were told that their report ended it.
//! 3. It was started at least once, and never before it was due.
//! 4. The outcome is that of the latest claim, and of a handler that did its work; nothing is started after it.
//! 5. Claims of a job have growing fences, and nobody starts again what it holds or has finished.
//! 6. A crash costs no attempt, and every start without an outcome is accounted for as one.
//! 7. Every occurrence of a schedule has become one job.
//! 8. What is to follow a job that is done has become one job, which was started after the work of its predecessor was
//!    done by the claim that counts. Nothing else follows anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use punctual_durable::{JobId, JobRecord, JobState};

use crate::side_log::{Entry, Run};

/// What the store says of one job.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) state: JobState,
    pub(crate) attempt: u32,
    pub(crate) crashes: u32,
    pub(crate) fence: i64,
    /// The schedule that it is an occurrence of, and its nominal time.
    pub(crate) series: Option<(String, i64)>,
    /// The job that it follows.
    pub(crate) parent: Option<i64>,
}

impl From<&JobRecord> for Row {
    fn from(record: &JobRecord) -> Self {
        Self {
            id: record.id.as_i64(),
            state: record.state,
            attempt: record.attempt,
            crashes: record.crashes,
            fence: record.fence.as_i64(),
            series: record.series.as_ref().map(|(name, nominal)| (name.clone(), nominal.as_micros())),
            parent: record.parent.map(JobId::as_i64),
        }
    }
}

/// A schedule with a fixed rate, and how far it has got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) period: i64,
    /// The first nominal time that has not become a job.
    pub(crate) next: i64,
    /// How many jobs follow each occurrence, one after the other.
    pub(crate) links: usize,
}

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Violation {
    Lost { id: i64 },
    NotOver { id: i64, state: JobState },
    OverTwice { id: i64, times: usize },
    NeverStarted { id: i64 },
    Early { id: i64, micros: i64 },
    StaleOutcome { id: i64, fence: i64, latest: i64 },
    StaleFinish { id: i64, process: u32 },
    NoEffect { id: i64, fence: i64 },
    StartedAfterTheEnd { id: i64, fence: i64 },
    FenceFell { id: i64, before: i64, after: i64 },
    StartedTwice { id: i64, process: u32 },
    AttemptCharged { id: i64, attempt: u32 },
    CrashUncounted { id: i64, crashes: u32, starts: usize },
    OccurrenceTwice { series: String, nominal: i64 },
    OccurrenceMissing { series: String, nominal: i64 },
    OccurrenceOffGrid { series: String, nominal: i64 },
    SuccessorMissing { id: i64 },
    SuccessorTwice { id: i64, times: usize },
    SuccessorUnasked { id: i64, successor: i64 },
    SuccessorTooSoon { id: i64, successor: i64 },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { id } => write!(f, "job {id} was acknowledged, and the store does not know it"),
            Self::NotOver { id, state } => write!(f, "job {id} is {state} when all is over"),
            Self::OverTwice { id, times } => write!(f, "job {id} was over {times} times"),
            Self::NeverStarted { id } => write!(f, "job {id} is done and was never started"),
            Self::Early { id, micros } => write!(f, "job {id} was started {micros} µs early"),
            Self::StaleOutcome { id, fence, latest } => {
                write!(
                    f,
                    "the outcome of job {id} is that of claim {fence}, the latest that started was {latest}"
                )
            }
            Self::StaleFinish { id, process } => {
                write!(f, "job {id} was ended by process {process}, which did not hold it any more")
            }
            Self::NoEffect { id, fence } => write!(f, "job {id} is done by claim {fence}, which did nothing"),
            Self::StartedAfterTheEnd { id, fence } => {
                write!(f, "job {id} was started by claim {fence} after it was over")
            }
            Self::FenceFell { id, before, after } => {
                write!(f, "job {id} was started by claim {after} after claim {before}")
            }
            Self::StartedTwice { id, process } => write!(f, "process {process} started job {id} twice"),
            Self::AttemptCharged { id, attempt } => write!(f, "job {id} is done at attempt {attempt}"),
            Self::CrashUncounted { id, crashes, starts } => {
                write!(f, "job {id} was started {starts} times with {crashes} crashes")
            }
            Self::OccurrenceTwice { series, nominal } => write!(f, "{series} at {nominal} happened twice"),
            Self::OccurrenceMissing { series, nominal } => write!(f, "{series} at {nominal} did not happen"),
            Self::OccurrenceOffGrid { series, nominal } => {
                write!(f, "{series} has no occurrence at {nominal}, and it happened")
            }
            Self::SuccessorMissing { id } => write!(f, "job {id} is done, and what was to follow it did not"),
            Self::SuccessorTwice { id, times } => write!(f, "job {id} was followed {times} times"),
            Self::SuccessorUnasked { id, successor } => {
                write!(f, "job {successor} follows job {id}, and nobody asked for it")
            }
            Self::SuccessorTooSoon { id, successor } => {
                write!(f, "job {successor} was started before job {id}, which it follows, was done")
            }
        }
    }
}

/// How strict the rules are that depend on the kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Leave {
    /// Processes may lose what they hold while they live (they are stopped, or slow, or cut off from the store): then a
    /// job may be started again by the same process, a claim that has lapsed may start after the one that replaced
    /// it, and even after that has ended the job. The outcome must still be that of the greatest fence.
    pub(crate) leases_lapse: bool,
    /// Handlers may fail (the disk is full), which costs attempts.
    pub(crate) handlers_fail: bool,
}

/// Everything that is known when all is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) log: Vec<Entry>,
    pub(crate) rows: Vec<Row>,
    pub(crate) series: Vec<Series>,
    pub(crate) leave: Leave,
}

/// What was seen, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) jobs: usize,
    pub(crate) starts: usize,
    /// Jobs that were started more than once.
    pub(crate) repeated: usize,
    /// Reports that the store refused.
    pub(crate) refused: usize,
    pub(crate) occurrences: usize,
    /// Jobs that follow others.
    pub(crate) successors: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, starts, repeated, refused, occurrences, successors } = self;
        write!(f, "{jobs} jobs, {starts} starts, {repeated} jobs run again, {refused} reports refused, ")?;
        write!(f, "{occurrences} occurrences, {successors} successors")
    }
}

/// One job, as the log tells of it.
#[derive(Default)]
struct Told {
    accepted: bool,
    starts: Vec<Run>,
    /// The line of the first of them.
    first: Option<usize>,
    /// By fence, and the line.
    effects: BTreeMap<i64, usize>,
    /// Who was told that it is over, and after how many starts.
    over: Vec<(u32, usize)>,
}

/// The verdict.
pub(crate) fn check(evidence: &Evidence) -> Result<Seen, Vec<Violation>> {
    let mut seen = Seen::default();
    let mut jobs: BTreeMap<i64, Told> = BTreeMap::new();
    let mut owed: Vec<(i64, usize)> = Vec::new();
    for (line, entry) in evidence.log.iter().enumerate() {
        match entry {
            Entry::Accepted { id } => jobs.entry(*id).or_default().accepted = true,
            Entry::Owed { id, links } => owed.push((*id, *links)),
            Entry::Started(run) => {
                let told = jobs.entry(run.id).or_default();
                told.starts.push(*run);
                told.first.get_or_insert(line);
            }
            Entry::Effect(run) => {
                jobs.entry(run.id).or_default().effects.entry(run.fence).or_insert(line);
            }
            Entry::Over { id, process, .. } => {
                let told = jobs.entry(*id).or_default();
                told.over.push((*process, told.starts.len()));
            }
            Entry::Refused { .. } => seen.refused += 1,
        }
    }
    let rows: BTreeMap<i64, &Row> = evidence.rows.iter().map(|row| (row.id, row)).collect();
    let mut wrong = Vec::new();
    let nothing = Told::default();
    let ids: BTreeSet<i64> = jobs.keys().chain(rows.keys()).copied().collect();
    for id in ids {
        let told = jobs.get(&id).unwrap_or(&nothing);
        match rows.get(&id) {
            Some(row) => check_job(row, told, evidence.leave, &mut wrong),
            None if told.accepted => wrong.push(Violation::Lost { id }),
            // Forgotten in order, by whoever has taken it out.
            None => {}
        }
        seen.starts += told.starts.len();
        seen.repeated += usize::from(told.starts.len() > 1);
    }
    seen.jobs = rows.len();
    for series in &evidence.series {
        seen.occurrences += check_series(series, &evidence.rows, &mut wrong);
        let is_one = |row: &&Row| row.series.as_ref().is_some_and(|(name, _)| *name == series.name);
        owed.extend(evidence.rows.iter().filter(is_one).map(|row| (row.id, series.links)));
    }
    seen.successors = check_successors(owed, &rows, &jobs, &mut wrong);
    if wrong.is_empty() { Ok(seen) } else { Err(wrong) }
}

fn check_job(row: &Row, told: &Told, leave: Leave, wrong: &mut Vec<Violation>) {
    let id = row.id;
    for run in told.starts.iter().filter(|run| run.now < run.due) {
        wrong.push(Violation::Early { id, micros: run.due - run.now });
    }
    for pair in told.starts.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if before.fence >= after.fence && !leave.leases_lapse {
            wrong.push(Violation::FenceFell { id, before: before.fence, after: after.fence });
        }
        if before.process == after.process && !leave.leases_lapse && !leave.handlers_fail {
            wrong.push(Violation::StartedTwice { id, process: after.process });
        }
    }
    if told.over.len() > 1 {
        wrong.push(Violation::OverTwice { id, times: told.over.len() });
    }
    let is_superseded = |run: &&Run| leave.leases_lapse && run.fence < row.fence;
    if let Some((_, starts)) = told.over.first()
        && let Some(run) = told.starts[*starts..].iter().find(|run| !is_superseded(run))
    {
        wrong.push(Violation::StartedAfterTheEnd { id, fence: run.fence });
    }
    if row.state != JobState::Done {
        wrong.push(Violation::NotOver { id, state: row.state });
        return;
    }
    let Some(latest) = told.starts.iter().map(|run| run.fence).max() else {
        wrong.push(Violation::NeverStarted { id });
        return;
    };
    if row.fence != latest {
        wrong.push(Violation::StaleOutcome { id, fence: row.fence, latest });
    }
    let holder = told.starts.iter().find(|run| run.fence == row.fence).map(|run| run.process);
    if let Some((process, _)) = told.over.first()
        && Some(*process) != holder
    {
        wrong.push(Violation::StaleFinish { id, process: *process });
    }
    if !told.effects.contains_key(&row.fence) {
        wrong.push(Violation::NoEffect { id, fence: row.fence });
    }
    if row.attempt != 1 && !leave.handlers_fail {
        wrong.push(Violation::AttemptCharged { id, attempt: row.attempt });
    }
    if (row.crashes as usize) < told.starts.len() - 1 && !leave.handlers_fail && !leave.leases_lapse {
        wrong.push(Violation::CrashUncounted { id, crashes: row.crashes, starts: told.starts.len() });
    }
}

/// Says how many occurrences there are.
fn check_series(series: &Series, rows: &[Row], wrong: &mut Vec<Violation>) -> usize {
    let name = || series.name.clone();
    let mut found = BTreeSet::new();
    for row in rows {
        let Some((_, nominal)) = row.series.as_ref().filter(|(name, _)| *name == series.name) else {
            continue;
        };
        if !found.insert(*nominal) {
            wrong.push(Violation::OccurrenceTwice { series: name(), nominal: *nominal });
        }
    }
    let mut owed = series.start;
    while owed < series.next {
        if !found.remove(&owed) {
            wrong.push(Violation::OccurrenceMissing { series: name(), nominal: owed });
        }
        owed += series.period;
    }
    wrong.extend(found.into_iter().map(|nominal| Violation::OccurrenceOffGrid { series: name(), nominal }));
    usize::try_from((owed - series.start) / series.period).unwrap()
}

/// Walks down every chain, `owed` being the jobs that others are to follow and how many; says how many follow.
fn check_successors(
    mut owed: Vec<(i64, usize)>,
    rows: &BTreeMap<i64, &Row>,
    jobs: &BTreeMap<i64, Told>,
    wrong: &mut Vec<Violation>,
) -> usize {
    let mut successors: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows.values() {
        if let Some(parent) = row.parent {
            successors.entry(parent).or_default().push(row.id);
        }
    }
    let count = successors.values().map(Vec::len).sum();
    while let Some((id, links)) = owed.pop() {
        // One that is lost, or not over, is a fault of its own.
        let Some(row) = rows.get(&id).filter(|_| links > 0) else { continue };
        let had = successors.remove(&id).unwrap_or_default();
        match had.len() {
            _ if row.state != JobState::Done => {
                let unasked = |successor: &i64| Violation::SuccessorUnasked { id, successor: *successor };
                wrong.extend(had.iter().map(unasked));
            }
            0 => wrong.push(Violation::SuccessorMissing { id }),
            1 => {}
            times => wrong.push(Violation::SuccessorTwice { id, times }),
        }
        // Before the store knew that it is done, by the claim that counts, its work was.
        let done = jobs.get(&id).and_then(|told| told.effects.get(&row.fence));
        for successor in had {
            let first = jobs.get(&successor).and_then(|told| told.first);
            if first.is_some_and(|first| done.is_none_or(|done| first < *done)) {
                wrong.push(Violation::SuccessorTooSoon { id, successor });
            }
            owed.push((successor, links - 1));
        }
    }
    let unasked = successors.into_iter().flat_map(|(id, all)| all.into_iter().map(move |it| (id, it)));
    wrong.extend(unasked.map(|(id, successor)| Violation::SuccessorUnasked { id, successor }));
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: i64, fence: i64, process: u32) -> Run {
        Run { id, fence, due: 100, now: 100, process }
    }

    fn over(id: i64, process: u32) -> Entry {
        Entry::Over { id, state: "done".to_owned(), process }
    }

    fn row(id: i64, fence: i64) -> Row {
        Row { id, state: JobState::Done, attempt: 1, crashes: 0, fence, series: None, parent: None }
    }

    /// Job 1 ran once. Job 2 was started by process 10, which was killed, and done by process 11. Job 3 is the second of
    /// two occurrences of a schedule, job 4 the first. Jobs 5, 6 and 7 are a chain; its head was done by process 10, which
    /// was killed before it could say so.
    fn sound() -> Evidence {
        let (first, again) = (run(2, 2, 10), run(2, 5, 11));
        let log = vec![
            Entry::Accepted { id: 1 },
            Entry::Accepted { id: 2 },
            Entry::Started(run(1, 1, 10)),
            Entry::Effect(run(1, 1, 10)),
            Entry::Started(first),
            over(1, 10),
            Entry::Started(run(4, 3, 11)),
            Entry::Effect(run(4, 3, 11)),
            Entry::Started(run(3, 4, 11)),
            Entry::Effect(run(3, 4, 11)),
            Entry::Accepted { id: 5 },
            Entry::Owed { id: 5, links: 2 },
            Entry::Started(run(5, 6, 10)),
            Entry::Effect(run(5, 6, 10)),
            Entry::Started(run(6, 7, 11)),
            Entry::Effect(run(6, 7, 11)),
            over(6, 11),
            Entry::Started(run(7, 8, 11)),
            Entry::Effect(run(7, 8, 11)),
            over(7, 11),
            Entry::Started(again),
            Entry::Effect(again),
            over(2, 11),
        ];
        let occurrence =
            |id, fence, nominal| Row { series: Some(("tick".to_owned(), nominal)), ..row(id, fence) };
        let follows = |parent, id, fence| Row { parent: Some(parent), ..row(id, fence) };
        let mut rows =
            vec![row(1, 1), Row { crashes: 1, ..row(2, 5) }, occurrence(3, 4, 110), occurrence(4, 3, 100)];
        rows.extend([row(5, 6), follows(5, 6, 7), follows(6, 7, 8)]);
        let series = vec![Series { name: "tick".to_owned(), start: 100, period: 10, next: 120, links: 0 }];
        Evidence { log, rows, series, leave: Leave::default() }
    }

    #[test]
    fn what_is_sound_passes_and_is_counted() {
        let seen = Seen { jobs: 7, starts: 8, repeated: 1, refused: 0, occurrences: 2, successors: 2 };
        assert_eq!(check(&sound()), Ok(seen));
    }

    /// Each rule finds its fault, and no other rule cries.
    #[test]
    fn every_seeded_fault_is_found() {
        let series = || "tick".to_owned();
        type Seed = fn(&mut Evidence);
        let seeds: Vec<(Seed, Vec<Violation>)> = vec![
            (|e| drop(e.rows.remove(0)), vec![Violation::Lost { id: 1 }]),
            (
                |e| e.rows[0].state = JobState::Scheduled,
                vec![Violation::NotOver { id: 1, state: JobState::Scheduled }],
            ),
            (|e| e.rows[0].state = JobState::Dead, vec![Violation::NotOver { id: 1, state: JobState::Dead }]),
            (|e| e.log.push(over(1, 10)), vec![Violation::OverTwice { id: 1, times: 2 }]),
            (
                |e| e.log.insert(2, Entry::Started(Run { now: 93, ..run(1, 0, 9) })),
                vec![
                    Violation::Early { id: 1, micros: 7 },
                    Violation::CrashUncounted { id: 1, crashes: 0, starts: 2 },
                ],
            ),
            (
                |e| e.log.retain(|entry| !matches!(entry, Entry::Started(run) if run.id == 4)),
                vec![Violation::NeverStarted { id: 4 }],
            ),
            (
                |e| e.log.retain(|entry| !matches!(entry, Entry::Effect(run) if run.fence == 5)),
                vec![Violation::NoEffect { id: 2, fence: 5 }],
            ),
            (
                // Process 10 comes back, and its report is believed.
                |e| *e.log.last_mut().unwrap() = over(2, 10),
                vec![Violation::StaleFinish { id: 2, process: 10 }],
            ),
            (
                |e| {
                    e.rows[1].fence = 2;
                    e.log.insert(5, Entry::Effect(run(2, 2, 10)));
                    *e.log.last_mut().unwrap() = over(2, 10);
                },
                vec![Violation::StaleOutcome { id: 2, fence: 2, latest: 5 }],
            ),
            (
                |e| {
                    e.log.extend([Entry::Started(run(2, 6, 12)), Entry::Effect(run(2, 6, 12))]);
                    (e.rows[1].fence, e.rows[1].crashes) = (6, 2);
                },
                vec![
                    Violation::StartedAfterTheEnd { id: 2, fence: 6 },
                    Violation::StaleFinish { id: 2, process: 11 },
                ],
            ),
            (
                |e| {
                    for entry in &mut e.log {
                        if let Entry::Started(run) = entry
                            && run.fence == 2
                        {
                            run.fence = 9;
                        }
                    }
                },
                vec![
                    Violation::FenceFell { id: 2, before: 9, after: 5 },
                    Violation::StaleOutcome { id: 2, fence: 5, latest: 9 },
                ],
            ),
            (
                |e| {
                    for entry in &mut e.log {
                        if let Entry::Started(run) = entry
                            && run.fence == 2
                        {
                            run.process = 11;
                        }
                    }
                },
                vec![Violation::StartedTwice { id: 2, process: 11 }],
            ),
            (|e| e.rows[1].attempt = 2, vec![Violation::AttemptCharged { id: 2, attempt: 2 }]),
            (|e| e.rows[1].crashes = 0, vec![Violation::CrashUncounted { id: 2, crashes: 0, starts: 2 }]),
            (
                |e| e.rows[2].series = Some(("tick".to_owned(), 100)),
                vec![
                    Violation::OccurrenceTwice { series: series(), nominal: 100 },
                    Violation::OccurrenceMissing { series: series(), nominal: 110 },
                ],
            ),
            (
                |e| e.rows[2].series = Some(("tick".to_owned(), 111)),
                vec![
                    Violation::OccurrenceMissing { series: series(), nominal: 110 },
                    Violation::OccurrenceOffGrid { series: series(), nominal: 111 },
                ],
            ),
            (|e| drop(e.rows.pop()), vec![Violation::SuccessorMissing { id: 6 }]),
            (
                // The head says that it is done, and what followed was lost with its process.
                |e| {
                    e.rows.truncate(5);
                    e.log.retain(|entry| !matches!(entry, Entry::Over { id: 6 | 7, .. }));
                },
                vec![Violation::SuccessorMissing { id: 5 }],
            ),
            (|e| e.series[0].links = 1, [4, 3].map(|id| Violation::SuccessorMissing { id }).into()),
            (
                |e| e.rows[0].parent = Some(6),
                vec![
                    Violation::SuccessorTwice { id: 6, times: 2 },
                    Violation::SuccessorTooSoon { id: 6, successor: 1 },
                ],
            ),
            (|e| e.rows[4].parent = Some(7), vec![Violation::SuccessorUnasked { id: 7, successor: 5 }]),
            (
                |e| e.rows[4].state = JobState::Dead,
                vec![
                    Violation::NotOver { id: 5, state: JobState::Dead },
                    Violation::SuccessorUnasked { id: 5, successor: 6 },
                ],
            ),
            (
                |e| {
                    let done = e.log.iter().position(|entry| *entry == Entry::Effect(run(5, 6, 10)));
                    let next = e.log.iter().position(|entry| *entry == Entry::Started(run(6, 7, 11)));
                    e.log.swap(done.unwrap(), next.unwrap());
                },
                vec![Violation::SuccessorTooSoon { id: 5, successor: 6 }],
            ),
            (
                // The claim that counts is the second: what the first did makes nothing follow.
                |e| {
                    let again = [Entry::Started(run(5, 9, 12)), Entry::Effect(run(5, 9, 12))];
                    e.log.extend(again);
                    (e.rows[4].fence, e.rows[4].crashes) = (9, 1);
                },
                vec![Violation::SuccessorTooSoon { id: 5, successor: 6 }],
            ),
        ];
        for (seed, expected) in seeds {
            let mut evidence = sound();
            seed(&mut evidence);
            assert_eq!(check(&evidence), Err(expected));
        }
    }

    #[test]
    fn what_the_fault_explains_is_allowed_and_nothing_else() {
        let mut evidence = sound();
        for entry in &mut evidence.log {
            if let Entry::Started(run) = entry
                && run.fence == 2
            {
                run.process = 11;
            }
        }
        (evidence.rows[1].attempt, evidence.rows[1].crashes) = (2, 0);
        evidence.leave.handlers_fail = true;
        assert!(check(&evidence).is_ok());
        evidence.log.push(over(2, 11));
        assert_eq!(check(&evidence), Err(vec![Violation::OverTwice { id: 2, times: 2 }]));
    }

    /// Process 10 was stopped between its claim and its start, and goes on when process 11 has ended the job.
    #[test]
    fn a_claim_that_has_lapsed_may_start_late_but_may_not_end_the_job() {
        let mut evidence = sound();
        let first = evidence.log.remove(4);
        evidence.log.push(first.clone());
        assert!(check(&evidence).is_err());
        evidence.leave.leases_lapse = true;
        assert!(check(&evidence).is_ok());
        evidence.log.push(over(2, 10));
        assert_eq!(check(&evidence), Err(vec![Violation::OverTwice { id: 2, times: 2 }]));
        evidence.log.retain(|entry| *entry != over(2, 11));
        assert_eq!(check(&evidence), Err(vec![Violation::StaleFinish { id: 2, process: 10 }]));
        evidence.log.pop();
        evidence.log.push(Entry::Started(run(2, 7, 12)));
        assert_eq!(check(&evidence), Err(vec![Violation::StaleOutcome { id: 2, fence: 5, latest: 7 }]));
    }
}
