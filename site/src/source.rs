//! The text of a site file by lines: what may be in it at all, and how a place in it is shown.

use crate::error::{Fault, Located, SiteError, Span};

/// Longest line shown whole, in characters; of longer ones the neighbourhood of the place is shown.
const LONGEST_LINE: usize = 120;

pub(crate) struct Source<'a> {
    name: &'a str,
    pub(crate) text: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(name: &'a str, text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        Source { name, text, lines }
    }

    /// Name of the file.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// Refuses control characters: some end the YAML stream silently, others would garble the terminal.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        for (index, line) in self.lines.iter().enumerate() {
            if let Some((before, c)) = line.chars().enumerate().find(|&(_, c)| c.is_control() && c != '\t') {
                let at = Span { line: index + 1, column: before + 1, width: 1 };
                let found = format!("the character U+{:04X} is invisible", c as u32);
                return Err(Fault::new(at, found, "expected readable text; delete the character"));
            }
        }
        Ok(())
    }

    /// The lines of the text.
    pub(crate) fn lines(&self) -> &[&'a str] {
        &self.lines
    }

    /// Where the text's `index`-th character is.
    pub(crate) fn at_char(&self, index: usize) -> Span {
        let before: String = self.text.chars().take(index).collect();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Span { line: before.matches('\n').count() + 1, column: line.chars().count() + 1, width: 1 }
    }

    /// The end of the last line that says something.
    pub(crate) fn end(&self) -> Span {
        let line = self.lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0);
        Span { line: line + 1, column: self.lines[line].trim_end().chars().count() + 1, width: 1 }
    }

    /// Shows `fault` in this text. A place outside of the text (which a YAML parser may name) becomes its end.
    pub(crate) fn error(&self, fault: Fault) -> SiteError {
        let at = match self.lines.get(fault.at.line - 1) {
            Some(line) if fault.at.column <= line.chars().count() + 1 => fault.at,
            _ => self.end(),
        };
        // Every character takes one place, so that the marker stands under the right one.
        let line: Vec<char> = self.lines[at.line - 1].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = at.column - 1;
        let start = if line.len() > LONGEST_LINE { before.saturating_sub(LONGEST_LINE / 2) } else { 0 };
        let end = line.len().min(start + LONGEST_LINE);
        let (left, right) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
        SiteError::Text(Box::new(Located {
            file: self.name.to_string(),
            line: at.line,
            column: at.column,
            found: fault.found,
            expected: fault.expected,
            excerpt: format!("{left}{}{right}", line[start..end].iter().collect::<String>()),
            indent: before - start + left.chars().count(),
            width: at.width.clamp(1, end.saturating_sub(before).max(1)),
        }))
    }
}
