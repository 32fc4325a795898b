//! Random series against a model that does not know how they are made: lists of points and a loop.

use punctual::{Missed, MissedRule};

use crate::bodies::{SECOND, busy};
use crate::support::{Log, finish, manual};

#[derive(Clone, Copy, Debug)]
struct Case {
    rule: MissedRule,
    period: u64,
    cap: Option<u64>,
    within: Option<u64>,
}

impl Case {
    fn random() -> Self {
        let rules = [MissedRule::Burst, MissedRule::Skip, MissedRule::Once, MissedRule::Shift];
        Self {
            rule: rules[fastrand::usize(..4)],
            period: fastrand::u64(1..8),
            cap: fastrand::bool().then(|| fastrand::u64(0..4)),
            within: fastrand::bool().then(|| fastrand::u64(0..12)),
        }
    }

    fn policy(self) -> Missed {
        let missed = match self.rule {
            MissedRule::Burst => Missed::burst(),
            MissedRule::Skip => Missed::skip(),
            MissedRule::Once => Missed::once(),
            _ => Missed::shift(),
        };
        let missed = self.cap.map_or(missed, |cap| missed.at_most(cap));
        self.within.map_or(missed, |within| missed.within(SECOND * u32::try_from(within).unwrap()))
    }

    /// When each run begins, which point it is for, and how many were left out before it.
    fn expected(self, lengths: &[u64], until: u64) -> Vec<(u64, u64, u64)> {
        let (mut runs, mut now, mut point, mut caught_up, mut missed) = (Vec::new(), 0, 0, 0, 0);
        let mut lengths = lengths.iter();
        loop {
            now = now.max(point);
            if now > until {
                return runs;
            }
            runs.push((now, point, missed));
            missed = 0;
            now += lengths.next().unwrap_or(&0);
            let grid = |from: u64| (1..).map(move |n| from + n * self.period);
            let due: Vec<u64> = grid(point).take_while(|due| *due <= now).collect();
            let in_time: Vec<u64> = due
                .iter()
                .copied()
                .filter(|due| self.within.is_none_or(|within| now - due <= within))
                .collect();
            let ahead = grid(point).find(|due| *due > now).unwrap();
            let gives_up = self.rule == MissedRule::Skip || self.cap.is_some_and(|cap| caught_up >= cap);
            if in_time.is_empty() || gives_up {
                (point, caught_up, missed) = (ahead, 0, due.len() as u64);
                continue;
            }
            caught_up += 1;
            match self.rule {
                MissedRule::Burst => {
                    point = in_time[0];
                    missed = (due.len() - in_time.len()) as u64;
                }
                MissedRule::Once => {
                    point = *due.last().unwrap();
                    missed = due.len() as u64 - 1;
                }
                _ => point = now,
            }
        }
    }

    fn seen(self, lengths: &[u64], until: u64) -> Vec<(u64, u64, u64)> {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let body = busy(&clock, &log, lengths);
        let period = SECOND * u32::try_from(self.period).unwrap();
        let _task = pool.task(body).every(period).missed(self.policy()).start().unwrap();
        clock.wait_until_idle();
        while log.entries().last().is_none_or(|last| last.0 <= until) {
            clock.advance(SECOND);
        }
        finish(&pool);
        log.entries().into_iter().filter(|run| run.0 <= until).collect()
    }
}

#[test]
fn random_series_run_as_a_plain_list_of_points_would() {
    fastrand::seed(20);
    for _ in 0..300 {
        let case = Case::random();
        let lengths: Vec<u64> = (0..20)
            .map(|_| if fastrand::bool() { fastrand::u64(0..3 * case.period) } else { fastrand::u64(0..2) })
            .collect();
        assert_eq!(case.seen(&lengths, 60), case.expected(&lengths, 60), "{case:?} {lengths:?}");
    }
}
