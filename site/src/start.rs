//! `start:`: a program and its arguments, as a list or as one line that is split as a shell splits words. There is no
//! shell: whatever a shell would expand or interpret is refused.

use crate::error::{Fault, Span};
use crate::tree::{Kind, Node, Text};
use crate::value::{scalar, text};
use std::iter::Peekable;
use std::str::Chars;

const EXPECTED: &str = "expected a program and its arguments, such as redis-server --port 7001 or [sh, -c, \"...\"]";

/// Reads a command; at least the program, whose name is not empty.
pub(crate) fn read(node: &Node) -> Result<Vec<String>, Fault> {
    let words = match &node.kind {
        Kind::List(items) => {
            items.iter().map(|item| text(item, EXPECTED).map(str::to_string)).collect::<Result<_, _>>()?
        }
        _ => {
            let line = scalar(node, EXPECTED)?;
            split(&line.text).map_err(|(at, found, expected)| Fault::new(place(line, at), found, expected))?
        }
    };
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(node.fault("there is no program to start", EXPECTED)),
    }
}

/// Where the `at`-th character of `line` is, if it was written as it is meant.
fn place(line: &Text, at: usize) -> Span {
    if line.bare && line.span.width == line.text.chars().count() {
        return Span { column: line.span.column + at, width: 1, ..line.span };
    }
    line.span
}

/// A character's index, what is wrong with it, and what was expected.
type Refusal = (usize, String, &'static str);

struct Line<'a> {
    rest: Peekable<Chars<'a>>,
    at: usize,
}

impl Iterator for Line<'_> {
    type Item = char;
    fn next(&mut self) -> Option<char> {
        self.at += 1;
        self.rest.next()
    }
}

/// Splits a line at blanks, as POSIX does (XCU 2.2): single quotes keep everything, double quotes and backslashes too,
/// but for `\\`, `\"`, `\$` and `` \` ``.
fn split(text: &str) -> Result<Vec<String>, Refusal> {
    let mut line = Line { rest: text.trim_end().chars().peekable(), at: 0 };
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    while let Some(c) = line.next() {
        let start = line.at - 1;
        let unclosed = |quote: char| {
            (
                start,
                format!("the quote {quote} is never closed"),
                "expected the same quote again at the end of the word",
            )
        };
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match line.next().ok_or_else(|| unclosed(c))? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut line, word.get_or_insert_default())?.ok_or_else(|| unclosed(c))?,
            '\\' => {
                let next = line.next().filter(|&c| c != '\n');
                let expected = "expected a character after it; write '\\\\' for a backslash";
                word.get_or_insert_default()
                    .push(next.ok_or_else(|| (start, "the line ends with a backslash".to_string(), expected))?);
            }
            _ if is_special(c, word.is_none()) => return Err(refusal(start, c)),
            '=' if words.is_empty() && word.as_deref().is_some_and(is_variable) => {
                let found = "a shell would set a variable here, and there is no shell".to_string();
                return Err((start, found, "expected a program first; set variables with env: env NAME=value program"));
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Up to and with the closing quote; `None` if there is none.
fn double_quoted(line: &mut Line<'_>, word: &mut String) -> Result<Option<()>, Refusal> {
    while let Some(c) = line.next() {
        match c {
            '"' => return Ok(Some(())),
            '$' | '`' => return Err(refusal(line.at - 1, c)),
            '\\' if line.rest.peek().is_some_and(|next| "\\\"$`".contains(*next)) => word.extend(line.next()),
            c => word.push(c),
        }
    }
    Ok(None)
}

/// Whether a shell would do something with `c` outside of quotes.
fn is_special(c: char, first_of_word: bool) -> bool {
    "$`|<>;&()*?[\n\r".contains(c) || (first_of_word && "~#".contains(c))
}

fn refusal(at: usize, c: char) -> Refusal {
    if "\n\r".contains(c) {
        let found = "a line break would end the command, and there is no shell to start another".to_string();
        return (at, found, "expected one command on one line, or a list: [sh, -c, \"...\"]");
    }
    let found = format!("a shell would interpret '{c}' here, and there is no shell");
    (at, found, "expected plain words; put it in single quotes to mean itself, or use a list: [sh, -c, \"...\"]")
}

fn is_variable(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !word.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        for (line, words) in [
            ("redis-server --port 7001 --save ''", vec!["redis-server", "--port", "7001", "--save", ""]),
            ("  a \t b  ", vec!["a", "b"]),
            ("a'b c'd\"e f\"", vec!["ab cde f"]),
            (r"a\ b \' \\", vec!["a b", "'", "\\"]),
            (r#""a\"b" "\$x" "\n""#, vec!["a\"b", "$x", "\\n"]),
            ("'$HOME | > ; & * `'", vec!["$HOME | > ; & * `"]),
            ("a~b a#b x --k=v {} !", vec!["a~b", "a#b", "x", "--k=v", "{}", "!"]),
            ("env A=b x", vec!["env", "A=b", "x"]),
            ("", vec![]),
        ] {
            assert_eq!(split(line).as_deref(), Ok(words.iter().map(|w| w.to_string()).collect::<Vec<_>>().as_slice()));
        }
    }

    #[test]
    fn what_a_shell_would_interpret_is_refused_at_its_place() {
        for (line, at) in [
            ("a $b", 2),
            ("a `b`", 2),
            ("a|b", 1),
            ("a > b", 2),
            ("a;b", 1),
            ("a &", 2),
            ("a <b", 2),
            ("a *.c", 2),
            ("(a)", 0),
            ("~/bin/a", 0),
            ("a # b", 2),
            ("A=b c", 1),
            ("a\nb", 1),
            ("\"a $b\"", 3),
            ("é 'x", 2),
            ("a \"x", 2),
            ("a\\", 1),
        ] {
            assert_eq!(split(line).map_err(|(at, ..)| at), Err(at), "{line}");
        }
    }
}
