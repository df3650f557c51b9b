//! `giusto check`.

use crate::args::SiteArg;
use crate::failure::Failure;
use crate::table::{json, say, table};
use giusto_model::{Origin, Promise, Service, Task};
use serde_json::json;
use std::process::ExitCode;

/// Reads the site and says what it describes.
pub(crate) fn check(args: &SiteArg) -> Result<ExitCode, Failure> {
    let site = giusto_site::read(&args.site)?;
    crate::plan::note_missing_cores(&site, &giusto_daemon::facts());
    if args.json {
        let services: Vec<_> =
            site.services.iter().map(|s| json!({"name": s.name, "promise": s.promise, "tasks": s.tasks})).collect();
        let host = json!({"name": site.host.name, "cores": site.host.cores, "keep_free": site.host.keep_free});
        return json(&json!({"host": host, "services": services}));
    }
    let cores = giusto_planner::cores(&site.host.cores);
    say!("host {}: cores {cores}, {} of each kept free", site.host.name, site.host.keep_free.percent());
    let mut rows = vec![["service", "promise", "from", "tasks"].map(String::from).to_vec()];
    rows.extend(site.services.iter().map(describe));
    crate::table::print(&table(&rows, 4))?;
    Ok(ExitCode::SUCCESS)
}

fn describe(service: &Service) -> Vec<String> {
    let promise = match &service.promise {
        Promise::AsIfAlone => "as-if-alone".to_string(),
        Promise::Supply(interfaces) => {
            let each: Vec<String> = interfaces.iter().map(ToString::to_string).collect();
            format!("supply of {}", each.join(", "))
        }
        Promise::Leftovers { at_least, at_most } => {
            let most = at_most.map_or(String::new(), |most| format!(", at most {}", most.percent()));
            format!("leftovers, at least {}{most}", at_least.percent())
        }
    };
    let from = match &service.origin {
        Origin::Start(words) => format!("started: {}", words.first().map_or("", String::as_str)),
        Origin::Adopt(adopt) => format!("adopted: {adopt}"),
    };
    let tasks: Vec<String> = service.tasks.iter().map(|task: &Task| format!("{}: {task}", task.name)).collect();
    vec![service.name.clone(), promise, from, tasks.join(", ")]
}
