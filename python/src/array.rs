//! Whole numbers of Python's: of an array of NumPy in one piece, of anything else one by one.

use crate::columns::NEVER;
use crate::error::input;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::Borrowed;

/// Whole numbers from 0, or -1 for none.
pub(crate) struct Whole(pub(crate) Vec<i64>);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Some(numbers) = in_one_piece(&given)? {
            return Ok(Whole(numbers));
        }
        given.extract().map(Whole).map_err(|_| input("expected whole numbers, as a list or an array of integers"))
    }
}

impl Whole {
    /// Times in ns; -1 is none.
    pub(crate) fn times(&self) -> PyResult<Vec<Option<u64>>> {
        let time = |ns: &i64| match *ns {
            NEVER => Ok(None),
            ns => {
                u64::try_from(ns).map(Some).map_err(|_| input(format!("expected times in ns, -1 for none, not {ns}")))
            }
        };
        self.0.iter().map(time).collect()
    }
    /// Times in ns, every one.
    pub(crate) fn known(&self) -> PyResult<Vec<u64>> {
        let time = |ns: &i64| u64::try_from(*ns).map_err(|_| input(format!("expected times in ns from 0, not {ns}")));
        self.0.iter().map(time).collect()
    }
}

/// The numbers of an array of NumPy of 64-bit integers that lie one after the other.
fn in_one_piece(given: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    let Ok(known) = given.getattr("__array_interface__") else { return Ok(None) };
    let known = known.cast::<PyDict>()?;
    let of = |name: &str| known.get_item(name).map(|item| item.filter(|item| !item.is_none()));
    let kind: Option<String> = of("typestr")?.map(|item| item.extract()).transpose()?;
    let (Some("<i8" | "<u8"), None) = (kind.as_deref(), of("strides")?) else { return Ok(None) };
    let (Some(data), Some(shape)) = (of("data")?, of("shape")?) else { return Ok(None) };
    let ((at, _), shape): ((usize, bool), Vec<usize>) = (data.extract()?, shape.extract()?);
    let [length] = shape[..] else { return Ok(None) };
    if length == 0 {
        return Ok(Some(Vec::new()));
    }
    let at = at as *const i64;
    if at.is_null() || !at.is_aligned() {
        return Ok(None);
    }
    // SAFETY: by the protocol `length` numbers of this type lie there as long as the object lives, which our reference and the
    // GIL see to; they are copied before anything else runs. A <u8 beyond 2^63 comes out below 0, as no time.
    Ok(Some(unsafe { std::slice::from_raw_parts(at, length) }.to_vec()))
}
