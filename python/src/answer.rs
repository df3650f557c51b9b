//! Answers to questions: one, or many in parallel.

use crate::error::{failed, from};
use crate::question::{Asked, Question};
use crate::run::{beside, each, watched, Stop};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The answer as JSON.
#[pyfunction]
pub(crate) fn answer(py: Python<'_>, question: &Question) -> PyResult<String> {
    let asked = Arc::clone(&question.0);
    beside(py, &Stop::default(), move || asked.answer())?.map_err(from)
}

/// The answers as JSON, in their order, or the exceptions in their places. `progress` is called with how many are done.
#[pyfunction]
#[pyo3(signature = (questions, threads, progress))]
pub(crate) fn answers(
    py: Python<'_>,
    questions: Vec<PyRef<'_, Question>>,
    threads: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let asked: Vec<Arc<Asked>> = questions.iter().map(|question| Arc::clone(&question.0)).collect();
    drop(questions);
    let (stop, done) = (Stop::default(), Arc::new(AtomicUsize::new(0)));
    let (inner, counts) = (stop.clone(), Arc::clone(&done));
    let all = move || each(asked.len(), threads, &inner, &counts, |nth| asked[nth].answer());
    let tell = |_: Python<'_>| match &progress {
        Some(call) => call.call1((done.load(Ordering::Relaxed),)).map(drop),
        None => Ok(()),
    };
    let found = watched(py, &stop, all, tell)?;
    tell(py)?;
    let object = |one: Option<Result<String, giusto_answers::Error>>| match one {
        Some(Ok(text)) => Ok(text.into_pyobject(py)?.into_any().unbind()),
        Some(Err(error)) => {
            let error = from(error);
            if error.is_instance_of::<PyException>(py) {
                return Ok(error.into_value(py).into_any());
            }
            Err(error)
        }
        None => Err(failed("the computation broke off")),
    };
    found.into_iter().map(object).collect()
}
