//! Values as they are written on the command line and in Python.

use giusto_analysis::criticality::Vm;
use giusto_analysis::interface::Resource;
use giusto_analysis::response::Objective;
use giusto_model::{Bandwidth, Duration, Percentile, Server, ServerKind};

/// Some time.
///
/// # Errors
/// No duration, or one of nothing.
pub fn span(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time.is_zero() => Err("expected more than nothing, such as 5s".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// A share of a core, at most a whole.
///
/// # Errors
/// No share, or more than a whole core.
pub fn part(text: &str) -> Result<Bandwidth, String> {
    let share: Bandwidth = text.parse()?;
    if share <= Bandwidth::ONE {
        return Ok(share);
    }
    Err(format!("{} is more than a whole core; for {text} percent write {text}%", share.percent()))
}

/// `p99` or `99`.
///
/// # Errors
/// No percentile, or one of too many decimals.
pub fn percentile(text: &str) -> Result<Percentile, String> {
    format!("p{}", text.strip_prefix('p').unwrap_or(text)).parse()
}

/// `p99` or `99`, with any number of decimals.
///
/// # Errors
/// Not a number between 0 and 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let found = text.strip_prefix('p').unwrap_or(text).parse().ok().filter(|p| *p > 0.0 && *p < 100.0);
    found.ok_or_else(|| {
        format!("'{text}' is not a percentile; expected a number between 0 and 100, such as 99.9 or p99.9")
    })
}

/// A value that may have a share of all.
pub type Weighted<T> = (T, Option<Bandwidth>);

/// The shares of those that have none written: what is left, evenly.
pub fn shares<T: Copy>(values: &[Weighted<T>]) -> Vec<(T, f64)> {
    let written: f64 = values.iter().filter_map(|(_, share)| *share).map(Bandwidth::as_f64).sum();
    let open = values.iter().filter(|(_, share)| share.is_none()).count();
    let rest = (1.0 - written) / open.max(1) as f64;
    values.iter().map(|(value, share)| (*value, share.map_or(rest, Bandwidth::as_f64))).collect()
}

/// A value, and its share after a colon.
fn weighted<T>(text: &str, value: impl Fn(&str) -> Result<T, String>) -> Result<Weighted<T>, String> {
    match text.split_once(':') {
        None => Ok((value(text)?, None)),
        Some((first, share)) => Ok((value(first)?, Some(share.parse()?))),
    }
}

/// `40ms` or `40ms:75%`
///
/// # Errors
/// No time, or no share.
pub fn weighted_time(text: &str) -> Result<Weighted<Duration>, String> {
    weighted(text, span)
}

/// `3` or `3:50%`
///
/// # Errors
/// Not a number from 1 to 1000, or no share.
pub fn weighted_size(text: &str) -> Result<Weighted<u32>, String> {
    let bad = |text: &str| format!("'{text}' is not a size; expected a number from 1 to 1000");
    weighted(text, |text| text.parse().ok().filter(|size| (1..=1000).contains(size)).ok_or_else(|| bad(text)))
}

/// `p90=30ms`
///
/// # Errors
/// No percentile, or no latency.
pub fn objective(text: &str) -> Result<Objective, String> {
    let bad = || format!("'{text}' is not an objective; expected a percentile and a latency, such as p90=30ms");
    let (percentile, within) = text.split_once('=').ok_or_else(bad)?;
    Ok(Objective { percentile: percent(percentile)?, within: span(within)? })
}

/// `2ms/5ms`, `2ms/5ms@4ms`, `40%+6ms` or `0ms-2ms,5ms-7ms/10ms`
///
/// # Errors
/// No resource in one of these notations, or one that makes no sense.
pub fn resource(text: &str) -> Result<Resource, String> {
    let bad = || {
        format!(
            "'{text}' is no resource; expected budget/period such as 2ms/5ms, budget/period@deadline such as 2ms/5ms@4ms, \
             share+delay such as 40%+6ms, or slots/cycle such as 0ms-2ms,5ms-7ms/10ms"
        )
    };
    let time = |text: &str| text.parse::<Duration>().map_err(|error| error.to_string());
    let found = if let Some((share, delay)) = text.split_once('+') {
        Resource::Linear { bandwidth: part(share)?, delay: time(delay)? }
    } else {
        let (first, period) = text.split_once('/').ok_or_else(bad)?;
        match period.split_once('@') {
            _ if first.contains('-') => {
                let slot = |slot: &str| {
                    let (from, to) = slot.split_once('-').ok_or_else(bad)?;
                    Ok::<_, String>([time(from)?, time(to)?])
                };
                let slots = first.split(',').map(slot).collect::<Result<_, _>>()?;
                Resource::Table { cycle: time(period)?, slots }
            }
            Some((period, deadline)) => {
                Resource::ExplicitDeadline { period: time(period)?, budget: time(first)?, deadline: time(deadline)? }
            }
            None => Resource::Periodic { period: time(period)?, budget: time(first)? },
        }
    };
    found.validate().map_err(|error| error.to_string())?;
    Ok(found)
}

/// `deferrable:2ms/5ms`
///
/// # Errors
/// No kind with a budget, no times, or a budget of more than its period.
pub fn server(text: &str) -> Result<Server, String> {
    let bad = || format!("'{text}' is no server; expected kind:budget/period, such as deferrable:2ms/5ms");
    let (name, resource) = text.split_once(':').ok_or_else(bad)?;
    let (budget, period) = resource.split_once('/').ok_or_else(bad)?;
    let kinds = ServerKind::WITH_BUDGET;
    let kind = kinds.iter().copied().find(|kind| kind.to_string() == name).ok_or_else(|| {
        let names: Vec<String> = kinds.iter().map(ServerKind::to_string).collect();
        format!("'{name}' is not a kind of server with a budget; expected one of {}", names.join(", "))
    })?;
    let (budget, period): (Duration, Duration) = (span(budget)?, span(period)?);
    if budget > period {
        return Err(format!(
            "a budget of {budget} does not fit into its period of {period}; expected budget <= period"
        ));
    }
    Ok(Server { kind, budget, period })
}

/// `hi:5ms:25ms/100ms`, `hi:5ms/100ms`, which never takes more, or `lo:25ms/100ms`
///
/// # Errors
/// No VM in one of these notations, or one that makes no sense.
pub fn vm(text: &str) -> Result<Vm, String> {
    let bad =
        || format!("'{text}' is no VM; expected hi:budget:worst/period, such as hi:5ms:25ms/100ms, or lo:25ms/100ms");
    let (level, rest) = text.split_once(':').ok_or_else(bad)?;
    let (budgets, period) = rest.split_once('/').ok_or_else(bad)?;
    let (usual, worst) = budgets.split_once(':').map_or((budgets, None), |(usual, worst)| (usual, Some(worst)));
    let (period, usual): (Duration, Duration) = (span(period)?, span(usual)?);
    let vm = match (level, worst) {
        ("hi", worst) => Vm::high(usual, worst.map_or(Ok(usual), span)?, period),
        ("lo", None) => Vm::low(usual, period),
        ("lo", Some(_)) => return Err("a low one has one budget; expected lo:budget/period, or hi".into()),
        _ => return Err(bad()),
    };
    vm.validate().map_err(|why| why.to_string())?;
    Ok(vm)
}
