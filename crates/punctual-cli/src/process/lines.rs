//! Bytes as they come, lines as they go out; never more than one line in memory.

/// Lines beyond this are cut into pieces: a job may write a gigabyte without a newline.
pub(crate) const LONGEST_LINE: usize = 16 << 10;

/// Puts lines together.
#[derive(Default, Debug)]
pub(crate) struct Lines {
    /// The beginning of a line of which the end has not come. Shorter than [`LONGEST_LINE`].
    pending: Vec<u8>,
}

impl Lines {
    /// Takes `bytes` in and gives every line that is complete now, without its end, to `each`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let room = LONGEST_LINE - self.pending.len();
            let window = &bytes[..bytes.len().min(room)];
            match window.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.give(&bytes[..end], &mut each);
                    bytes = &bytes[end + 1..];
                }
                None if window.len() == room => {
                    self.give(window, &mut each);
                    bytes = &bytes[room..];
                }
                None => {
                    self.pending.extend_from_slice(window);
                    bytes = &[];
                }
            }
        }
    }

    /// What is left when nothing more comes.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.pending.is_empty() {
            self.give(&[], &mut each);
        }
    }

    fn give(&mut self, end: &[u8], each: &mut impl FnMut(&[u8])) {
        if self.pending.is_empty() {
            each(without_return(end));
        } else {
            self.pending.extend_from_slice(end);
            each(without_return(&self.pending));
            self.pending.clear();
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, |line| found.push(line.to_vec()));
        }
        lines.finish(|line| found.push(line.to_vec()));
        found
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text: &[u8] = b"one\n\ntwo\r\nthree";
        let whole = lines(&[text]);
        assert_eq!(whole, [&b"one"[..], b"", b"two", b"three"]);
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&single), whole);
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_nothing_of_it_is_lost() {
        let flood = vec![b'x'; 3 * LONGEST_LINE + 5];
        for chunk in [1, 1000, LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, flood.len()] {
            let chunks: Vec<&[u8]> = flood.chunks(chunk).collect();
            let sizes: Vec<usize> = lines(&chunks).iter().map(Vec::len).collect();
            assert_eq!(sizes, [LONGEST_LINE, LONGEST_LINE, LONGEST_LINE, 5], "in chunks of {chunk}");
        }
    }
}
