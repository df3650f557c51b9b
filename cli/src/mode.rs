//! `giusto mode` and `giusto agent`.

use crate::args::{AgentArgs, ModeArgs};
use crate::failure::Failure;
use crate::running::{look, unexpected};
use crate::table::{json, print, say, table};
use giusto_daemon::{ask, Answer, ChangeStatus, ModesStatus, Request, Wish};
use giusto_model::Duration;
use std::process::ExitCode;

/// `giusto mode`
pub(crate) fn mode(args: &ModeArgs) -> Result<ExitCode, Failure> {
    if args.name.is_none() && args.service.is_empty() {
        let Some(modes) = look()?.modes else {
            return Err(Failure::input("this host has no modes; expected 'modes' in its site file"));
        };
        if args.json {
            return json(&modes);
        }
        for line in lines(&modes) {
            say!("{line}");
        }
        if let Some(last) = modes.changes.last() {
            say!("");
            show(last)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let services = args.service.iter().cloned().collect();
    let wish = Wish { mode: args.name.clone(), services, policy: args.policy, wait: args.wait };
    let change = match ask(&Request::Mode(wish))? {
        Answer::Mode(change) => change,
        other => return Err(unexpected(other)),
    };
    if args.json {
        return json(&change);
    }
    match &change {
        None => say!("the change has begun; giusto mode tells how it went"),
        Some(change) => show(change)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `giusto agent`
pub(crate) fn agent(args: &AgentArgs) -> Result<ExitCode, Failure> {
    giusto_agent::serve(&args.file, args.mode.as_deref()).map_err(|error| match error.exit_code() {
        2 => Failure::input(error),
        3 => Failure::lacks(error),
        _ => Failure::running(error),
    })
}

/// The mode, and who is in which of their own.
pub(crate) fn lines(modes: &ModesStatus) -> Vec<String> {
    let name = modes.mode.as_deref().unwrap_or("none that the site names");
    let to = modes.changing_to.iter().map(|to| format!(", changing to {to}")).collect::<String>();
    let mut lines = vec![format!("mode: {name}{to}")];
    let mut rows = vec![["service", "mode", "agent"].map(String::from).to_vec()];
    rows.extend(modes.members.iter().map(|member| {
        let agent = match (member.connected, member.sound) {
            (None, true) => "-",
            (_, false) => "does not run its mode",
            (Some(true), _) => "connected",
            (Some(false), _) => "not connected",
        };
        vec![member.service.clone(), member.local.clone(), agent.into()]
    }));
    lines.extend(table(&rows, usize::MAX).lines().map(String::from));
    lines
}

/// A change with its steps.
fn show(change: &ChangeStatus) -> Result<(), Failure> {
    let time = |ns: Option<u64>| ns.map_or("-".into(), |ns| format!("{:.3}", Duration::from_ns(ns)));
    match change.outcome.as_str() {
        "unchanged" => say!("{} is in force already", change.to),
        outcome => say!("{} -> {}: {outcome} in {:.3}", change.from, change.to, Duration::from_ns(change.took_ns)),
    }
    if change.steps.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["service", "send", "signal", "receive", "round trip", "change"].map(String::from).to_vec()];
    rows.extend(change.steps.iter().map(|step| {
        let times = [step.send_ns, step.signal_ns, step.receive_ns, step.round_ns, step.change_ns];
        std::iter::once(step.service.clone()).chain(times.map(time)).collect()
    }));
    print(&table(&rows, 1))
}
