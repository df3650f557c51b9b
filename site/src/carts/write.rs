//! The tree as CARTS reads it, and with what CARTS computes.

use super::component::{Component, Period, NOTES};
use super::unit::{decimal, Unit};
use giusto_model::{Interface, Task};
use std::fmt::Write;

/// Digits behind the point of a bandwidth, which may have no end; it is rounded up.
const DIGITS: u128 = 1_000_000_000;

/// `system` in numbers of `unit`, as CARTS reads it. Where `interface` knows one of a component it is written in the elements
/// of CARTS' results (`resource`, `processed_task`), which CARTS and [`read`](super::read) pass over.
///
/// `read` gives the same tree again.
pub fn write(system: &Component, unit: Unit, interface: &dyn Fn(&Component) -> Option<Interface>) -> String {
    let mut text = String::new();
    let writer = Writer { unit, interface };
    writer.element(&mut text, "system", system, 0).expect("a String takes every text");
    text
}

struct Writer<'a> {
    unit: Unit,
    interface: &'a dyn Fn(&Component) -> Option<Interface>,
}

impl Writer<'_> {
    fn element(&self, out: &mut String, tag: &str, component: &Component, depth: usize) -> std::fmt::Result {
        let (edge, inner) = ("\t".repeat(depth), "\t".repeat(depth + 1));
        match tag {
            "system" => write!(out, "{edge}<system os_scheduler=\"{}\"", component.scheduler)?,
            _ => {
                write!(out, "{edge}<{tag} name=\"{}\" scheduler=\"{}\"", escape(&component.name), component.scheduler)?
            }
        }
        match component.period {
            Period::Free => {}
            Period::Exactly(period) => write!(out, " period=\"{}\"", self.unit.number(period))?,
            Period::Between(least, most) => {
                let (least, most) = (self.unit.number(least), self.unit.number(most));
                write!(out, " min_period=\"{least}\" max_period=\"{most}\"")?;
            }
        }
        for (key, value) in NOTES.iter().zip(&component.notes) {
            if let Some(value) = value {
                write!(out, " {key}=\"{}\"", escape(value))?;
            }
        }
        writeln!(out, ">")?;
        if let Some(found) = (self.interface)(component) {
            self.results(out, found, &inner)?;
        }
        component.tasks.iter().try_for_each(|task| self.task(out, task, &inner))?;
        component.components.iter().try_for_each(|part| self.element(out, "component", part, depth + 1))?;
        writeln!(out, "{edge}</{tag}>")
    }

    /// As CARTS' PRM interface: one resource model, and the task that it is for the scheduler above.
    fn results(&self, out: &mut String, found: Interface, edge: &str) -> std::fmt::Result {
        let (period, budget) = (self.unit.number(found.period), self.unit.number(found.budget));
        let share = (u128::from(found.budget.ns()) * DIGITS).div_ceil(u128::from(found.period.ns()));
        let share = decimal(share, DIGITS);
        let model = |name: &str, words: String| format!("{edge}<{name}>\n{edge}\t<model {words}/>\n{edge}</{name}>\n");
        let resource = format!("period=\"{period}\" bandwidth=\"{share}\" deadline=\"{period}\"");
        let task = format!("period=\"{period}\" execution_time=\"{budget}\" deadline=\"{period}\"");
        write!(out, "{}{}", model("resource", resource), model("processed_task", task))
    }

    fn task(&self, out: &mut String, task: &Task, edge: &str) -> std::fmt::Result {
        let number = |time| self.unit.number(time);
        let (name, Task { period, deadline, wcet, .. }) = (escape(&task.name), task);
        let (p, d, e) = (number(*period), number(*deadline), number(*wcet));
        write!(out, "{edge}<task name=\"{name}\" p=\"{p}\" d=\"{d}\" e=\"{e}\"")?;
        if !task.offset.is_zero() {
            write!(out, " offset=\"{}\"", number(task.offset))?;
        }
        writeln!(out, "/>")
    }
}

/// Text that may stand in an attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
