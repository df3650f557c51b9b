//! Tables that line up, JSON, and the way out to the terminal.

use crate::failure::Failure;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Rows of cells two blanks apart: the first `left` columns to the left, the others to the right.
pub(crate) fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, cell): (usize, &String)| match column < left {
            true => format!("{cell:<0$}", widths[column]),
            false => format!("{cell:>0$}", widths[column]),
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

/// A table whose columns `right` are numbers.
pub(crate) fn aligned(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let mut rows = rows.to_vec();
    for &column in right {
        let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        rows.iter_mut().for_each(|row| row[column] = format!("{:>width$}", row[column]));
    }
    table(&rows, usize::MAX).lines().map(String::from).collect()
}

/// A time to a thousandth of its unit.
pub(crate) fn time(ns: u64) -> String {
    format!("{:.3}", giusto_model::Duration::from_ns(ns))
}

/// A text in lines of at most `width` characters, broken at blanks; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.into()),
        }
    }
    lines
}

/// Prints a line to standard output.
macro_rules! say {
    ($($text:tt)*) => { crate::table::print(&format!("{}\n", format_args!($($text)*)))? };
}
pub(crate) use say;

/// Prints to standard output. Where no process reads any more (`| head`) the program ends quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::quiet(),
        _ => Failure::running(format!("cannot write to standard output: {error}")),
    })
}

/// Prints `value` as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::running)?;
    say!("{text}");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_break_at_blanks_and_long_words_stand_alone() {
        assert_eq!(super::wrapped("a bc def ghijklm n", 6), ["a bc", "def", "ghijklm", "n"]);
        assert!(super::wrapped("", 6).is_empty());
    }
}
