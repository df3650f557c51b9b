//! Single values: texts, names, durations, shares, whole numbers.

use crate::error::Fault;
use crate::suggest::{did_you_mean, shown, LONGEST};
use crate::tree::{Kind, Node, Text};
use giusto_model::{Bandwidth, Duration};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A text of any length; `expected` says what it means.
pub(crate) fn scalar<'a>(node: &'a Node, expected: &str) -> Result<&'a Text, Fault> {
    match &node.kind {
        Kind::Empty => Err(node.fault("a value is missing here", expected)),
        Kind::List(_) | Kind::Map(_) => Err(node.fault(format!("found {} here", node.form()), expected)),
        Kind::Text(text) if text.is_bare_truth() => Err(truth(text, expected)),
        Kind::Text(text) if text.text.contains('\0') => {
            Err(node.fault("the text holds the character U+0000", "expected a text that can be handed to a program"))
        }
        Kind::Text(text) => Ok(text),
    }
}

/// As [`scalar`], without its place.
pub(crate) fn text<'a>(node: &'a Node, expected: &str) -> Result<&'a str, Fault> {
    scalar(node, expected).map(|text| text.text.as_str())
}

/// Checks a name: letters, digits, `-` and `_`, up to 64, no `-` first (it would look like an option).
pub(crate) fn name(text: &Text, what: &str) -> Result<String, Fault> {
    let expected = "expected 1 to 64 letters (a-z, A-Z), digits, '-' and '_', not '-' first";
    if text.is_bare_truth() {
        return Err(truth(text, expected));
    }
    let name = text.text.as_str();
    let allowed = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !allowed || name.is_empty() || name.len() > LONGEST || name.starts_with('-') {
        let found = format!("'{}' is not a name for {what}", shown(name));
        return Err(Fault::new(text.span, found, expected));
    }
    Ok(name.to_string())
}

/// A length of time with its unit.
pub(crate) fn duration(node: &Node) -> Result<Duration, Fault> {
    parsed(node, "expected a duration with its unit (ns, us, ms, s, min, h, d), such as 50us or 1.5ms")
}

/// A share of a core below 100 %. `example` shows one.
pub(crate) fn share(node: &Node, example: &str) -> Result<Bandwidth, Fault> {
    let expected = format!("expected a share of a core below 100%, such as {example}");
    let share: Bandwidth = parsed(node, &expected)?;
    if share < Bandwidth::ONE {
        return Ok(share);
    }
    let text = text(node, &expected)?;
    let whole = text.bytes().all(|b| b.is_ascii_digit());
    let hint = if whole && text.len() <= 2 { format!("; did you mean {text}%?") } else { String::new() };
    Err(node.fault(format!("'{text}' is a whole core or more"), expected + &hint))
}

/// A whole number in `range`; `what` names it.
pub(crate) fn count(node: &Node, what: &str, range: RangeInclusive<u32>) -> Result<u32, Fault> {
    let expected = format!("expected {what}: a whole number from {} to {}", range.start(), range.end());
    let text = text(node, &expected)?;
    number(text)
        .filter(|n| range.contains(n))
        .ok_or_else(|| node.fault(format!("'{}' is not {what}", shown(text)), expected))
}

/// Decimal digits and nothing else; no leading zeros, which some read as octal.
pub(crate) fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| digits)
}

/// Anything that the model reads from a short text.
pub(crate) fn parsed<T: FromStr<Err: Display>>(node: &Node, expected: &str) -> Result<T, Fault> {
    let text = text(node, expected)?;
    if text.chars().count() > LONGEST || text.contains(char::is_control) {
        return Err(node.fault(format!("'{}' is too long or unreadable", shown(text)), expected));
    }
    // The model's own text says what it expected.
    text.parse().map_err(|error: T::Err| {
        let error = error.to_string();
        match error.split_once("; ") {
            Some((found, expected)) => node.fault(found, expected),
            None => node.fault(error, expected),
        }
    })
}

/// One of `all`, by its name; `what` says what it is.
pub(crate) fn choice<T: ToString + Copy>(node: &Node, what: &str, all: &[T]) -> Result<T, Fault> {
    let names: Vec<String> = all.iter().map(T::to_string).collect();
    let expected = match &names[..] {
        [only] => format!("expected {only}"),
        [one, other] => format!("expected {one} or {other}"),
        _ => format!("expected one of {}", names.join(", ")),
    };
    let text = &scalar(node, &expected)?.text;
    let found = all.iter().zip(&names).find(|(_, name)| *name == text).map(|(one, _)| *one);
    let near = || did_you_mean(text, names.iter().map(String::as_str));
    found.ok_or_else(|| node.fault(format!("'{}' is not {what}", shown(text)), format!("{expected}{}", near())))
}

fn truth(text: &Text, expected: &str) -> Fault {
    let found = format!("a bare '{}' could mean a text or a truth value", text.text);
    Fault::new(text.span, found, format!("{expected}; write it in quotes if you mean the text: '{}'", text.text))
}
