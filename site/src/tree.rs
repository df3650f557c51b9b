//! The YAML text as a small tree whose nodes know their place. Everything of YAML that a site does not need is refused
//! here: anchors, aliases, tags, directives, merge keys, several documents, keys that are not texts, keys written twice.

use crate::error::{Fault, Span};
use crate::source::Source;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, StrInput};
use std::collections::HashMap;

/// Deepest nesting of lists and maps; a site needs six.
const DEEPEST: usize = 16;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `key:` and no value, or a bare `~` or `null`.
    Empty,
    Text(Text),
    List(Vec<Node>),
    Map(Vec<(Text, Node)>),
}

/// A text as it is meant, and whether it was written without quotes.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) span: Span,
    pub(crate) bare: bool,
}

impl Node {
    pub(crate) fn fault(&self, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::new(self.span, found, expected)
    }
    pub(crate) fn entries(&self) -> Option<&[(Text, Node)]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }
    /// What it is, for "found …".
    pub(crate) fn form(&self) -> &'static str {
        match self.kind {
            Kind::Empty => "nothing",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

impl Text {
    /// Without quotes, and one of the words that YAML versions read as true or false.
    pub(crate) fn is_bare_truth(&self) -> bool {
        let truths = ["on", "off", "yes", "no", "true", "false"];
        self.bare && truths.iter().any(|truth| self.text.eq_ignore_ascii_case(truth))
    }
    fn is_bare_nothing(&self) -> bool {
        self.bare && ["", "~", "null", "Null", "NULL"].contains(&self.text.as_str())
    }
}

/// The one document in `source`.
pub(crate) fn read(source: &Source<'_>) -> Result<Node, Fault> {
    let mut reader = Reader { source, parser: Parser::new_from_str(source.text) };
    let mut root = None;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => break,
            (Event::DocumentStart(_), at) if root.is_some() => {
                return Err(Fault::new(
                    at,
                    "a second document starts here",
                    "expected one site a file; delete the '---'",
                ));
            }
            (Event::DocumentStart(explicit), at) => {
                // Directives leave no event of their own.
                let before = &source.lines()[..if explicit { at.line - 1 } else { 0 }];
                if let Some(index) = before.iter().position(|line| line.starts_with('%')) {
                    let at = Span { line: index + 1, column: 1, width: before[index].chars().count() };
                    return Err(Fault::new(at, "YAML directives are not allowed", "expected a site; delete this line"));
                }
            }
            (Event::StreamStart | Event::DocumentEnd | Event::Nothing, _) => {}
            (event, at) => root = Some(reader.node(event, at, 0)?),
        }
    }
    root.filter(|root| !matches!(root.kind, Kind::Empty)).ok_or_else(|| {
        Fault::new(source.end(), "the file holds no site", "expected 'giusto: 1' and then hosts and services")
    })
}

struct Reader<'a> {
    source: &'a Source<'a>,
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        let source = self.source;
        let (event, span) = self
            .parser
            .next_event()
            .unwrap_or(Ok((Event::StreamEnd, saphyr_parser::Span::default())))
            .map_err(|error| not_yaml(source, &error))?;
        let (start, end) = (span.start, span.end);
        let line = start.line().max(1);
        let width = if end.line() == start.line() {
            end.col().saturating_sub(start.col())
        } else {
            // Only then: the length of a line costs its length.
            source.lines().get(line - 1).map_or(0, |l| l.trim_end().chars().count().saturating_sub(start.col()))
        };
        Ok((event, Span { line, column: start.col() + 1, width }))
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let refuse = |found: &str, expected: &str| Err(Fault::new(span, found, expected));
        // The parser names the place of the value behind a sign such as & or !.
        let sign = |sign: char| {
            let line = self.source.lines().get(span.line - 1).copied().unwrap_or_default();
            let before = line.chars().take(span.column).collect::<Vec<_>>();
            let last = before.iter().rposition(|&c| c == sign);
            let run = last.map_or(0, |last| before[..last].iter().rev().take_while(|&&c| c == sign).count());
            last.map_or(span, |last| Span { column: last - run + 1, width: run + 1, ..span })
        };
        if depth > DEEPEST {
            return refuse("lists and maps are nested too deeply here", "expected at most 16 levels; a site needs six");
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor > 0 {
            let expected = "expected the value itself, or a text in quotes if it starts with & or *";
            return Err(Fault::new(sign('&'), "YAML anchors (&) are not allowed", expected));
        }
        if tag {
            let expected = "expected the value alone, or a text in quotes if it starts with !";
            return Err(Fault::new(sign('!'), "YAML tags (!) are not allowed", expected));
        }
        let kind = match event {
            Event::Scalar(text, style, ..) => {
                let text = Text { text: text.into_owned(), span, bare: style == ScalarStyle::Plain };
                if text.is_bare_nothing() {
                    Kind::Empty
                } else {
                    Kind::Text(text)
                }
            }
            Event::SequenceStart(..) => Kind::List(self.list(depth)?),
            Event::MappingStart(..) => Kind::Map(self.map(depth)?),
            _ => return refuse("something is missing here", "expected a value"),
        };
        Ok(Node { span, kind })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, at) => items.push(self.node(event, at, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Text, Node)>, Fault> {
        let mut entries = Vec::new();
        let mut seen = HashMap::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(entries),
                (event, at) => match self.node(event, at, depth + 1)? {
                    Node { kind: Kind::Text(key), .. } => key,
                    Node { kind: Kind::Empty, span } => {
                        return Err(Fault::new(span, "a key is missing here", "expected 'key: value'"));
                    }
                    other => {
                        let found = format!("{} cannot be a key", other.form());
                        return Err(other.fault(found, "expected 'key: value'"));
                    }
                },
            };
            if key.bare && key.text == "<<" {
                let expected = "expected the keys themselves, written out";
                return Err(Fault::new(key.span, "YAML merge keys (<<) are not allowed", expected));
            }
            if let Some(line) = seen.insert(key.text.clone(), key.span.line) {
                let found = format!("'{}' is written twice, first on line {line}", crate::suggest::shown(&key.text));
                return Err(Fault::new(key.span, found, "expected each key once; delete or rename one of the two"));
            }
            let (event, at) = self.next()?;
            let mut value = self.node(event, at, depth + 1)?;
            if matches!(value.kind, Kind::Empty) {
                // Where nothing is written, the key is the better place to look at.
                value.span = key.span;
            }
            entries.push((key, value));
        }
    }
}

fn not_yaml(source: &Source<'_>, error: &ScanError) -> Fault {
    let (line, column) = (error.marker().line().max(1), error.marker().col() + 1);
    let text = source.lines().get(line - 1).copied().unwrap_or_default();
    let at = if text.trim().is_empty() { source.end() } else { Span { line, column, width: 1 } };
    let expected = "expected 'key: value', two more spaces for each level, brackets and quotes closed, and texts that \
                    hold ': ' or start with one of & * ! | > % @ ` { [ in quotes";
    Fault::new(at, format!("this is not YAML: {}", error.info()), expected)
}
