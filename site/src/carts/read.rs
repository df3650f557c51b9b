//! From XML to components.

use super::component::{Component, Period, Scheduler, NOTES, SYSTEM};
use super::unit::Unit;
use crate::error::{Fault, SiteError, Span};
use crate::file::{Form, LARGEST_FILE};
use crate::source::Source;
use crate::suggest::{did_you_mean, shown};
use giusto_model::{Duration, Release, Task, TaskError};
use roxmltree::{Attribute, Document, Node, NodeType, ParsingOptions};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

const FORM: Form =
    Form { what: "a file of CARTS", example: "avionics.xml", like: "some lines of XML", largest: LARGEST_FILE };
/// Deepest nesting of components.
const DEEPEST: usize = 16;
/// Longest name or note, in characters.
const LONGEST: usize = 64;
/// Most attributes of one element, where a dozen is much: each is compared with all others.
const ATTRIBUTES: usize = 1_000;

const SYSTEM_KEYS: [&str; 7] = ["os_scheduler", "period", "min_period", "max_period", NOTES[0], NOTES[1], NOTES[2]];
const COMPONENT_KEYS: [&str; 8] =
    ["name", "scheduler", "period", "min_period", "max_period", NOTES[0], NOTES[1], NOTES[2]];
const TASK_KEYS: [&str; 5] = ["name", "p", "d", "e", "offset"];
/// Attributes of CARTS' tasks that ask for more than is computed here, and what to do: only 0 is read.
const TASK_COSTS: [(&str, &str); 7] = [
    ("cs", "locks are not built yet: tasks share nothing"),
    ("jitter", "p and d that are shorter by the jitter ask for enough"),
    ("noninterrupt_fraction", "tasks can be preempted everywhere"),
    ("delta_rel", "and what releases cost a job added to e"),
    ("delta_sch", "and what scheduling costs a job added to e"),
    ("delta_cxs", "and what context switches cost a job added to e"),
    ("delta_crpmd", "and what preemptions cost a job added to e"),
];
/// What CARTS writes and does not read: results are computed anew.
const RESULTS: [&str; 2] = ["resource", "processed_task"];

/// Reads the file at `path`, of at most [`LARGEST_FILE`](crate::LARGEST_FILE) bytes, in which 1 is one `unit`.
///
/// # Errors
/// [`SiteError::File`] if it cannot be read, [`SiteError::Text`] if it is not a system of CARTS.
pub fn read(path: &Path, unit: Unit) -> Result<Component, SiteError> {
    let (name, text) = FORM.read(path)?;
    parse(&name, &text, unit)
}

/// Reads a system from `text`, in which 1 is one `unit`; `name` stands for the file in errors. O(n) for n bytes.
///
/// # Errors
/// [`SiteError::Text`] for the first thing in it that makes no sense; [`SiteError::File`] beyond
/// [`LARGEST_FILE`](crate::LARGEST_FILE).
pub fn parse(name: &str, text: &str, unit: Unit) -> Result<Component, SiteError> {
    FORM.bounded(name, text.len())?;
    let source = Source::new(name, text);
    system(&source, unit).map_err(|fault| source.error(fault))
}

fn system(source: &Source<'_>, unit: Unit) -> Result<Component, Fault> {
    source.check()?;
    few_attributes(source)?;
    let options = ParsingOptions { allow_dtd: false, ..ParsingOptions::default() };
    let document = Document::parse_with_options(source.text, options).map_err(|error| not_xml(source, &error))?;
    let root = document.root_element();
    let reader = Reader { document: &document, unit };
    let tag = root.tag_name().name();
    if !tag.eq_ignore_ascii_case("system") {
        let hint = if tag.eq_ignore_ascii_case("component") { "; what CARTS has computed is not read" } else { "" };
        let expected = format!("expected <system os_scheduler=\"EDF\"> around all components{hint}");
        return Err(reader.fault(root, format!("<{}> is not a system", shown(tag)), expected));
    }
    reader.component(root, 0, &mut HashSet::new())
}

