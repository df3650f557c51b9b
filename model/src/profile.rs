//! A profile: what each request cost a service and what came on top, and its file (`formats/profile.md`).

use std::io::{self, BufRead, Write};

/// First line of a profile file.
const HEADER: &str = "execution_ns,transport_ns";
/// The longest time in a profile, an hour: computations with profiles then do not overflow 64 bits.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Execution and transport time of requests, in ns, index by index the same request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Processor time of the service's thread for it.
    pub execution: Vec<u64>,
    /// Round trip less execution: network stack, waking up, waiting for a processor.
    pub transport: Vec<u64>,
}

impl Profile {
    /// Writes the file. Wrap slow writers in a `BufWriter`.
    ///
    /// # Errors
    /// The writer's; `InvalidInput` if the two columns are not equally long.
    pub fn write(&self, mut w: impl Write) -> io::Result<()> {
        if self.execution.len() != self.transport.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "execution and transport differ in length"));
        }
        writeln!(w, "{HEADER}")?;
        self.execution.iter().zip(&self.transport).try_for_each(|(e, t)| writeln!(w, "{e},{t}"))?;
        w.flush()
    }

    /// Reads a file. O(n) time and memory.
    ///
    /// # Errors
    /// The reader's, or the first line that makes no sense: execution must be 1 ns to one hour, transport 0 to one hour.
    /// A file without requests is empty, not wrong.
    pub fn read(r: impl BufRead) -> Result<Profile, ProfileError> {
        let mut profile = Profile::default();
        let mut lines = r.lines().enumerate();
        let bad = |index: usize, found: String| ProfileError::Line { line: index + 1, found };
        match lines.next() {
            None => return Err(bad(0, "the file is empty".into())),
            Some((_, header)) => {
                let header = header.map_err(ProfileError::Io)?;
                if header.trim_end() != HEADER {
                    return Err(bad(0, format!("'{header}' is not the header")));
                }
            }
        }
        for (index, text) in lines {
            let text = text.map_err(ProfileError::Io)?;
            let number = |t: &str, least: u64| match t.parse() {
                Ok(ns) if (least..=LONGEST_NS).contains(&ns) => Ok(ns),
                Ok(ns) => Err(bad(index, format!("{ns} ns is not between {least} and {LONGEST_NS} (one hour)"))),
                Err(_) => Err(bad(index, format!("'{t}' is not a whole number"))),
            };
            let fields = text.trim_end().split_once(',');
            let (execution, transport) = fields.ok_or_else(|| bad(index, format!("'{text}' is not two fields")))?;
            profile.execution.push(number(execution, 1)?);
            profile.transport.push(number(transport, 0)?);
        }
        Ok(profile)
    }
}

/// Why a file is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The reader's.
    #[error("cannot read it: {0}")]
    Io(io::Error),
    /// A line makes no sense.
    #[error("line {line}: {found}; expected execution_ns,transport_ns and below it two times a line in whole ns, at most one hour each, execution at least 1: measure it again with 'giusto measure execution'")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        found: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_the_same_after_its_file() {
        let profile = Profile { execution: vec![7, 1, LONGEST_NS], transport: vec![1, 0, LONGEST_NS] };
        let mut file = Vec::new();
        profile.write(&mut file).unwrap();
        assert_eq!(file, b"execution_ns,transport_ns\n7,1\n1,0\n3600000000000,3600000000000\n");
        assert_eq!(Profile::read(&file[..]).unwrap(), profile);
        let uneven = Profile { transport: vec![], ..profile };
        assert_eq!(uneven.write(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        let below = |line: &str| format!("{HEADER}\n1,2\n{line}\n");
        let files = [("".into(), 1), ("execution_ns\n".into(), 1), (below(""), 3), (below("1"), 3), (below("1,"), 3)];
        let numbers = [below("1,2,3"), below("1,-2"), below("1.5,2"), below("1, 2"), below("18446744073709551616,1")];
        // A job of nothing, and times that no sum could hold.
        let times = [below("0,2"), below("18446744073709551615,1"), below("1,18446744073709551615")];
        for (file, expected) in files.into_iter().chain(numbers.into_iter().chain(times).map(|f| (f, 3))) {
            match Profile::read(file.as_bytes()) {
                Err(ProfileError::Line { line, .. }) => assert_eq!(line, expected, "{file}"),
                other => panic!("{file}: {other:?}"),
            }
        }
    }
}
