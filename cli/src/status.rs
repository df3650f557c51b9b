//! `giusto status` and `giusto reload`: what an operator asks the giusto that runs on this host.

use crate::args::{ReloadArgs, StatusArgs};
use crate::failure::Failure;
use crate::running::{look, unexpected};
use crate::table::{aligned, json, print, say, time};
use giusto_daemon::{ask, Adaptation, Answer, CoreStatus, LinkStatus, Request, ServiceStatus, Status};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Cells of a bar.
const BAR: usize = 8;

/// `giusto status`
pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let status = look()?;
    if args.json {
        return json(&status);
    }
    print(&lines(&status).iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// `giusto reload`
pub(crate) fn reload(args: &ReloadArgs) -> Result<ExitCode, Failure> {
    let site = args.site.as_deref().map(absolute).transpose()?;
    let change = match ask(&Request::Reload(site))? {
        Answer::Change(change) => change,
        other => return Err(unexpected(other)),
    };
    if args.json {
        return json(&change);
    }
    if change.steps.is_empty() {
        say!("the new plan is in force; nothing had to be changed for it");
    }
    for step in &change.steps {
        say!("{step}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The running giusto has another working directory, and JSON takes texts only.
fn absolute(site: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(site).ok().filter(|path| path.to_str().is_some());
    absolute.ok_or_else(|| Failure::input(format!("{}: expected the path of a site file, in UTF-8", site.display())))
}

/// All of it, a text a line; what matters most is on the left, where a narrow terminal shows it.
pub(crate) fn lines(status: &Status) -> Vec<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let age = age(now.saturating_sub(status.since_ns));
    let took = status.cpu_recent * 100.0;
    let (host, state, pid) = (&status.host, status.state, status.pid);
    let mut lines =
        vec![format!("{host}: {state}, since {age}, process {pid}, which takes {took:.2} % of a core itself")];
    if !status.services.is_empty() {
        let heads = ["service", "state", "core", "supply, last second", "left", "throttled", "server", "promise"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(status.services.iter().map(service));
        lines.push(String::new());
        lines.extend(aligned(&rows, &[4, 5]));
    }
    lines.extend(crate::health::lines(status));
    if !status.cores.is_empty() {
        let heads = ["core", "backend", "manager", "wake-ups/s", "late, mean", "at most"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(status.cores.iter().map(core));
        lines.push(String::new());
        lines.extend(aligned(&rows, &[2, 3, 4, 5]));
        lines.extend(status.cores.iter().filter_map(mode));
    }
    if !status.network.is_empty() {
        let heads = [
            "interface",
            "class",
            "core",
            "priority",
            "packets/s",
            "moved",
            "passed",
            "dropped",
            "bypassed",
            "service",
        ];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(status.network.iter().map(interface));
        lines.push(String::new());
        lines.extend(aligned(&rows, &[2, 3, 4, 6, 7, 8]));
    }
    if let Some(modes) = &status.modes {
        lines.push(String::new());
        lines.extend(crate::mode::lines(modes));
    }
    if !status.adaptations.is_empty() {
        lines.push(String::new());
        lines.extend(status.adaptations.iter().map(|one| adaptation(one, now)));
    }
    lines.extend(status.services.iter().filter_map(unserved));
    let told = status.warnings.iter().map(|warning| format!("warning: {warning}"));
    let told: Vec<String> = told.chain(status.notes.iter().map(|note| format!("note: {note}"))).collect();
    if !told.is_empty() {
        lines.push(String::new());
        lines.extend(told);
    }
    lines
}

/// What it did not get, or had too long.
fn unserved(service: &ServiceStatus) -> Option<String> {
    let (misses, late) = (service.misses.unwrap_or(0), service.late_stops.unwrap_or(0));
    let name = &service.name;
    (misses + late > 0)
        .then(|| format!("{name}: {misses} periods without its whole budget, {late} times not stopped in time"))
}

/// `planned anew 12 s ago: cache, 35.0 % of a core to 61.2 %: it took 34.9 % of a core, 30.0 % were planned for`.
fn adaptation(one: &Adaptation, now_ns: u64) -> String {
    let Adaptation { at_ns, service, from, to, why } = one;
    let ago = age(now_ns.saturating_sub(*at_ns));
    format!("planned anew {ago} ago: {service}, {:.1} % of a core to {:.1} %: {why}", from * 100.0, to * 100.0)
}

fn service(service: &ServiceStatus) -> Vec<String> {
    let name = match service.vcpu {
        Some(vcpu) => format!("{}/{vcpu}", service.name),
        None => service.name.clone(),
    };
    let server = match (service.budget_ns, service.period_ns) {
        (Some(budget), Some(period)) => format!("{} / {}", time(budget), time(period)),
        _ => "-".into(),
    };
    let left = service.left_ns.map(|ns| if ns < 0 { format!("-{}", time(ns.unsigned_abs())) } else { time(ns as u64) });
    vec![
        name,
        service.state.to_string(),
        service.core.map_or("-".into(), |core| core.to_string()),
        supply(service),
        left.unwrap_or("-".into()),
        service.depletions.map_or("-".into(), |times| times.to_string()),
        server,
        service.promise.clone(),
    ]
}

/// `██████░░ 30.1 of 40.0 %`: the bar is full when it got all that it asked for.
fn supply(service: &ServiceStatus) -> String {
    let got = service.supplied_recent;
    let asked = match (service.budget_ns, service.period_ns) {
        (Some(budget), Some(period)) if period > 0 => Some(budget as f64 / period as f64),
        _ => None,
    };
    let halves = (got / asked.unwrap_or(1.0) * (BAR * 2) as f64).round().clamp(0.0, (BAR * 2) as f64) as usize;
    let bar = format!("{}{}", "█".repeat(halves / 2), if halves % 2 == 1 { "▌" } else { "" });
    let of = asked.map_or(String::new(), |asked| format!(" of {:.1}", asked * 100.0));
    format!("{bar:░<BAR$} {:.1}{of} %", got * 100.0)
}

fn core(core: &CoreStatus) -> Vec<String> {
    let known = |text: Option<String>| text.unwrap_or("-".into());
    vec![
        core.core.to_string(),
        known(core.backend.clone()),
        known(core.manager_cost.map(|cost| format!("{:.2} %", cost * 100.0))),
        known(core.wakeups_per_s.map(|wakeups| format!("{wakeups:.0}"))),
        known(core.lateness_mean_ns.map(time)),
        known(core.lateness_max_ns.map(time)),
    ]
}

/// The mode of a core whose services have criticality.
fn mode(core: &CoreStatus) -> Option<String> {
    let mode = core.criticality?;
    let now = match mode.is_hi {
        true => "HI: worst budgets for high ones",
        false => "LO: usual budgets for all",
    };
    Some(format!("core {} is in {now}; {} times in HI so far, {} in all", core.core, mode.switches, time(mode.hi_ns)))
}

fn interface(link: &LinkStatus) -> Vec<String> {
    let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
    vec![
        link.name.clone(),
        link.class.map_or("uplink".into(), |class| class.to_string()),
        link.core.to_string(),
        match (link.demoted, link.priority) {
            (true, _) => "demoted".into(),
            (false, priority) => priority.map_or("-".into(), |priority| priority.to_string()),
        },
        format!("{:.0}", link.packets_per_s),
        link.proof.to_string(),
        count(link.passed),
        count(link.dropped),
        count(link.bypassed),
        link.service.clone().unwrap_or("-".into()),
    ]
}

/// `3 d 4 h`, `5 h 12 min`, `12 min`, `7 s`.
fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_fits_into_100_columns_and_lines_up() {
        let status: Status = serde_json::from_str(include_str!("../../formats/goldens/status.json")).unwrap();
        let lines = lines(&status);
        let tables = lines.iter().take_while(|line| !line.starts_with("warning: "));
        assert!(
            tables.clone().count() < lines.len() && tables.clone().all(|line| line.chars().count() <= 100),
            "{lines:#?}"
        );
        let rows: Vec<&String> = lines[2..2 + status.services.len() + 1].iter().collect();
        let at = |row: &str, text: &str| row.find(text).map(|byte| row[..byte].chars().count());
        let promise = at(rows[0], "promise").unwrap();
        assert!(rows[1..].iter().all(|row| row.chars().nth(promise - 1) == Some(' ')), "{rows:#?}");
    }

    #[test]
    fn bars_and_ages() {
        let mut one = ServiceStatus { budget_ns: Some(40), period_ns: Some(100), ..ServiceStatus::default() };
        for (got, shown) in
            [(0.0, "░░░░░░░░ 0.0 of 40.0 %"), (0.3, "██████░░ 30.0 of 40.0 %"), (0.5, "████████ 50.0 of 40.0 %")]
        {
            one.supplied_recent = got;
            assert_eq!(supply(&one), shown);
        }
        one.budget_ns = None;
        assert_eq!(supply(&one), "████░░░░ 50.0 %");
        let seconds = |s: u64| age(s * 1_000_000_000);
        assert_eq!([7, 720, 18_720, 280_800].map(seconds), ["7 s", "12 min", "5 h 12 min", "3 d 6 h"]);
    }
}