/// Refuses elements for which the parser would need minutes: a `<` stands in front of elements only, and a `=` in attributes.
fn few_attributes(source: &Source<'_>) -> Result<(), Fault> {
    let (mut before, mut attributes) = (0, 0);
    for (index, c) in source.text.chars().enumerate() {
        match c {
            '<' => (before, attributes) = (index, 0),
            '=' => attributes += 1,
            _ => {}
        }
        if attributes > ATTRIBUTES {
            let found = format!("an element has more than {ATTRIBUTES} attributes");
            let expected = "expected, for example, <task name=\"control\" p=\"10\" d=\"10\" e=\"2\"/>";
            return Err(Fault::new(source.at_char(before), found, expected));
        }
    }
    Ok(())
}

struct Reader<'a, 'input> {
    document: &'a Document<'input>,
    unit: Unit,
}

impl<'a, 'input> Reader<'a, 'input> {
    fn component(&self, node: Node<'a, 'input>, depth: usize, names: &mut HashSet<String>) -> Result<Component, Fault> {
        let (what, keys, scheduler) = match depth {
            0 => ("a system", SYSTEM_KEYS.as_slice(), "os_scheduler"),
            _ => ("a component", COMPONENT_KEYS.as_slice(), "scheduler"),
        };
        if depth > DEEPEST {
            return Err(self.fault(node, "components are nested too deeply here", "expected at most 16 levels"));
        }
        self.known(node, what, keys, &[])?;
        let name = match depth {
            0 => SYSTEM.to_string(),
            _ => self.name(self.need(node, what, "name", "name=\"VM1\"")?)?,
        };
        if !names.insert(name.clone()) {
            let at = node.attribute_node("name").map_or_else(|| self.start(node), |name| self.span(name.range()));
            let found = format!("another component is named '{name}'");
            return Err(Fault::new(at, found, "expected different names, also at different depths"));
        }
        let note = |key| node.attribute_node(key).map(|note| self.name(note)).transpose();
        let mut component = Component {
            name,
            scheduler: self.scheduler(node.attribute_node(scheduler))?,
            period: self.period(node)?,
            notes: [note(NOTES[0])?, note(NOTES[1])?, note(NOTES[2])?],
            tasks: Vec::new(),
            components: Vec::new(),
        };
        for child in self.elements(node)? {
            match child.tag_name().name().to_ascii_lowercase().as_str() {
                "task" => component.tasks.push(self.task(child, component.tasks.len() + 1)?),
                "component" => component.components.push(self.component(child, depth + 1, names)?),
                results if RESULTS.contains(&results) => {}
                other => {
                    let near = did_you_mean(other, ["task", "component"]);
                    let found = format!("<{}> is not known in {what}", shown(child.tag_name().name()));
                    return Err(self.fault(child, found, format!("expected <task> or <component>{near}")));
                }
            }
        }
        if component.tasks.is_empty() && component.components.is_empty() {
            let found = format!("there is no task and no component in {what}");
            return Err(self.fault(
                node,
                found,
                "expected, for example, <task name=\"control\" p=\"10\" d=\"10\" e=\"2\"/>",
            ));
        }
        Ok(component)
    }

    fn task(&self, node: Node<'a, 'input>, number: usize) -> Result<Task, Fault> {
        self.known(node, "a task", &TASK_KEYS, &TASK_COSTS)?;
        if let Some(child) = self.elements(node)?.next() {
            let found = format!("<{}> is not known in a task", shown(child.tag_name().name()));
            return Err(self.fault(child, found, "expected a task that ends here: <task .../>"));
        }
        for (key, instead) in TASK_COSTS {
            let Some(cost) = node.attribute_node(key) else { continue };
            if !self.time(cost)?.is_zero() {
                let expected = format!("expected {key}=\"0\"; {instead}");
                return Err(Fault::new(self.span(cost.range()), format!("'{key}' is not built yet"), expected));
            }
        }
        let part = |key, example| self.need(node, "a task", key, example);
        let (p, d, e) = (part("p", "p=\"10\"")?, part("d", "d=\"10\", the deadline")?, part("e", "e=\"2\"")?);
        let offset = node.attribute_node("offset").map(|offset| self.time(offset)).transpose()?;
        let offset = offset.unwrap_or(Duration::ZERO);
        let name = node.attribute_node("name").filter(|name| !name.value().is_empty());
        let task = Task {
            name: name.map_or_else(|| Ok(format!("task{number}")), |name| self.name(name))?,
            wcet: self.time(e)?,
            period: self.time(p)?,
            deadline: self.time(d)?,
            offset,
            release: if offset.is_zero() { Release::Sporadic } else { Release::KeptOffset },
            copies: 1,
        };
        task.validate().map_err(|error| {
            let (at, expected) = match error {
                TaskError::NoPeriod => (p, "expected a period above 0"),
                TaskError::LateDeadline { .. } => (d, "expected e <= d <= p"),
                TaskError::TooLong { .. } => (e, "expected e <= d <= p"),
                _ => (e, "expected an execution time above 0"),
            };
            Fault::new(self.span(at.range()), error.to_string(), expected)
        })?;
        Ok(task)
    }

