//! Texts in files that Giusto writes.

use std::fmt::Write;

/// A text as YAML takes it in double quotes (YAML 1.2, section 7.3.1), whatever characters it has. O(n).
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || ('\u{2028}'..='\u{2029}').contains(&c) || c == '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}
