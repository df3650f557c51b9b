//! Where the time of a path goes.

use super::table::{row, table};
use crate::words::{share, time};
use giusto_model::{PathPlan, PathPoint, PathStage, Plan};

/// A path: its numbers, and stage by stage the share of a core and the time that it has there.
pub(super) fn explained(plan: &Plan, path: &PathPlan) -> String {
    let promised = path.points.iter().map(|point| format!("{} ≤ {}", point.percentile, time(point.within)));
    let every = path.every.iter().map(|every| format!("every message within {}", time(every.within)));
    let promised: Vec<String> = promised.chain(every).collect();
    let mut rows: Vec<[String; 3]> = path.reasons.iter().map(row).collect();
    for (nth, stage) in path.through.iter().enumerate() {
        if let Some(link) = stage.link() {
            rows.push([format!("to {}", stage.on()), time(link), "over the link, at most".into()]);
        }
        let given = match stage {
            PathStage::Service(stage) => {
                let own = plan.services.iter().find(|entry| entry.name == stage.service);
                own.map_or(String::new(), |entry| {
                    let server = entry.server;
                    format!("{} every {} ({})", time(server.budget), time(server.period), share(server.bandwidth()))
                })
            }
            PathStage::Tokens(stage) => match stage.others {
                Some(others) => format!("{}, beside {others} of others", stage.bucket),
                None => stage.bucket.to_string(),
            },
            PathStage::Broker(stage) => {
                let points = stage.latency.iter().map(|point| format!("{} {}", point.percentile, time(point.within)));
                format!("{}, at most {}", points.collect::<Vec<_>>().join(", "), time(stage.worst))
            }
            PathStage::Interface(stage) => {
                format!("{} packets a message, tokens for {}", stage.packets, stage.bucket)
            }
        };
        let point = |PathPoint { percentile, parts, .. }: &PathPoint| {
            let part = parts.get(nth)?;
            let late = f64::from(part.beyond_ppb) / 1e7;
            Some(format!("{percentile}: {}, and {late:.3} % may be late here", time(part.within)))
        };
        let each = path.points.iter().filter_map(point);
        let every =
            path.every.iter().filter_map(|every| Some(format!("{} at most by itself", time(*every.parts.get(nth)?))));
        let at = stage.branch().map_or(String::new(), |branch| format!("branch {branch}, "));
        rows.push([format!("{at}at {stage}"), given, each.chain(every).collect::<Vec<_>>().join("; ")]);
    }
    format!("path {}: {}\n{}", path.name, promised.join(", "), table(&rows))
}
