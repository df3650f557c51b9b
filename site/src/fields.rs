//! Maps with a fixed set of keys.

use crate::error::{Fault, Span};
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node, Text};

/// The keys that a kind of map may have.
pub(crate) struct Grammar {
    /// What the map is, with its article.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [&'static str],
    /// Keys of the design that are not built yet, and what to do without them.
    pub(crate) later: &'static [(&'static str, &'static str)],
}

/// A map whose keys all belong to its grammar.
pub(crate) struct Fields<'a> {
    grammar: &'a Grammar,
    entries: &'a [(Text, Node)],
    /// Where to say that a key is missing.
    at: Span,
}

impl Grammar {
    /// Checks that `node` is a map with these keys. `at` is where to say that one is missing.
    pub(crate) fn read<'a>(&'a self, node: &'a Node, at: Span) -> Result<Fields<'a>, Fault> {
        self.read_beside(node, at, |_| false)
    }

    /// The same; keys that are `foreign` are for another reader.
    pub(crate) fn read_beside<'a>(
        &'a self,
        node: &'a Node,
        at: Span,
        foreign: fn(&str) -> bool,
    ) -> Result<Fields<'a>, Fault> {
        let expected = || format!("expected {} in the form of a map with the keys {}", self.what, self.keys.join(", "));
        let Kind::Map(entries) = &node.kind else {
            return Err(node.fault(format!("found {} instead of a map", node.form()), expected()));
        };
        match entries.iter().find(|(key, _)| !self.keys.contains(&key.text.as_str()) && !foreign(&key.text)) {
            Some((key, _)) => Err(self.unknown(key)),
            None => Ok(Fields { grammar: self, entries, at }),
        }
    }

    fn unknown(&self, key: &Text) -> Fault {
        let name = shown(&key.text);
        if let Some((_, instead)) = self.later.iter().find(|(later, _)| *later == key.text) {
            return Fault::new(key.span, format!("'{name}' is not built yet"), *instead);
        }
        let all = self.keys.iter().copied().chain(self.later.iter().map(|(later, _)| *later));
        let one_of = if self.keys.len() > 1 { "one of " } else { "" };
        let expected = format!("expected {one_of}{}{}", self.keys.join(", "), did_you_mean(&key.text, all));
        Fault::new(key.span, format!("'{name}' is not a key of {}", self.what), expected)
    }
}

impl<'a> Fields<'a> {
    fn entry(&self, key: &str) -> Option<&'a (Text, Node)> {
        debug_assert!(self.grammar.keys.contains(&key), "{key}");
        self.entries.iter().find(|(found, _)| found.text == key)
    }
    /// The value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|(_, value)| value)
    }
    /// Where `key` is, or where to say that it is missing.
    pub(crate) fn place(&self, key: &str) -> Span {
        self.entry(key).map_or(self.at, |(key, _)| key.span)
    }
    /// The value of `key`, which must be there; `example` shows how to write it.
    pub(crate) fn need(&self, key: &str, example: &str) -> Result<&'a Node, Fault> {
        self.get(key).ok_or_else(|| {
            Fault::new(
                self.at,
                format!("{} needs '{key}'", self.grammar.what),
                format!("expected, for example, {example}"),
            )
        })
    }
    /// Refuses `key` if it is there.
    pub(crate) fn forbid(&self, key: &str, found: &str, expected: &str) -> Result<(), Fault> {
        match self.entry(key) {
            Some((key, _)) => Err(Fault::new(key.span, found, expected)),
            None => Ok(()),
        }
    }
    /// The one of `keys` that is there, and its value; they exclude each other. `none` says how to write them.
    pub(crate) fn one_of(&self, keys: &[&str], none: &str) -> Result<(&'a str, &'a Node), Fault> {
        let what = self.grammar.what;
        let mut found = self.entries.iter().filter(|(key, _)| keys.contains(&key.text.as_str()));
        match (found.next(), found.next()) {
            (Some((key, value)), None) => Ok((&key.text, value)),
            (None, _) => {
                let (last, others) = keys.split_last().expect("a choice has keys");
                let found = format!("{what} needs '{}' or '{last}'", others.join("', '"));
                Err(Fault::new(self.at, found, none))
            }
            (Some((first, _)), Some((second, _))) => {
                let found = format!("{what} has '{}' or '{}', not both", first.text, second.text);
                Err(Fault::new(second.span, found, "expected one of the two; delete the other"))
            }
        }
    }
}
