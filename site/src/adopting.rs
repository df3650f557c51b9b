//! A site whose services run already: what another program starts, Giusto adopts.

use crate::adopt::key;
use crate::error::SiteError;
use crate::process::STARTED;
use crate::source::Source;
use crate::tree::{self, Kind, Node, Text};
use giusto_model::{quoted, Adopt};
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

pub(crate) fn entry<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().find(|(name, _)| name.text == key).map(|(_, value)| value),
        _ => None,
    }
}

/// In block style, but for what is empty. What was written without quotes stays so: it may be a number or a truth value.
pub(crate) fn emit(node: &Node, depth: usize, out: &mut String) {
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
