//! Every text of the transcripts in `malformed/` and `malformed-carts/` is refused with what stands below it, golden and read by
//! a person. `GIUSTO_REWRITE=1` rewrites the errors; review the difference.
//!
//! A transcript is a list of cases, an empty line between two:
//!
//! ```text
//! === NAME
//! the text, up to the next mark
//! >>> refused
//! the error, four lines
//! ```
//!
//! A text that a plain file would not keep is `=== NAME (escaped)`: `\r`, `\t`, `\\` and `\u{HEX}` stand for characters, and the
//! last newline is not part of it.

use giusto_site::carts::{self, Unit};
use giusto_site::{parse, SiteError};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

const CASE: &str = "=== ";
const ESCAPED: &str = " (escaped)";
const REFUSED: &str = ">>> refused\n";

struct Case {
    /// The line that begins it.
    head: String,
    /// As it stands in the transcript.
    body: String,
    expected: String,
}

impl Case {
    fn read(text: &str) -> Case {
        let (head, rest) = text.split_once('\n').unwrap();
        let (body, expected) = rest.split_once(REFUSED).unwrap_or_else(|| panic!("{head}: no '{REFUSED}'"));
        Case { head: head.into(), body: body.into(), expected: expected.trim_end().to_string() + "\n" }
    }

    fn text(&self) -> String {
        if !self.head.ends_with(ESCAPED) {
            return self.body.clone();
        }
        let mut text = String::new();
        let mut rest = self.body.strip_suffix('\n').unwrap();
        while let Some((before, after)) = rest.split_once('\\') {
            text.push_str(before);
            let (one, left) = after.split_at(1);
            rest = left;
            match one {
                "r" => text.push('\r'),
                "t" => text.push('\t'),
                "\\" => text.push('\\'),
                "u" => {
                    let (code, left) = left.strip_prefix('{').unwrap().split_once('}').unwrap();
                    text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
                    rest = left;
                }
                other => panic!("{}: \\{other} is no escape", self.head),
            }
        }
        text + rest
    }
}

fn transcripts(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn cases(transcript: &Path) -> Vec<Case> {
    let text = fs::read_to_string(transcript).unwrap();
    let text = text.strip_prefix(CASE).unwrap_or_else(|| panic!("{}: no case", transcript.display()));
    text.split(&format!("\n{CASE}")).map(Case::read).collect()
}

#[test]
fn every_malformed_site_is_refused_with_its_place_and_what_to_do() {
    refused("malformed", 600, "site.yaml", &|text| parse("site.yaml", text));
}

#[test]
fn every_malformed_file_of_carts_is_refused_with_its_place_and_what_to_do() {
    refused("malformed-carts", 67, "system.xml", &|text| carts::parse("system.xml", text, Unit::Ms));
}

/// `least`: fewer cases mean that some were lost.
fn refused<T: Debug>(folder: &str, least: usize, name: &str, parse: &dyn Fn(&str) -> Result<T, SiteError>) {
    let rewrite = std::env::var_os("GIUSTO_REWRITE").is_some_and(|value| value == "1");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for transcript in transcripts(folder) {
        let mut cases = cases(&transcript);
        count += cases.len();
        for case in &mut cases {
            let error = match parse(&case.text()) {
                Ok(read) => panic!("{}: accepted: {read:?}", case.head),
                Err(error) => error,
            };
            let SiteError::Text(located) = &error else { panic!("{}: {error}", case.head) };
            let shown = format!("{error}\n");
            assert!(shown.starts_with(&format!("{name}:{}:{}: ", located.line, located.column)), "{shown}");
            assert!(!located.found.is_empty() && !located.expected.is_empty(), "{shown}");
            assert_eq!(shown.lines().count(), 4, "{shown}");
            if case.expected != shown {
                wrong.push(format!("{} in {}:\n{shown}", case.head, transcript.display()));
                case.expected = shown;
            }
        }
        if rewrite {
            let text = |case: &Case| format!("{CASE}{}\n{}{REFUSED}{}", case.head, case.body, case.expected);
            fs::write(&transcript, cases.iter().map(text).collect::<Vec<_>>().join("\n")).unwrap();
        }
    }
    assert!(count >= least, "only {count} malformed texts in {folder}");
    assert!(rewrite || wrong.is_empty(), "not as expected (GIUSTO_REWRITE=1 rewrites):\n{}", wrong.join("\n"));
}
