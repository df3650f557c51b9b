//! Python's values as the words of the rooms: a text is read as the command line reads it, a whole number is ns.

use crate::error::input;
use giusto_analysis::criticality::Vm;
use giusto_analysis::interface::{Resource, Scheduler};
use giusto_analysis::response::Objective;
use giusto_answers::notation::{self, Weighted};
use giusto_answers::packets::{level, Level};
use giusto_answers::path::{also, place, Also, Place};
use giusto_model::{Bandwidth, Duration, Percentile, Rate, Release, Server, ServerKind, Task, Tokens};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use pyo3::Borrowed;

/// Any text is as good as the value that it stands for.
macro_rules! word {
    ($(#[$about:meta])* $name:ident($inner:ty), $read:expr) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub(crate) $inner);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;
            fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let read: fn(&Bound<'_, PyAny>) -> PyResult<$inner> = $read;
                read(&given).map($name)
            }
        }
    };
}

/// What the argument is, where it is a text.
fn text(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    given.cast::<PyString>().ok().map(|text| text.extract()).transpose()
}

/// A text by its notation, as the command line has it.
fn parsed<T>(given: &Bound<'_, PyAny>, what: &str, of: impl Fn(&str) -> Result<T, String>) -> PyResult<T> {
    match text(given)? {
        Some(text) => of(&text).map_err(input),
        None => Err(unlike(given, what)),
    }
}

fn unlike(given: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shown = given.repr().map_or_else(|_| "this".into(), |repr| repr.to_string());
    let shown: String = shown.chars().take(80).collect();
    input(format!("{shown} is not what was expected: {expected}"))
}

/// A whole number, also one of NumPy; never a truth value.
fn whole(given: &Bound<'_, PyAny>) -> Option<u64> {
    (!given.is_instance_of::<PyBool>()).then(|| given.extract().ok()).flatten()
}

pub(crate) fn time(given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    const EXPECTED: &str = "a time, as a text with its unit such as '2ms' or as a whole number of ns";
    if let Some(text) = text(given)? {
        return text.parse().map_err(input);
    }
    whole(given).map(Duration::from_ns).ok_or_else(|| unlike(given, EXPECTED))
}

fn span(given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    match time(given)? {
        none if none.is_zero() => Err(input("expected more than nothing, such as '5s'")),
        some => Ok(some),
    }
}

/// A fraction of Python's, or a whole number.
fn fraction(given: &Bound<'_, PyAny>) -> Option<Bandwidth> {
    let of = |name: &str| given.getattr(name).ok().and_then(|part| whole(&part));
    of("numerator").zip(of("denominator")).and_then(|(top, bottom)| Bandwidth::new(top, bottom))
}

pub(crate) fn share(given: &Bound<'_, PyAny>) -> PyResult<Bandwidth> {
    const EXPECTED: &str = "a share of a core, as a text such as '5%' or '19/25' or as a fractions.Fraction";
    if let Some(text) = text(given)? {
        return notation::part(&text).map_err(input);
    }
    let found = fraction(given).ok_or_else(|| unlike(given, EXPECTED))?;
    notation::part(&found.to_string()).map_err(input)
}

fn number(given: &Bound<'_, PyAny>) -> Option<f64> {
    (!given.is_instance_of::<PyBool>()).then(|| given.extract().ok()).flatten()
}

fn percent(given: &Bound<'_, PyAny>) -> PyResult<f64> {
    const EXPECTED: &str = "a percentile, as a number between 0 and 100 such as 99.9 or as a text such as 'p99.9'";
    if let Some(text) = text(given)? {
        return notation::percent(&text).map_err(input);
    }
    let found = number(given).ok_or_else(|| unlike(given, EXPECTED))?;
    Some(found).filter(|p| *p > 0.0 && *p < 100.0).ok_or_else(|| unlike(given, EXPECTED))
}

/// As Python writes the number, which is the shortest text that is it.
fn percentile(given: &Bound<'_, PyAny>) -> PyResult<Percentile> {
    let text = given.str()?.to_string();
    notation::percentile(text.strip_suffix(".0").unwrap_or(&text)).map_err(input)
}

