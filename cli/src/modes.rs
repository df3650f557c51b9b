//! Modes in what `giusto plan` and `giusto check` print.

use crate::table::table;
use giusto_model::{Interface, ModePlan, ModesPlan, ServiceMode, Site, SiteMode, StaticCost};
use giusto_planner::share;

/// A line a mode and what reserving for the worst of all would cost:
/// `modes on edge-1: policy boost, transition fast, changes 1 s apart`.
pub(crate) fn describe(plan: &ModesPlan) -> String {
    let changes = &plan.changes;
    let head = format!(
        "modes on {}: policy {}, transition {}, changes at least {:.3} apart\n",
        plan.on, changes.policy, changes.transition, changes.spacing
    );
    let members = plan.members.iter().map(|member| member.service.clone());
    let heading = ["  mode", "reserved", "change within"].map(String::from).into_iter().chain(members);
    let rows: Vec<Vec<String>> =
        std::iter::once(heading.collect()).chain(plan.modes.iter().map(|mode| row(plan, mode))).collect();
    let StaticCost { fixed, modal, fixed_cores, modal_cores } = plan.static_cost;
    let s = |cores: u32| if cores == 1 { "" } else { "s" };
    format!(
        "{head}{}  reserved for the worst of all modes: {} of a core instead of {}, {fixed_cores} core{} instead of {modal_cores}\n",
        table(&rows, plan.members.len() + 3),
        share(fixed),
        share(modal),
        s(fixed_cores)
    )
}

/// `  emergency  61.2 %  2.1 ms (10 ms promised)  land: 4.1 ms every 10 ms  ...`
fn row(plan: &ModesPlan, mode: &ModePlan) -> Vec<String> {
    let each: Vec<String> = mode.admission.iter().map(|told| share(told.reserved)).collect();
    let within = mode.within.map_or(String::new(), |within| format!(" ({within:.3} promised)"));
    let member = |(place, name): (usize, &String)| {
        let servers = plan.local(place, name).map_or(&[][..], |local| &local.servers);
        let budgets: Vec<String> = servers
            .iter()
            .map(|server| Interface { budget: server.budget, period: server.period }.to_string())
            .collect();
        match budgets.is_empty() {
            true => name.clone(),
            false => format!("{name}: {}", budgets.join(" and ")),
        }
    };
    let head = [format!("  {}", mode.name), each.join(", "), format!("{:.3}{within}", mode.bound)];
    head.into_iter().chain(mode.locals.iter().enumerate().map(member)).collect()
}

/// `mode emergency: flight land, batch stopped; within 5 ms`, a line each.
pub(crate) fn site(site: &Site) -> Vec<String> {
    let mode = |mode: &SiteMode| {
        let locals: Vec<String> = mode.locals.iter().map(|one| format!("{} {}", one.service, one.local)).collect();
        let within = mode.within.map_or(String::new(), |within| format!("; within {within}"));
        let urgent = if mode.urgent { "; urgent" } else { "" };
        format!("mode {}: {}{within}{urgent}", mode.name, locals.join(", "))
    };
    site.modes.iter().flat_map(|modes| &modes.modes).map(mode).collect()
}

/// The names of local modes: `; modes cruise, land`.
pub(crate) fn locals(modes: &[ServiceMode]) -> String {
    let names: Vec<&str> = modes.iter().map(|mode| mode.name.as_str()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; modes {}", names.join(", ")),
    }
}
