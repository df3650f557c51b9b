//! `giusto analyze interface --carts`: a tree of components, from the leaves up.

use crate::args::InterfaceArgs;
use crate::failure::{apart, create, Failure};
use crate::interface::question;
use crate::table::{json, print, say, table};
use giusto_analysis::interface::{interface as cheapest, interface_within, Interface, Scheduler};
use giusto_answers::interface::refused;
use giusto_model::{Release, Task};
use giusto_planner::share as percent;
use giusto_site::carts::{self, Component, Period};
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// One component's answer.
#[derive(Serialize)]
struct Answer {
    component: String,
    #[serde(flatten)]
    interface: Interface,
}

/// Computes the interface of each component of the file: to its parent it is a task (Π, Θ).
pub(crate) fn interfaces(path: &Path, args: &InterfaceArgs) -> Result<ExitCode, Failure> {
    apart(&[("--carts-out", args.carts_out.as_deref())], &[path])?;
    let system = carts::read(path, args.unit)?;
    let mut answers = Vec::new();
    solve(&system, args, &mut answers)?;
    if let Some(out) = &args.carts_out {
        let known: HashMap<&str, giusto_model::Interface> = answers
            .iter()
            .map(|Answer { component, interface: Interface { period, budget, .. } }| {
                (component.as_str(), giusto_model::Interface { period: *period, budget: *budget })
            })
            .collect();
        let text = carts::write(&system, args.unit, &|component| known.get(component.name.as_str()).copied());
        let cannot = |error| Failure::running(format!("cannot write {}: {error}", out.display()));
        let mut file = create(out)?;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
    }
    if args.json {
        return json(&answers);
    }
    let mut rows = vec![["component", "scheduler", "server", "bandwidth", "overhead"].map(String::from).to_vec()];
    rows.extend(answers.iter().map(|Answer { component, interface }| {
        vec![
            component.clone(),
            interface.certificate.scheduler.to_string(),
            format!("{:.3} every {:.3}", interface.budget, interface.period),
            percent(interface.bandwidth),
            interface.overhead_bandwidth.percent(),
        ]
    }));
    print(&table(&rows, 3))?;
    say!("the leaves first; to its parent a component is a task with its budget every period");
    Ok(ExitCode::SUCCESS)
}

fn solve(component: &Component, args: &InterfaceArgs, answers: &mut Vec<Answer>) -> Result<(), Failure> {
    let mut tasks = component.tasks.clone();
    for child in &component.components {
        solve(child, args, answers)?;
        let Some(Answer { interface, .. }) = answers.last() else { continue };
        let (period, wcet, name) = (interface.period, interface.budget, child.name.clone());
        tasks.push(Task {
            name,
            wcet,
            period,
            deadline: period,
            offset: Default::default(),
            release: Release::Sporadic,
            copies: 1,
        });
    }
    let scheduler = match component.scheduler {
        carts::Scheduler::Edf => Scheduler::Edf,
        carts::Scheduler::Rm => Scheduler::Rm,
        carts::Scheduler::Dm => Scheduler::Dm,
    };
    let period = match component.period {
        Period::Exactly(period) => Some(period),
        Period::Free | Period::Between(..) => args.period,
    };
    let question = question(args, scheduler, None).about(&tasks, scheduler, period);
    let named = |failure: Failure| failure.about(&format!("component '{}'", component.name));
    let found = match component.period {
        Period::Between(shortest, longest) => interface_within(&tasks, &question, shortest, longest),
        Period::Exactly(_) | Period::Free => cheapest(&tasks, &question),
    };
    let found = found.map_err(|error| named(Failure::input(error)))?;
    let interface = found.map_err(|refusal| named(refused(&tasks, &refusal).into()))?;
    answers.push(Answer { component: component.name.clone(), interface });
    Ok(())
}
