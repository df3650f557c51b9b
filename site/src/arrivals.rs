//! When messages or requests came, as a trace recorded it.

use giusto_model::Duration;

/// Columns that hold it, in files that have names of columns: a trace of messages, and Giusto's own job records.
const COLUMNS: [&str; 2] = ["arrival_ns", "release_ns"];

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct TraceError {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub why: String,
}

/// Reads a trace: a whole number of ns a line, or comma-separated values with a column `arrival_ns` or `release_ns`. Empty lines
/// and those that begin with `#` are left out. O(length).
///
/// # Errors
/// [`TraceError`] with the line.
pub fn read_arrivals(text: &str) -> Result<Vec<Duration>, TraceError> {
    let mut lines =
        text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    let mut column = 0;
    if let Some((head, line)) = lines.next_if(|(line, _)| line.starts_with(|c: char| c.is_ascii_alphabetic())) {
        let place = head.split(',').position(|name| COLUMNS.contains(&name.trim()));
        let why = || format!("no column for arrivals in '{head}'; expected {}", COLUMNS.join(" or "));
        column = place.ok_or_else(|| TraceError { line, why: why() })?;
    }
    let time = |(text, line): (&str, usize)| {
        let cell = text.split(',').nth(column).unwrap_or("").trim();
        let why = || format!("'{cell}' is not a time; expected a whole number of ns");
        cell.parse().map(Duration::from_ns).map_err(|_| TraceError { line, why: why() })
    };
    lines.map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_columns_are_read_and_what_is_neither_is_told_with_its_line() {
        let ns = |times: &[u64]| Ok(times.iter().map(|ns| Duration::from_ns(*ns)).collect::<Vec<_>>());
        assert_eq!(read_arrivals("# a trace\n5\n\n 7 \n"), ns(&[5, 7]));
        assert_eq!(read_arrivals("topic,arrival_ns\nx,5\ny,7\n"), ns(&[5, 7]));
        assert_eq!(read_arrivals("task,job,due_ns,release_ns,finish_ns\n0,1,2,3,4\n"), ns(&[3]));
        assert_eq!(read_arrivals(""), ns(&[]));
        let told = |text: &str| read_arrivals(text).unwrap_err().to_string();
        assert!(told("5\nsix\n").starts_with("line 2: 'six' is not a time"));
        assert!(told("5\n1e3\n").contains("expected a whole number of ns"));
        assert!(told("a,b\n1,2\n").contains("expected arrival_ns or release_ns"));
        assert!(told("topic,arrival_ns\nx\n").starts_with("line 2: '' is not a time"));
    }
}
