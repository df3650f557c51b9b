//! Where the time of a path goes.

use super::table::{row, table};
use crate::words::{share, time};
use giusto_model::{PathPart, PathPlan, PathPoint, PathStage, Plan};

/// A path: its numbers, and stage by stage the share of a core and the time that it has there.
pub(super) fn explained(plan: &Plan, path: &PathPlan) -> String {
    let promised = path.points.iter().map(|point| format!("{} ≤ {}", point.percentile, time(point.within)));
    let every = path.every.iter().map(|every| format!("every message within {}", time(every.within)));
    let despite = path.despite.iter().map(|one| format!("despite {}", one.fails));
    let promised: Vec<String> = promised.chain(every).chain(despite).collect();
    let mut rows: Vec<[String; 3]> = path.reasons.iter().map(row).collect();
    let given = |service: &str| {
        let own = plan.services.iter().find(|entry| entry.name == service);
        own.map_or(String::new(), |entry| {
            let server = entry.server;
            format!("{} every {} ({})", time(server.budget), time(server.period), share(server.bandwidth()))
        })
    };
    let said = |point: &PathPoint, part: &PathPart| {
        let late = f64::from(part.beyond_ppb) / 1e7;
        format!("{}: {}, and {late:.3} % may be late here", point.percentile, time(part.within))
    };
    for (nth, stage) in path.through.iter().enumerate() {
        if let Some(link) = stage.link() {
            rows.push([format!("to {}", stage.on()), time(link), "over the link, at most".into()]);
        }
        let has = match stage {
            PathStage::Service(stage) => given(&stage.service),
            PathStage::Tokens(stage) => match stage.others {
                Some(others) => format!("{}, beside {others} of others", stage.bucket),
                None => stage.bucket.to_string(),
            },
            PathStage::Broker(stage) => {
                let points = stage.latency.iter().map(|point| format!("{} {}", point.percentile, time(point.within)));
                format!("{}, at most {}", points.collect::<Vec<_>>().join(", "), time(stage.worst))
            }
            PathStage::Link(stage) => {
                let points = stage.latency.iter().map(|point| format!("{} {}, ", point.percentile, time(point.within)));
                format!("{}at most {}, as measured", points.collect::<String>(), time(stage.worst))
            }
            PathStage::Interface(stage) => {
                format!("{} packets a message, tokens for {}", stage.packets, stage.bucket)
            }
        };
        let each = path.points.iter().filter_map(|point| Some(said(point, point.parts.get(nth)?)));
        let every =
            path.every.iter().filter_map(|every| Some(format!("{} at most by itself", time(*every.parts.get(nth)?))));
        let at = stage.branch().map_or(String::new(), |branch| format!("branch {branch}, "));
        rows.push([format!("{at}at {stage}"), has, each.chain(every).collect::<Vec<_>>().join("; ")]);
    }
    // What may be late before it meets this path counts as late.
    for (nth, met) in path.points.first().iter().flat_map(|point| &point.meets).enumerate() {
        let each = path.points.iter().filter_map(|point| Some(said(point, &point.meets.get(nth)?.part)));
        let at = format!("{} at {}, before", met.path, met.service);
        rows.push([at, given(&met.service), each.collect::<Vec<_>>().join("; ")]);
    }
    format!("path {}: {}\n{}", path.name, promised.join(", "), table(&rows))
}