/// The parts of a tuple or list; `None`: it is neither.
fn parts<'py>(given: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    (!given.is_instance_of::<PyString>()).then(|| given.extract().ok()).flatten()
}

/// So many of something.
fn count(given: &Bound<'_, PyAny>) -> PyResult<u32> {
    let count = whole(given).and_then(|count| u32::try_from(count).ok());
    count.ok_or_else(|| unlike(given, "a whole number from 0 to 4,294,967,295"))
}

fn seed(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole(given).ok_or_else(|| unlike(given, "a whole number from 0"))
}

fn optional(part: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    part.filter(|part| !part.is_none()).map(time).transpose()
}

fn task(given: &Bound<'_, PyAny>) -> PyResult<Task> {
    const EXPECTED: &str =
        "a task, as a text wcet/period[@deadline][+offset] such as '2ms/7ms@6ms', or as giusto.Task or a tuple \
                            (wcet, period[, deadline[, offset[, copies]]])";
    if let Some(text) = text(given)? {
        return text.parse().map_err(input);
    }
    let parts = parts(given).filter(|parts| (2..=5).contains(&parts.len())).ok_or_else(|| unlike(given, EXPECTED))?;
    let (wcet, period) = (time(&parts[0])?, time(&parts[1])?);
    let offset = optional(parts.get(3))?;
    let copies = parts.get(4).map(count).transpose()?;
    let task = Task {
        name: String::new(),
        wcet,
        period,
        deadline: optional(parts.get(2))?.unwrap_or(period),
        offset: offset.unwrap_or(Duration::ZERO),
        release: if offset.is_some() { Release::KeptOffset } else { Release::Sporadic },
        copies: copies.unwrap_or(1),
    };
    task.validate().map_err(input)?;
    Ok(task)
}

