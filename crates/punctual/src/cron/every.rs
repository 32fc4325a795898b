//! `@every 1h30m`: a period, not a pattern of wall times.

use super::error::CronError;
use super::parse::Piece;
use std::fmt;
use std::time::Duration;

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

const EXPECTED: &str = "a duration such as 1h30m (units: w d h m s ms)";

/// Reads the duration after `@every`; blanks within it are allowed.
pub(super) fn parse(name: Piece<'_>, rest: &[Piece<'_>]) -> Result<Duration, CronError> {
    let Some(first) = rest.first() else {
        return Err(name.part(name.text().len(), name.text().len()).error(EXPECTED));
    };
    let mut total: u64 = 0;
    for piece in rest {
        let mut done = 0;
        while done < piece.text().len() {
            let (length, millis) = part(*piece, done)?;
            total = total
                .checked_add(millis)
                .ok_or_else(|| first.error("a duration that fits into 64 bits of milliseconds"))?;
            done += length;
        }
    }
    match total {
        0 => Err(first.error("a duration longer than nothing")),
        _ => Ok(Duration::from_millis(total)),
    }
}

/// The length in bytes and the milliseconds of the number and unit that begin at `from`.
fn part(piece: Piece<'_>, from: usize) -> Result<(usize, u64), CronError> {
    let rest = &piece.text()[from..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
    let end = digits + letters;
    let place = if end == 0 { piece.part(from, piece.text().len()) } else { piece.part(from, from + end) };
    let unit = &rest[digits..end];
    let millis = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, millis)| *millis);
    let number = rest[..digits].parse::<u64>().ok();
    match millis.and_then(|millis| number?.checked_mul(millis)) {
        Some(millis) => Ok((end, millis)),
        None => Err(place.error(EXPECTED)),
    }
}

/// A period as `@every` reads it: `1h30m`.
pub(super) struct Period(pub(super) Duration);

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis() as u64;
        // Weeks and days are written as such only if nothing is left of them: 36h, not 1d12h.
        for (name, millis) in UNITS {
            let whole = rest % millis == 0 && rest == self.0.as_millis() as u64;
            if rest >= millis && (whole || millis <= 3_600_000) {
                write!(f, "{}{name}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}
