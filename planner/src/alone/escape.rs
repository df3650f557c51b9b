//! Names, words and comments in the files of other programs.

use std::fmt::Write;

/// Columns of a comment.
const WIDTH: usize = 110;

/// Lines of a comment, each begun with `sign`, broken at spaces; what is invisible becomes a space.
pub(crate) fn comment(sign: &str, lines: &[String]) -> String {
    let mut out = String::new();
    for line in lines {
        let mut column = 0;
        for word in line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
            let wide = word.chars().count();
            match column {
                0 => {
                    let _ = write!(out, "{sign}{word}");
                    column = sign.len() + wide;
                }
                now if now + 1 + wide > WIDTH => {
                    let _ = write!(out, "\n{sign}  {word}");
                    column = sign.len() + 2 + wide;
                }
                _ => {
                    let _ = write!(out, " {word}");
                    column += 1 + wide;
                }
            }
        }
        out.push('\n');
    }
    out
}

/// A comment of XML, in which `--` may not be.
pub(super) fn xml_comment(indent: &str, lines: &[String]) -> String {
    let mut text = comment(&format!("{indent}     "), lines);
    while text.contains("--") {
        text = text.replace("--", "- -");
    }
    format!("{indent}<!--\n{text}{indent}-->\n")
}

/// A word of a shell.
pub(super) fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A word of a unit's setting in quotes (systemd.syntax(7)), specifiers left as they are written.
pub(super) fn unit(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' => out.push_str("%%"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => _ = write!(out, "\\x{:02x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

/// An argument of `ExecStart=`, in which `$` has a meaning, too.
pub(super) fn argument(text: &str) -> String {
    unit(text).replace('$', "$$")
}

/// A command of `ExecStart=`. A program that begins with a sign of systemd's, or has a path that is not whole, is called by a
/// shell: systemd would read the one and refuse the other.
pub(super) fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.+/-".contains(c);
    let is_plain = |program: &str| {
        let whole = program.starts_with('/') || !program.contains('/');
        whole
            && program.chars().all(plain)
            && program.starts_with(|c: char| c == '/' || c == '_' || c.is_ascii_alphanumeric())
    };
    let arguments = |words: &[String]| words.iter().map(|word| argument(word)).collect::<Vec<_>>().join(" ");
    match words {
        [program, rest @ ..] if is_plain(program) && rest.is_empty() => program.clone(),
        [program, rest @ ..] if is_plain(program) => format!("{program} {}", arguments(rest)),
        words => format!("/bin/sh -c {} {}", argument(r#"exec "$0" "$@""#), arguments(words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::quoted;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const SIGNS: [&str; 27] = [
        "a", "B7", " ", "'", "\"", "\\", "$", "$HOME", "%", "%n", "%%", ";", "#", "--", "]]>", "<", "&", "{", "}",
        ": ", "\n", "\t", "\u{7}", "ä", "\u{2028}", "@", "\u{feff}",
    ];

    fn texts() -> impl Iterator<Item = String> {
        let mut rng = ChaCha8Rng::seed_from_u64(37);
        (0..2000).map(move |_| {
            let length = rng.random_range(0..8);
            (0..length).map(|_| SIGNS[rng.random_range(0..SIGNS.len())]).collect()
        })
    }

    /// systemd's own reader is in tests/exports-systemd-inside.sh.
    #[test]
    fn a_word_of_a_shell_comes_back_as_it_was() {
        let texts: Vec<String> = texts().filter(|text| !text.is_empty()).take(300).collect();
        let words: Vec<String> = texts.iter().map(|text| shell(text)).collect();
        let script = format!("printf '%s\\0' {}", words.join(" "));
        let done = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let back: Vec<&[u8]> = done.stdout.split(|byte| *byte == 0).collect();
        assert_eq!(back.len(), texts.len() + 1);
        assert!(texts.iter().zip(back).all(|(text, back)| text.as_bytes() == back));
    }

    #[test]
    fn yaml_comes_back_as_it_was() {
        for text in texts() {
            assert_eq!(yaml_text(&quoted(&text)), text, "{}", quoted(&text));
        }
    }

    /// By the reader of site files.
    fn yaml_text(text: &str) -> String {
        let mut parser = saphyr_parser::Parser::new_from_str(text);
        loop {
            match parser.next_event().unwrap().unwrap().0 {
                saphyr_parser::Event::Scalar(text, ..) => return text.into_owned(),
                saphyr_parser::Event::StreamEnd => panic!("no text"),
                _ => {}
            }
        }
    }

    #[test]
    fn comments_hold_any_text_and_end_where_they_should() {
        for text in texts() {
            let lines = [text.repeat(30), text];
            assert!(comment("# ", &lines).lines().all(|line| line.is_empty() || line.starts_with("# ")));
            let whole = format!("<a>\n{}</a>", xml_comment("  ", &lines).replace('\u{7}', " "));
            let parsed = roxmltree::Document::parse(&whole).unwrap_or_else(|why| panic!("{why}: {whole}"));
            assert_eq!(parsed.root_element().children().filter(|node| node.is_element()).count(), 0);
            assert_eq!(parsed.root_element().children().filter(|node| node.is_comment()).count(), 1);
        }
    }
}
