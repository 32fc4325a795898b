//! Priorities that do not starve anybody.
//!
//! Four lanes. When more is due than there is room for, each lane that has something to run gets its weight of
//! the room, 8 : 4 : 2 : 1, and what a lane does not use is passed on. So the background lane always moves, and
//! there is no ageing that could go wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How urgent a job is when there is not room for all that are due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lane {
    /// Eight shares.
    Urgent,
    /// Four shares. The default.
    #[default]
    Normal,
    /// Two shares.
    Low,
    /// One share.
    Background,
}

impl Lane {
    /// All lanes, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Normal, Self::Low, Self::Background];

    /// 0 for the most urgent, 3 for the least.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The lane of that index; anything beyond the last is the last.
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self::ALL.get(index).copied().unwrap_or(Self::Background)
    }

    fn weight(self) -> usize {
        8 >> self.index()
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Urgent => "urgent",
            Self::Normal => "normal",
            Self::Low => "low",
            Self::Background => "background",
        })
    }
}

/// How many of the `waiting` in each lane get one of the `room` places.
///
/// Everybody who waits gets a place if there is room for all. Otherwise all the room is given away, every lane
/// in which somebody waits gets its share rounded down, at least one if there are four places, and what is left
/// over goes to the most urgent.
///
/// ```
/// use punctual_durable::share;
///
/// assert_eq!(share(15, [100, 100, 100, 100]), [8, 4, 2, 1]);
/// assert_eq!(share(15, [1, 0, 100, 100]), [1, 0, 10, 4]);
/// assert_eq!(share(15, [3, 3, 3, 3]), [3, 3, 3, 3]);
/// ```
#[must_use]
pub fn share(room: usize, waiting: [usize; 4]) -> [usize; 4] {
    let mut given = [0; 4];
    let mut left = room;
    // A lane that waits for less than its share frees the rest of it; then the shares of the others grow. Each
    // turn of the loop satisfies a lane or is the last but one: at most five.
    loop {
        let open: Vec<Lane> =
            Lane::ALL.into_iter().filter(|lane| given[lane.index()] < waiting[lane.index()]).collect();
        if left == 0 || open.is_empty() {
            return given;
        }
        let weights: usize = open.iter().map(|lane| lane.weight()).sum();
        let shares: Vec<(usize, usize)> = open
            .iter()
            .map(|lane| {
                let floor = usize::from(room >= Lane::ALL.len() && given[lane.index()] == 0);
                (
                    lane.index(),
                    (left / weights * lane.weight() + left % weights * lane.weight() / weights).max(floor),
                )
            })
            .collect();
        let mut moved = false;
        // The least urgent first: their single places must not be eaten by rounding in favour of the others.
        for (index, share) in shares.into_iter().rev() {
            let more = share.min(waiting[index] - given[index]).min(left);
            given[index] += more;
            left -= more;
            moved |= more > 0;
        }
        if !moved {
            // Fewer places than weights: one by one, the most urgent first.
            let index = open[0].index();
            given[index] += 1;
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_room_is_given_away_and_nobody_starves() {
        for _ in 0..20_000 {
            let waiting = [(); 4].map(|()| fastrand::usize(0..40) * fastrand::usize(0..2));
            let room = fastrand::usize(0..60);
            let given = share(room, waiting);
            let total: usize = given.iter().sum();
            assert_eq!(
                total,
                room.min(waiting.iter().sum()),
                "room {room} waiting {waiting:?} given {given:?}"
            );
            for lane in 0..4 {
                assert!(given[lane] <= waiting[lane], "room {room} waiting {waiting:?} given {given:?}");
                let starved = waiting[lane] > 0 && given[lane] == 0;
                assert!(!starved || room < 4, "room {room} waiting {waiting:?} given {given:?}");
            }
        }
    }

    #[test]
    fn one_place_goes_to_the_most_urgent() {
        assert_eq!(share(1, [0, 5, 5, 5]), [0, 1, 0, 0]);
        assert_eq!(share(2, [5, 5, 0, 0]), [2, 0, 0, 0]);
        assert_eq!(share(usize::MAX, [1, 2, 3, 4]), [1, 2, 3, 4]);
    }

    #[test]
    fn shares_follow_the_weights() {
        assert_eq!(share(150, [1000; 4]), [80, 40, 20, 10]);
        assert_eq!(share(30, [1000, 0, 0, 1000]), [27, 0, 0, 3]);
    }
}
