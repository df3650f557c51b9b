//! Where a key of a site is written.

use crate::error::Span;
use crate::source::Source;
use crate::tree::{self, Kind, Node};

/// Where the value of the last of `keys` that is written begins, as line and column in characters, both from 1. Keys lead from
/// the root: names of keys, of items of a list by their `name`, or `""` for an only entry. `None`: not even the first is
/// written, or `text` is not YAML.
///
/// ```
/// let text = "giusto: 1\nservices:\n  web: {arrivals: {poisson: 4/s}}\n";
/// assert_eq!(giusto_site::place(text, &["services", "web", "arrivals", "poisson"]), Some((3, 29)));
/// assert_eq!(giusto_site::place(text, &["services", "web", "margin"]), Some((3, 3))); // the service itself
/// ```
pub fn place(text: &str, keys: &[&str]) -> Option<(usize, usize)> {
    let source = Source::new("", text);
    let root = tree::read(&source).ok()?;
    let (mut node, mut last) = (&root, None);
    for key in keys {
        let Some((at, next)) = below(node, key) else { break };
        (node, last) = (next, Some(at));
    }
    last.map(|at: Span| (at.line, at.column))
}

/// The entry called `key`, and where it is to be changed: its value, or, where that is a map or a list, its key.
fn below<'n>(node: &'n Node, key: &str) -> Option<(Span, &'n Node)> {
    match &node.kind {
        Kind::Map(entries) => {
            let named = |(name, _): &&(tree::Text, Node)| name.text == key || (key.is_empty() && entries.len() == 1);
            let (name, value) = entries.iter().find(named)?;
            let whole = matches!(value.kind, Kind::Map(_) | Kind::List(_));
            Some((if whole { name.span } else { value.span }, value))
        }
        Kind::List(items) => {
            let named = |item: &&Node| {
                let name = item.entries().and_then(|entries| entries.iter().find(|(name, _)| name.text == "name"));
                matches!(name.map(|(_, value)| &value.kind), Some(Kind::Text(text)) if text.text == key)
            };
            items
                .iter()
                .find(named)
                .or_else(|| items.first().filter(|_| items.len() == 1))
                .map(|item| (item.span, item))
        }
        Kind::Empty | Kind::Text(_) => None,
    }
}
