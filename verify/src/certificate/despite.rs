//! What a path bears (docs/decisions/0068): by how much one failure makes its messages later, and that what is promised is kept
//! with it.

use super::broken::Broken;
use super::route::Stage;
use giusto_model::{CoordinationPlan, DespitePlan, Duration, Fails, PathPlan, PathSource, PathStage, Plan, Steps};

/// More messages than are told are touched with a chance of exp(−this) at most: one failure in 10,000.
const CHANCE: f64 = 9.21;

/// What each failure costs, and that there is room for it; how many of these claims rest on what the plan does not have.
pub(super) fn check(plan: &Plan, path: &PathPlan, stages: &[Stage], shares: bool) -> Result<usize, Broken> {
    let mut believed = 0;
    for (nth, one) in path.despite.iter().enumerate() {
        let named = |broken: Broken| Broken { what: format!("despite {}: {}", one.fails, broken.what), ..broken };
        if path.despite[..nth].iter().any(|other| other.fails == one.fails) {
            return Err(named(Broken::new("each failure once", 1, 2)));
        }
        let known = failure(plan, path, stages, one).map_err(named)?;
        if matches!(one.fails, Fails::Leader | Fails::Topic(_)) && shares {
            return Err(named(Broken::new("a path by itself", "no services of others", "some")));
        }
        drops(path, one).map_err(named)?;
        touched(path, one).map_err(named)?;
        believed += usize::from(!known);
    }
    if path.despite.is_empty() {
        return Ok(0);
    }
    let later = path.later();
    for point in &path.points {
        room(&point.percentile.to_string(), point.at, later, point.within)?;
    }
    path.every.iter().try_for_each(|every| room("every message", every.at, later, every.within))?;
    Ok(believed)
}

fn room(what: &str, at: Duration, later: Duration, within: Duration) -> Result<(), Broken> {
    match at.checked_add(later).is_some_and(|sum| sum <= within) {
        true => Ok(()),
        false => Err(Broken::new(format!("{what} in time after a failure"), within, format!("{at} and {later}"))),
    }
}

/// Whether what it rests on is in the plan; then it is compared.
fn failure(plan: &Plan, path: &PathPlan, stages: &[Stage], one: &DespitePlan) -> Result<bool, Broken> {
    let gap = u128::from(one.gap.ns());
    if gap == 0 {
        return Err(Broken::new("some time for which it stands still", "more", 0));
    }
    let broker = (0..path.through.len()).find(|&nth| path.is_broker(nth) && fails_with(path, nth, &one.fails));
    if let Some(nth) = broker {
        return Err(Broken::new(
            "no failure of a topic whose broker has a share of its own",
            "none",
            &path.through[nth],
        ));
    }
    let (needed, known) = match &one.fails {
        Fails::Leader => {
            let known = plan.coordination.as_ref().map(|ensemble| without_leader(ensemble, one.gap)).transpose()?;
            let Some(needed) = anywhere(path, stages, gap) else { return Ok(false) };
            (needed, known.is_some())
        }
        Fails::Service(name) => {
            let nth = path.through.iter().position(|stage| stage.service() == Some(name));
            match nth.map(|nth| &stages[nth]) {
                Some(Stage::Service(server)) if server.budget > 0 => {
                    let (period, budget) = (u128::from(server.period), u128::from(server.budget));
                    // Periods that begin and end without it, and those in which it does its longest message once more.
                    let (mut periods, mut done) = (gap.div_ceil(period), 0);
                    while done < u128::from(server.service.longest().ns()) {
                        (periods, done) = (periods + 1, done + budget);
                    }
                    (periods * period, true)
                }
                Some(Stage::Elsewhere) => return Ok(false),
                _ => return Err(Broken::new("a service of the path", name, "none")),
            }
        }
        Fails::Topic(name) => {
            let bucket = path.through.iter().find_map(|stage| match stage {
                PathStage::Tokens(stage) if stage.tokens_of == *name => Some(stage.bucket),
                _ => None,
            });
            let bucket = bucket.ok_or_else(|| Broken::new("a topic of the path", name, "none"))?;
            // One may be on its way with a message.
            let fills = (bucket.depth.as_f64() + 1.0) / bucket.rate.per_ns();
            (gap + fills.floor() as u128, true)
        }
    };
    match u128::from(one.later.ns()) < needed {
        true => Err(Broken::new("time by which messages are later", format!("{needed} ns"), one.later)),
        false => Ok(known),
    }
}