    fn scheduler(&self, written: Option<Attribute<'a, 'input>>) -> Result<Scheduler, Fault> {
        // As CARTS: EDF where nothing is said; upper and lower case, and a p for partitioned, make no difference.
        let Some(written) = written else { return Ok(Scheduler::Edf) };
        let name = written.value().to_ascii_lowercase();
        match name.strip_prefix('p').unwrap_or(&name) {
            "edf" => Ok(Scheduler::Edf),
            "rm" => Ok(Scheduler::Rm),
            "dm" => Ok(Scheduler::Dm),
            _ => {
                let found = format!("'{}' is not a scheduler that is known here", shown(written.value()));
                Err(Fault::new(self.span(written.range()), found, "expected EDF, RM or DM, each on one processor"))
            }
        }
    }

    fn period(&self, node: Node<'a, 'input>) -> Result<Period, Fault> {
        let [period, least, most] = ["period", "min_period", "max_period"].map(|key| node.attribute_node(key));
        let fault = |at: Attribute<'_, '_>, found, expected| Fault::new(self.span(at.range()), found, expected);
        let positive = |at| match self.time(at)? {
            Duration::ZERO => Err(fault(at, "a period must be more than 0", "expected, for example, period=\"5\"")),
            period => Ok(period),
        };
        match (period, least, most) {
            (None, None, None) => Ok(Period::Free),
            (Some(period), None, None) => positive(period).map(Period::Exactly),
            (Some(_), Some(at), _) | (Some(_), None, Some(at)) => Err(fault(
                at,
                "a period is given beside a range of periods",
                "expected one of the two; delete the other",
            )),
            (None, Some(at), None) | (None, None, Some(at)) => {
                Err(fault(at, "a range of periods has two ends", "expected min_period and max_period, or period alone"))
            }
            (None, Some(least), Some(most)) => {
                // What CARTS' editor saves of a component that was given no period.
                if self.time(least)?.is_zero() && self.time(most)?.is_zero() {
                    return Ok(Period::Free);
                }
                match (positive(least)?, positive(most)?) {
                    (least, most) if least == most => Ok(Period::Exactly(least)),
                    (shortest, longest) if shortest < longest => Ok(Period::Between(shortest, longest)),
                    _ => Err(fault(most, "the range of periods is empty", "expected min_period <= max_period")),
                }
            }
        }
    }

    /// A name or a note: readable, and not too long to be shown.
    fn name(&self, written: Attribute<'a, 'input>) -> Result<String, Fault> {
        let text = written.value();
        if text.is_empty() || text.chars().count() > LONGEST || text.contains(char::is_control) {
            let found = format!("'{}' is no {}", shown(text), written.name());
            return Err(Fault::new(self.span(written.range()), found, "expected 1 to 64 readable characters"));
        }
        Ok(text.to_string())
    }

    /// A number of the file's unit.
    fn time(&self, written: Attribute<'a, 'input>) -> Result<Duration, Fault> {
        let (text, unit) = (written.value(), self.unit);
        let refuse = |found: String, expected: String| Err(Fault::new(self.span(written.range()), found, expected));
        let number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if !number {
            let expected =
                format!("expected digits such as 2.5; what 1 means is said once, for the whole file ({unit} now)");
            return refuse(format!("'{}' is not a plain number", shown(text)), expected);
        }
        unit.time(text).or_else(|error| match error {
            giusto_model::TimeError::Range(_) => refuse(
                format!("'{}' {unit} is not a whole number of nanoseconds, or longer than 584 years", shown(text)),
                format!("expected another number, or another unit than {unit} for the file"),
            ),
            _ => refuse(format!("'{}' is not a number", shown(text)), "expected digits such as 2 or 2.5".into()),
        })
    }

