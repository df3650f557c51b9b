//! A site whose services run already: what another program starts, Giusto adopts.

use crate::adopt::key;
use crate::error::SiteError;
use crate::process::STARTED;
use crate::source::Source;
use crate::tree::{self, Kind, Node, Text};
use giusto_model::Adopt;
use std::fmt::Write;

/// The site in `text`, called `name`, with each of `services` adopted as it says instead of started. Comments are left out.
/// Of a service that the site does not have nothing is said.
///
/// # Errors
/// `text` is not YAML of the kind that sites are.
pub fn adopting(name: &str, text: &str, services: &[(String, Adopt)]) -> Result<String, SiteError> {
    let source = Source::new(name, text);
    let mut root = tree::read(&source).map_err(|fault| source.error(fault))?;
    if let Some(all) = entry(&mut root, "services") {
        for (service, adopt) in services {
            let Some(Node { kind: Kind::Map(keys), span }) = entry(all, service) else { continue };
            let span = *span;
            keys.retain(|(key, _)| key.text != "start" && key.text != "adopt" && !STARTED.contains(&key.text.as_str()));
            let word = |text: String| Text { text, span, bare: false };
            let (how, whom) = key(adopt);
            let whom = Node { span, kind: Kind::Text(word(whom)) };
            keys.insert(0, (word("adopt".into()), Node { span, kind: Kind::Map(vec![(word(how.into()), whom)]) }));
        }
    }
    let mut out = String::new();
    emit(&root, 0, &mut out);
    Ok(out)
}

fn entry<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().find(|(name, _)| name.text == key).map(|(_, value)| value),
        _ => None,
    }
}

/// In block style, but for what is empty. What was written without quotes stays so: it may be a number or a truth value.
fn emit(node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match &node.kind {
        Kind::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Kind::List(items) if items.is_empty() => out.push_str(" []\n"),
        Kind::Empty => out.push('\n'),
        Kind::Text(text) => _ = writeln!(out, " {}", scalar(text)),
        Kind::Map(entries) => {
            if depth > 0 {
                out.push('\n');
            }
            for (key, value) in entries {
                let _ = write!(out, "{indent}{}:", scalar(key));
                emit(value, depth + 1, out);
            }
        }
        Kind::List(items) => {
            out.push('\n');
            for item in items {
                let _ = write!(out, "{indent}-");
                emit(item, depth + 1, out);
            }
        }
    }
}

/// A text as YAML has it. Words that mean something without quotes are written as they were.
fn scalar(text: &Text) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./%".contains(c);
    let is_plain = |text: &str| !text.is_empty() && text.chars().all(plain) && !text.starts_with(['-', '%', '.']);
    match text.bare && is_plain(&text.text) {
        true => text.text.clone(),
        false => quoted(&text.text),
    }
}

/// In double quotes (YAML 1.2, section 7.3.1).
fn quoted(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use giusto_model::{Origin, Process, Site};

    /// The same site, but for where these services come from.
    fn expected(name: &str, text: &str, services: &[(String, Adopt)]) -> Site {
        let mut site = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        for service in &mut site.services {
            if let Some((_, adopt)) = services.iter().find(|(name, _)| *name == service.name) {
                let process = Process { essential: service.process.essential, ..Process::default() };
                (service.origin, service.process) = (Origin::Adopt(adopt.clone()), process);
            }
        }
        site
    }

    #[test]
    fn a_site_that_adopts_differs_in_nothing_else() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sites");
        let mut seen = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let name = path.display().to_string();
            let Ok(site) = parse(&name, &text) else { continue };
            let started = site.services.iter().filter(|one| matches!(one.origin, Origin::Start(_)));
            let services: Vec<(String, Adopt)> =
                started.map(|one| (one.name.clone(), Adopt::Systemd(format!("giusto-{}.service", one.name)))).collect();
            let adopted = adopting(&name, &text, &services).unwrap();
            let again = parse(&name, &adopted).unwrap_or_else(|error| panic!("{error}\n{adopted}"));
            assert_eq!(again, expected(&name, &text, &services), "{name}");
            seen += services.len();
        }
        assert!(seen > 10, "{seen}");
    }

    #[test]
    fn what_only_a_started_one_can_have_goes_and_quotes_stay() {
        let text = "giusto: 1\nhosts: {h: {cores: 1}}\nservices:\n  a:\n    start: [sh, -c, 'echo \"%s\" $1 # x']\n    user: nobody\n    \
                    environment: {A: 'b: c'}\n    essential: yes\n    promise: {supply: 3ms/10ms}\n  \
                    b: {adopt: {cgroup: 'x.slice/a b'}, promise: leftovers, at-least: 1.5%}\n";
        let services = [("a".to_string(), Adopt::Systemd("giusto-a.service".into()))];
        let adopted = adopting("site.yaml", text, &services).unwrap();
        assert_eq!(parse("site.yaml", &adopted).unwrap(), expected("site.yaml", text, &services), "{adopted}");
    }
}