/// As long as no server of the ensemble takes a write.
fn without_leader(ensemble: &CoordinationPlan, gap: Duration) -> Result<(), Broken> {
    let needed = match ensemble {
        CoordinationPlan::Etcd(own) => own.first_write.ns(),
        CoordinationPlan::ZooKeeper(own) => {
            let lost = own.silence.and_then(|silence| silence.asked.machine_loss).map(|_| own.machine_loss.ns());
            // After the bound, whichever it is, there is a session and its write.
            lost.map_or(own.first_write.ns(), |lost| lost + own.first_write.ns().saturating_sub(own.bound.ns()))
        }
    };
    match gap.ns() < needed {
        true => Err(Broken::new("time until another leader has written", format!("{needed} ns"), gap)),
        false => Ok(()),
    }
}

/// All stages stop at once: whatever is behind goes on with the latest; where others bring messages theirs are before. `None`:
/// a server is not known.
fn anywhere(path: &PathPlan, stages: &[Stage], gap: u128) -> Option<u128> {
    let steps = Steps::of(&path.through);
    let mut late = vec![0u128; stages.len()];
    let mut most = gap;
    for (nth, stage) in stages.iter().enumerate() {
        let comes = steps.before(nth).iter().map(|before| late[*before]).fold(0, u128::max);
        let brought = matches!(&path.through[nth], PathStage::Tokens(tokens) if tokens.others.is_some());
        let stopped = if brought { comes + gap } else { comes.max(gap) };
        late[nth] = match stage {
            Stage::Service(server) => {
                let period = u128::from(server.period);
                (stopped / period + u128::from(stopped % period > 0)) * period
            }
            Stage::Elsewhere if path.through[nth].service().is_some() => return None,
            _ => stopped,
        };
        most = most.max(late[nth]);
    }
    Some(most)
}

/// Packets that come at once are dropped, where messages come at random; where they come in periods the bucket has room for all
/// that are as old as promised.
fn drops(path: &PathPlan, one: &DespitePlan) -> Result<(), Broken> {
    let from = match &one.fails {
        Fails::Leader => Some(0),
        Fails::Service(name) => path.through.iter().position(|stage| stage.service() == Some(name)),
        Fails::Topic(name) => {
            path.through.iter().position(|stage| matches!(stage, PathStage::Tokens(own) if own.tokens_of == *name))
        }
    };
    let behind = path.through.iter().skip(from.unwrap_or(0)).find(|one| matches!(one, PathStage::Interface(_)));
    match (behind, path.source) {
        (Some(stage), PathSource::Poisson(_)) => Err(Broken::new("no interface behind what fails", "none", stage)),
        _ => Ok(()),
    }
}

/// With m messages on average, n or more come with a chance of exp(n − m − n ln(n/m)) at most (Chernoff).
fn touched(path: &PathPlan, one: &DespitePlan) -> Result<(), Broken> {
    let at = path.points.iter().map(|point| point.at).chain(path.every.iter().map(|every| every.at)).max();
    let within = at.unwrap_or_default().ns() as f64 + one.gap.ns() as f64;
    let enough = match path.source {
        PathSource::Poisson(rate) => {
            let (mean, more) = (rate.per_ns() * within, one.touched as f64 + 1.0);
            more > mean && more * (more / mean).ln() - more + mean >= CHANCE
        }
        PathSource::Periodic { period, jitter, burst } => {
            let bursts = ((within + jitter.ns() as f64) / period.ns().max(1) as f64).floor() + 1.0;
            one.touched as f64 >= bursts * f64::from(burst)
        }
    };
    match enough {
        true => Ok(()),
        false => Err(Broken::new("messages that it touches", "more", one.touched)),
    }
}

/// Whether the broker at `nth` is lost with what fails: itself, or the topic whose bucket is before it.
fn fails_with(path: &PathPlan, nth: usize, fails: &Fails) -> bool {
    let tokens = path.through[..nth].iter().rev().find_map(|stage| match stage {
        PathStage::Tokens(stage) => Some(&stage.tokens_of),
        _ => None,
    });
    match fails {
        Fails::Leader => false,
        Fails::Service(name) => path.through[nth].service() == Some(name),
        Fails::Topic(name) => tokens == Some(name),
    }
}
