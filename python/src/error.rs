//! Errors of the rooms as the exceptions of `giusto._errors`, which carry line, column and witness.

use giusto_answers::plan::{code, locate};
use giusto_answers::Error;
use giusto_planner::{Refusal, Refused};
use giusto_site::SiteError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

/// The module with the classes.
const CLASSES: &str = "giusto._errors";

/// An exception of the class `name`, with `fields` as attributes.
fn raise(name: &str, text: &str, fields: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    Python::attach(|py| {
        let made = || -> PyResult<PyErr> {
            let given = PyDict::new(py);
            fields(&given)?;
            let class = py.import(CLASSES)?.getattr(name)?;
            Ok(PyErr::from_value(class.call((text,), Some(&given))?))
        };
        made().unwrap_or_else(|error| error)
    })
}

/// What makes no sense.
pub(crate) fn input(text: impl ToString) -> PyErr {
    raise("InputError", &text.to_string(), |_| Ok(()))
}

/// What broke off.
pub(crate) fn failed(text: impl ToString) -> PyErr {
    raise("FailedError", &text.to_string(), |_| Ok(()))
}

/// What cannot fit; the witness is JSON.
fn does_not_fit(text: &str, witness: Option<&Value>) -> PyErr {
    raise("DoesNotFit", text, |given| given.set_item("witness", witness.map(Value::to_string)))
}

/// Of a room's answer.
pub(crate) fn from(error: Error) -> PyErr {
    match error {
        Error::DoesNotFit { text, witness } => does_not_fit(&text, witness.as_ref()),
        Error::Running(text) => failed(text),
        Error::Refused(refusal) => refused(*refusal, None),
        Error::Simulated(giusto_simulator::Error::Write(text)) => failed(text),
        other => input(other),
    }
}

/// Of a site that was read from `text`, by its name: the refusal says where in it something has to change.
pub(crate) fn refused(refusal: Refusal, read: Option<(&str, &str)>) -> PyErr {
    let mut refusal = refusal;
    let place = read.and_then(|(_, text)| locate(&mut refusal, text));
    let exit = code(&refusal);
    let refused = Refused::new(&refusal, place, exit);
    let class = match exit {
        1 => "Refusal",
        3 => "LacksError",
        _ => "InputError",
    };
    let text = match (place, read) {
        (Some(at), Some((name, _))) => format!("{name}:{}:{}: {refusal}", at.line, at.column),
        _ => refusal.to_string(),
    };
    let json = serde_json::to_string(&refused);
    raise(class, &text, |given| {
        if exit == 1 {
            given.set_item("witness", json.ok())?;
        }
        given.set_item("file", read.map(|(name, _)| name))?;
        given.set_item("line", place.map(|at| at.line))?;
        given.set_item("column", place.map(|at| at.column))
    })
}

/// Of a site file.
pub(crate) fn site(error: SiteError) -> PyErr {
    let text = error.to_string();
    match error {
        SiteError::Text(at) => raise("SiteError", &text, |given| {
            given.set_item("file", &at.file)?;
            given.set_item("line", at.line)?;
            given.set_item("column", at.column)
        }),
        _ => raise("SiteError", &text, |_| Ok(())),
    }
}
