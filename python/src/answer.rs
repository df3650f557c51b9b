//! Answers to questions: one, or many in parallel.

use crate::error::{failed, from};
use crate::question::{Asked, Question};
use crate::run::{each, watched, Stop};
use crate::words::Count;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Tells a function of Python's how many are done.
fn tell(progress: Option<&Bound<'_, PyAny>>, done: &AtomicUsize) -> PyResult<()> {
    progress.map_or(Ok(()), |call| call.call1((done.load(Ordering::Relaxed),)).map(drop))
}

/// The answer as JSON. `progress` is called with how many of its parts are done.
#[pyfunction]
#[pyo3(signature = (question, progress))]
pub(crate) fn answer(py: Python<'_>, question: &Question, progress: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    let (asked, done) = (Arc::clone(&question.0), Arc::new(AtomicUsize::new(0)));
    let counts = Arc::clone(&done);
    let work = move || {
        asked.answer(&|| {
            counts.fetch_add(1, Ordering::Relaxed);
        })
    };
    let found = watched(py, &Stop::default(), work, |_| tell(progress.as_ref(), &done))?.map_err(from)?;
    tell(progress.as_ref(), &done)?;
    Ok(found)
}

/// The answers as JSON, in their order, or the exceptions in their places. `progress` is called with how many are done.
#[pyfunction]
#[pyo3(signature = (questions, threads, progress))]
pub(crate) fn answers(
    py: Python<'_>,
    questions: Vec<PyRef<'_, Question>>,
    threads: Count,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let asked: Vec<Arc<Asked>> = questions.iter().map(|question| Arc::clone(&question.0)).collect();
    drop(questions);
    let (stop, done) = (Stop::default(), Arc::new(AtomicUsize::new(0)));
    let (inner, counts) = (stop.clone(), Arc::clone(&done));
    let all = move || each(asked.len(), threads.0 as usize, &inner, &counts, |nth| asked[nth].answer(&|| ()));
    let found = watched(py, &stop, all, |_| tell(progress.as_ref(), &done))?;
    tell(progress.as_ref(), &done)?;
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
