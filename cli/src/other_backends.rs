//! What the promise of a service costs under the backends that the plan did not choose.

use crate::failure::Failure;
use crate::plan::{facts, read, Asked, Read};
use giusto_model::{Backend, Plan};
use giusto_planner::share;
use std::path::Path;

/// Beyond so many services planning again for each backend is felt.
const SERVICES: usize = 100;

/// A line for each other backend: the reservation of `name` under it, or why there is none; as rows of `giusto explain`. Empty for
/// what has no reservation, and for large sites.
pub(crate) fn described(plan: &Plan, site: &Path, asked: &Asked, name: &str) -> Result<String, Failure> {
    let own = plan.services.iter().find(|one| one.name == name).map(|one| one.backend);
    let Some(own) = own.filter(|_| plan.services.len() <= SERVICES && asked.backend.is_none()) else {
        return Ok(String::new());
    };
    let read = read(site)?;
    let others = Backend::ALL.into_iter().filter(|backend| *backend != own);
    Ok(others.map(|backend| row(backend, &read, &Asked { backend: Some(backend), ..*asked }, name)).collect())
}

fn row(backend: Backend, read: &Read, asked: &Asked, name: &str) -> String {
    let planned = facts(&read.site, asked)
        .map_err(|why| why.to_string())
        .and_then(|facts| giusto_answers::plan::of(read, asked, facts, &mut |_| ()).map_err(|why| why.to_string()));
    let (value, why) = match planned {
        Ok(plan) => match plan.services.iter().find(|one| one.name == name) {
            Some(one) => {
                let (budget, period) = (one.server.budget, one.server.period);
                (format!("{budget} ({})", share(one.server.bandwidth())), format!("every {period}"))
            }
            None => ("-".into(), "it has no reservation under it".into()),
        },
        Err(why) => {
            let first = why.lines().next().unwrap_or_default();
            let first = first.strip_prefix(&format!("service '{name}': ")).unwrap_or(first);
            let told = ["; leave --backend out", "; or leave --backend out"]
                .iter()
                .fold(first, |text, hint| text.split_once(hint).map_or(text, |(before, _)| before));
            ("-".into(), told.into())
        }
    };
    format!("  {:<16} {value:<29} {why}\n", format!("under {backend}"))
}