    fn need(
        &self,
        node: Node<'a, 'input>,
        what: &str,
        key: &str,
        example: &str,
    ) -> Result<Attribute<'a, 'input>, Fault> {
        node.attribute_node(key).ok_or_else(|| {
            self.fault(node, format!("{what} needs '{key}'"), format!("expected, for example, {example}"))
        })
    }

    /// Refuses attributes that are in neither list, and namespaces: CARTS has none.
    fn known(&self, node: Node<'a, 'input>, what: &str, keys: &[&str], costs: &[(&str, &str)]) -> Result<(), Fault> {
        if node.tag_name().namespace().is_some() {
            return Err(self.fault(
                node,
                "this element is of a namespace",
                "expected elements without; delete its xmlns",
            ));
        }
        let all = || keys.iter().copied().chain(costs.iter().map(|(key, _)| *key));
        let known = |found: &Attribute<'_, '_>| found.namespace().is_none() && all().any(|key| key == found.name());
        let Some(other) = node.attributes().find(|found| !known(found)) else { return Ok(()) };
        let found = format!("'{}' is not an attribute of {what}", shown(other.name()));
        let words = keys.iter().map(|key| match *key {
            "p" => "p (period)",
            "d" => "d (deadline)",
            "e" => "e (execution time)",
            key => key,
        });
        let words = words.collect::<Vec<_>>().join(", ");
        let expected = format!("expected one of {words}{}", did_you_mean(other.name(), all()));
        Err(Fault::new(self.span(other.range()), found, expected))
    }

    /// The elements in `node`, which holds nothing else that means something.
    fn elements(&self, node: Node<'a, 'input>) -> Result<impl Iterator<Item = Node<'a, 'input>>, Fault> {
        for child in node.children() {
            match child.node_type() {
                NodeType::Text if !child.text().unwrap_or_default().trim().is_empty() => {
                    let before = child.text().unwrap_or_default();
                    let start = child.range().start + (before.len() - before.trim_start().len());
                    let found = "a text stands between the elements";
                    return Err(Fault::new(self.span(start..start + 1), found, "expected elements alone; delete it"));
                }
                NodeType::PI => {
                    return Err(self.fault(
                        child,
                        "an instruction to a program stands here",
                        "expected elements alone; delete it",
                    ))
                }
                _ => {}
            }
        }
        Ok(node.children().filter(|child| child.is_element()))
    }

    fn fault(&self, node: Node<'a, 'input>, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::new(self.start(node), found, expected)
    }

    /// `<` and the name of an element.
    fn start(&self, node: Node<'a, 'input>) -> Span {
        let start = node.range().start;
        let rest = &self.document.input_text()[start..];
        let width = rest.find(|c: char| c.is_whitespace() || c == '>' || c == '/').unwrap_or(1).max(1);
        self.span(start..start + width)
    }

    fn span(&self, bytes: Range<usize>) -> Span {
        let at = self.document.text_pos_at(bytes.start);
        let text = self.document.input_text().get(bytes).unwrap_or_default();
        let width = text.lines().next().unwrap_or_default().chars().count();
        Span { line: at.row as usize, column: at.col as usize, width: width.max(1) }
    }
}

fn not_xml(source: &Source<'_>, error: &roxmltree::Error) -> Fault {
    use roxmltree::Error::{DtdDetected, NoRootNode, UnclosedRootNode, UnexpectedEndOfStream, UnknownEntityReference};
    let pos = error.pos();
    let at = Span { line: pos.row as usize, column: pos.col as usize, width: 1 };
    let (at, expected) = match error {
        DtdDetected => {
            let before = source.text.find("<!DOCTYPE").unwrap_or(0);
            let at = Span { width: "<!DOCTYPE".len(), ..source.at_char(source.text[..before].chars().count()) };
            return Fault::new(
                at,
                "document types and entities are not allowed",
                "expected elements alone; delete this",
            );
        }
        NoRootNode | UnclosedRootNode | UnexpectedEndOfStream => {
            (source.end(), "expected <system os_scheduler=\"EDF\"> ... </system>")
        }
        UnknownEntityReference(..) => (at, "expected one of &amp; &lt; &gt; &quot; &apos;, or the character itself"),
        _ => (at, "expected elements such as <task name=\"control\" p=\"10\" d=\"10\" e=\"2\"/>, opened and closed"),
    };
    let found = error.to_string().replace(&format!(" at {pos}"), "");
    Fault::new(at, format!("this is not XML: {found}"), expected)
}
