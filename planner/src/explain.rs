use crate::words::time;
use crate::Error;
use giusto_model::{Plan, Reason};

/// Where each number of the service `name` comes from, as an aligned table with one line a number.
///
/// Errors: a name that the plan does not have (the text lists those it has).
pub fn explain(plan: &Plan, name: &str) -> Result<String, Error> {
    if let Some(service) = plan.services.iter().find(|s| s.name == name) {
        let mut rows: Vec<[String; 3]> = service
            .tasks
            .iter()
            .map(|t| ["task".into(), t.to_string(), format!("'{}', from the site", t.name)])
            .collect();
        rows.extend(service.reasons.iter().map(row));
        if let Some(p) = &service.prediction {
            let why = format!(
                "simulated, {} jobs; p50 {}, p99.9 {}, max {}",
                p.jobs,
                time(p.p50),
                time(p.p99_9),
                time(p.max)
            );
            rows.push(["predicted p99".into(), time(p.p99), why]);
        }
        return Ok(format!(
            "{name} on {}: the latency of a whole core on a share of one\n{}",
            plan.host.name,
            table(&rows)
        ));
    }
    if let Some(leftover) = plan.leftovers.iter().find(|s| s.name == name) {
        let rows: Vec<[String; 3]> = leftover.reasons.iter().map(row).collect();
        return Ok(format!("{name} on {}: what the others leave\n{}", plan.host.name, table(&rows)));
    }
    let names = plan.services.iter().map(|s| &s.name).chain(plan.leftovers.iter().map(|s| &s.name));
    let known = names.map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(Error::UnknownName { name: name.into(), known })
}

fn row(reason: &Reason) -> [String; 3] {
    [reason.what.clone(), reason.value.clone(), reason.why.clone()]
}

/// Two columns as wide as their longest cell, then the reason.
fn table(rows: &[[String; 3]]) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let (what, value) = (width(0), width(1));
    rows.iter().map(|[a, b, c]| format!("  {a:<what$}  {b:<value$}  {c}\n")).collect()
}