/// A value, or a value and its share.
fn weighted<T>(
    given: &Bound<'_, PyAny>,
    of_text: fn(&str) -> Result<Weighted<T>, String>,
    of: fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Weighted<T>> {
    if let Some(text) = text(given)? {
        return of_text(&text).map_err(input);
    }
    match parts(given).as_deref() {
        Some([value, part]) => Ok((of(value)?, Some(share(part)?))),
        _ => Ok((of(given)?, None)),
    }
}

fn size(given: &Bound<'_, PyAny>) -> PyResult<u32> {
    const EXPECTED: &str = "a size of batches from 1 to 1000";
    let size = whole(given).filter(|size| (1..=1000).contains(size)).ok_or_else(|| unlike(given, EXPECTED))?;
    u32::try_from(size).map_err(input)
}

fn objective(given: &Bound<'_, PyAny>) -> PyResult<Objective> {
    if let Some(text) = text(given)? {
        return notation::objective(&text).map_err(input);
    }
    match parts(given).as_deref() {
        Some([p, within]) => Ok(Objective { percentile: percent(p)?, within: span(within)? }),
        _ => Err(unlike(given, "an objective, as a text such as 'p90=30ms' or as (90, '30ms')")),
    }
}

fn resource(given: &Bound<'_, PyAny>) -> PyResult<Resource> {
    if let Some(text) = text(given)? {
        return notation::resource(&text).map_err(input);
    }
    let found = match parts(given).as_deref() {
        Some([budget, period]) => Resource::Periodic { period: time(period)?, budget: time(budget)? },
        Some([budget, period, deadline]) => {
            Resource::ExplicitDeadline { period: time(period)?, budget: time(budget)?, deadline: time(deadline)? }
        }
        _ => return Err(unlike(given, "a resource, as a text such as '2ms/5ms' or as (budget, period[, deadline])")),
    };
    found.validate().map_err(input)?;
    Ok(found)
}

pub(crate) fn kind(name: &str) -> PyResult<ServerKind> {
    ServerKind::ALL.into_iter().find(|kind| kind.to_string() == name).ok_or_else(|| {
        let kinds: Vec<String> = ServerKind::ALL.iter().map(ServerKind::to_string).collect();
        input(format!("'{name}' is no kind of server; expected one of {}", kinds.join(", ")))
    })
}

fn server(given: &Bound<'_, PyAny>) -> PyResult<Server> {
    if let Some(text) = text(given)? {
        return notation::server(&text).map_err(input);
    }
    match parts(given).as_deref() {
        Some([kind, budget, period]) => {
            let text = format!("{}:{}ns/{}ns", kind.str()?, time(budget)?.ns(), time(period)?.ns());
            notation::server(&text).map_err(input)
        }
        _ => Err(unlike(given, "a server, as a text such as 'deferrable:2ms/5ms' or as (kind, budget, period)")),
    }
}

word!(
    /// So many.
    Count(u32), count);
word!(
    /// The same gives the same run.
    Seed(u64), seed);
word!(
    /// Any time.
    Time(Duration), time);
word!(
    /// More than no time.
    Span(Duration), span);
word!(
    /// At most a core.
    ShareWord(Bandwidth), share);
word!(
    /// A task.
    TaskWord(Task), task);
word!(
    /// `rm`, `dm` or `edf`
    SchedulerWord(Scheduler), |given| parsed(given, "a scheduler: 'rm', 'dm' or 'edf'", |text| text.parse()));
word!(
    /// `40/s`
    RateWord(Rate), |given| parsed(given, "a rate, as a text such as '40/s'", |text| text.parse()));
word!(
    /// `26` or `4.5`
    TokensWord(Tokens), |given| given.str()?.to_string().parse().map_err(input));
word!(
    /// 99.9, exactly as far as floating point is
    PercentWord(f64), percent);
word!(
    /// The same as a fraction
    PercentileWord(Percentile), percentile);
word!(
    /// `40ms` or `40ms:75%`
    WeightedTime(Weighted<Duration>), |given| weighted(given, notation::weighted_time, span));
word!(
    /// `3` or `3:50%`
    WeightedSize(Weighted<u32>), |given| weighted(given, notation::weighted_size, size));
word!(
    /// `p90=30ms`
    ObjectiveWord(Objective), objective);
word!(
    /// `2ms/5ms`
    ResourceWord(Resource), resource);
word!(
    /// `deferrable:2ms/5ms`
    ServerWord(Server), server);
word!(
    /// `hi:5ms:25ms/100ms`
    VmWord(Vm), |given| parsed(given, "a VM, as a text such as 'hi:5ms:25ms/100ms' or 'lo:25ms/100ms'", notation::vm));
word!(
    /// `2ms/4ms:1ms`
    PlaceWord(Place), |given| parsed(given, "a stage, as a text such as '2ms/4ms:1ms'", place));
word!(
    /// `5k/s*16`
    LevelWord(Level), |given| parsed(given, "packets, as a text such as '5k/s*16'", level));
word!(
    /// `2=100/s:1ms`
    AlsoWord(Also), |given| parsed(given, "other messages, as a text such as '2=100/s:1ms'", also));
/// Several values: whatever Python can go through, but not a text, of which that would be the letters.
pub(crate) struct Many<T>(pub(crate) Vec<T>);

impl<'py, T> FromPyObject<'_, 'py> for Many<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    type Error = PyErr;
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let other = || unlike(&given, "several values, as a list");
        let all = if given.is_instance_of::<PyString>() { None } else { given.try_iter().ok() };
        all.ok_or_else(other)?.map(|one| one?.extract()).collect::<PyResult<_>>().map(Many)
    }
}

/// The values without their words.
pub(crate) trait Values<T> {
    /// In their order.
    fn values(self) -> Vec<T>;
}

macro_rules! values {
    ($($name:ident => $inner:ty),*) => {$(
        impl Values<$inner> for Many<$name> {
            fn values(self) -> Vec<$inner> {
                self.0.into_iter().map(|word| word.0).collect()
            }
        }
    )*};
}
values!(
    Span => Duration, Time => Duration, TaskWord => Task, PercentWord => f64, PercentileWord => Percentile,
    WeightedTime => Weighted<Duration>, WeightedSize => Weighted<u32>, ObjectiveWord => Objective, ServerWord => Server,
    VmWord => Vm, PlaceWord => Place, AlsoWord => Also, LevelWord => Level
);
