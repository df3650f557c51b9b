//! `giusto analyze criticality`.

use crate::args::CriticalityArgs;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_analysis::admission::Fit;
use giusto_analysis::criticality::{
    judge_within, nearest, place, rooms, Budget, Interval, Level, Nearest, Placement, Refused, Room, Slack, Test,
    Unfit, Utilizations, Verdict, Vm, Why,
};
use giusto_model::{Bandwidth, Duration};
use giusto_planner::share as percent;
use serde::Serialize;
use std::process::ExitCode;

/// What `--json` prints (`formats/criticality.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    schedulable: bool,
    capacity: Bandwidth,
    /// Of all on one core; with --cores those of each core are in the placement.
    test: Option<Test>,
    x: Option<Bandwidth>,
    #[serde(flatten)]
    utilizations: Option<&'a Utilizations>,
    interval: Option<&'a Interval>,
    slack: Option<&'a Slack>,
    robustness: Option<&'a Utilizations>,
    why: Option<&'a Why>,
    /// EDF on usual budgets passes.
    less_strict: Option<bool>,
    vms: Vec<Told>,
    nearest: Option<Nearest>,
    placement: Option<Vec<Placed>>,
}

/// What holds for one VM.
#[derive(Serialize)]
struct Told {
    level: Level,
    optimistic_ns: Duration,
    worst_ns: Option<Duration>,
    period_ns: Duration,
    core: Option<usize>,
    kept: Kept,
    virtual_deadline_ns: Option<Duration>,
    #[serde(flatten)]
    room: Option<Room>,
}

/// Which of its budgets it is sure of.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kept {
    /// The worst one, in any case.
    Always,
    /// Its budget, in LO mode.
    WhileUsual,
    /// Neither.
    Not,
}

/// One way to place them.
#[derive(Serialize)]
struct Placed {
    fit: Fit,
    cores: Option<Vec<Core>>,
    /// Cores that no VM is on.
    idle: Option<usize>,
    /// The first VM that found no core.
    unplaced: Option<usize>,
}

#[derive(Serialize)]
struct Core {
    vms: Vec<usize>,
    test: Test,
    x: Bandwidth,
    slack: Slack,
}

/// `giusto analyze criticality`: 0 they go together, or find cores, 1 they do not.
pub(crate) fn criticality(args: &CriticalityArgs) -> Result<ExitCode, Failure> {
    match args.cores {
        None => one_core(args),
        Some(cores) => several(args, cores as usize),
    }
}

fn unfit(refused: Refused) -> Result<Box<Unfit>, Failure> {
    match refused {
        Refused::Unfit(unfit) => Ok(unfit),
        Refused::Vm { .. } => Err(Failure::input(refused)),
    }
}

/// What holds for a VM that is `place`th on a core with that verdict.
fn told(vm: &Vm, core: Option<usize>, verdict: Option<(&Verdict, usize)>, room: Option<Room>) -> Told {
    let high = vm.level == Level::High;
    Told {
        level: vm.level,
        optimistic_ns: vm.optimistic,
        worst_ns: high.then_some(vm.worst),
        period_ns: vm.period,
        core,
        kept: match (verdict, high) {
            (None, _) => Kept::Not,
            (Some(_), true) => Kept::Always,
            (Some(_), false) => Kept::WhileUsual,
        },
        virtual_deadline_ns: verdict.map(|(verdict, place)| verdict.virtual_deadline(place)),
        room,
    }
}

fn one_core(args: &CriticalityArgs) -> Result<ExitCode, Failure> {
    let (vms, capacity) = (&args.vms, args.capacity);
    let rooms = rooms(vms, capacity).map_err(Failure::input)?;
    let found = match judge_within(vms, capacity) {
        Ok(verdict) => Ok(verdict),
        Err(refused) => Err(unfit(refused)?),
    };
    let verdict = found.as_ref().ok();
    let each = vms.iter().zip(&rooms).enumerate();
    let all: Vec<Told> = each
        .map(|(place, (vm, room))| told(vm, verdict.map(|_| 0), verdict.map(|it| (it, place)), Some(*room)))
        .collect();
    let nearest = nearest(vms, &rooms);
    if args.json {
        let unfit = found.as_ref().err();
        json(&Answer {
            schedulable: verdict.is_some(),
            capacity,
            test: verdict.map(|verdict| verdict.test),
            x: verdict.map(|verdict| verdict.x),
            utilizations: verdict.map(|verdict| &verdict.utilizations).or(unfit.map(|unfit| &unfit.utilizations)),
            interval: verdict.and_then(|verdict| verdict.interval.as_ref()),
            slack: verdict.map(|verdict| &verdict.slack),
            robustness: verdict.map(|verdict| &verdict.robustness),
            why: unfit.map(|unfit| &unfit.why),
            less_strict: Some(unfit.is_none_or(|unfit| unfit.less_strict)),
            vms: all,
            nearest,
            placement: None,
        })?;
        return Ok(ExitCode::from(u8::from(found.is_err())));
    }
    let verdict = found.map_err(|unfit| Failure::does_not_fit(refused(vms, &unfit, nearest)))?;
    print(&rows(&all))?;
    say!("{}", core(&verdict, capacity));
    let grown = &verdict.robustness;
    say!(
        "with this x each alone may grow: U1(1) by {}, U2(1) by {}, U2(2) by {}",
        grown.u1_1.percent(),
        grown.u2_1.percent(),
        grown.u2_2.percent()
    );
    Ok(ExitCode::SUCCESS)
}

/// Why not, and what would do.
fn refused(vms: &[Vm], unfit: &Unfit, nearest: Option<Nearest>) -> String {
    let fit = match nearest {
        None => "no single budget that is smaller makes them fit".into(),
        Some(Nearest { vm, budget, at_most }) => {
            let (what, now) = match budget {
                Budget::Optimistic => ("budget", vms[vm].optimistic),
                Budget::Worst => ("worst budget", vms[vm].worst),
            };
            format!("they fit with a {what} of at most {at_most} instead of {now} for VM {}", vm + 1)
        }
    };
    let less = match unfit.less_strict {
        true => {
            "; the less strict test, EDF on usual budgets, would pass, and promises nothing once a high one takes more"
        }
        false => "",
    };
    format!("refused: {unfit}; {fit}{less}")
}

/// What was found of one core.
fn core(verdict: &Verdict, capacity: Bandwidth) -> String {
    let Utilizations { u1_1, u2_1, u2_2 } = &verdict.utilizations;
    let sums = format!("U1(1) = {u1_1}, U2(1) = {u2_1}, U2(2) = {u2_2} of {}", percent(capacity));
    let how = match &verdict.interval {
        None => "plain EDF has room for all at their worst, x = 1".into(),
        Some(Interval { from, to }) => {
            format!("EDF with virtual deadlines, x = {} (from {from} to {to} would do)", verdict.x)
        }
    };
    let Slack { usual, worst } = &verdict.slack;
    format!("{sums}: {how}; to spare {} in LO mode, {} in HI mode", usual.percent(), worst.percent())
}

fn rows(all: &[Told]) -> String {
    let time = |time: Option<Duration>| time.map_or("-".into(), |time| format!("{time:.3}"));
    let head =
        ["VM", "criticality", "core", "budget", "worst", "period", "virtual deadline", "most budget", "most worst"];
    let row = |(place, one): (usize, &Told)| {
        let level = if one.level == Level::High { "high" } else { "low" };
        let core = one.core.map_or("none".into(), |core| core.to_string());
        let head = [(place + 1).to_string(), level.into(), core];
        let times = [Some(one.optimistic_ns), one.worst_ns, Some(one.period_ns), one.virtual_deadline_ns];
        let room = one.room.map_or([None, None], |room| [room.most_optimistic, room.most_worst]);
        head.into_iter().chain(times.into_iter().chain(room).map(time)).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(String::from).to_vec()).chain(all.iter().enumerate().map(row)).collect();
    table(&rows, 2)
}

/// First-fit, and what best-fit and worst-fit would do.
fn several(args: &CriticalityArgs, cores: usize) -> Result<ExitCode, Failure> {
    let (vms, capacity) = (&args.vms, args.capacity);
    let mut ways = Vec::new();
    for fit in [Fit::First, Fit::Best, Fit::Worst] {
        let found = place(vms, capacity, cores, fit).map_err(Failure::input)?;
        ways.push((fit, found));
    }
    let mut all: Vec<Told> = vms.iter().map(|vm| told(vm, None, None, None)).collect();
    let mut placement = Vec::new();
    for (fit, found) in &ways {
        let unplaced = found.as_ref().err().map(|none| none.vm);
        let (mut each, idle) = (Vec::new(), found.as_ref().ok().map(Placement::idle));
        for (number, here) in found.iter().flat_map(|found| &found.cores).enumerate() {
            let own: Vec<Vm> = here.iter().map(|&vm| vms[vm]).collect();
            let verdict = judge_within(&own, capacity).map_err(Failure::input)?;
            if *fit == Fit::First {
                let room = rooms(&own, capacity).map_err(Failure::input)?;
                for (place, &vm) in here.iter().enumerate() {
                    all[vm] = told(&vms[vm], Some(number), Some((&verdict, place)), Some(room[place]));
                }
            }
            each.push(Core { vms: here.clone(), test: verdict.test, x: verdict.x, slack: verdict.slack });
        }
        placement.push(Placed { fit: *fit, cores: found.is_ok().then_some(each), idle, unplaced });
    }
    let unplaced = placement[0].unplaced;
    if args.json {
        json(&Answer {
            schedulable: unplaced.is_none(),
            capacity,
            test: None,
            x: None,
            utilizations: None,
            interval: None,
            slack: None,
            robustness: None,
            why: None,
            less_strict: None,
            vms: all,
            nearest: None,
            placement: Some(placement),
        })?;
        return Ok(ExitCode::from(u8::from(unplaced.is_some())));
    }
    if let Some(vm) = unplaced {
        let others: Vec<&str> =
            ways[1..].iter().filter(|(_, found)| found.is_ok()).map(|(fit, _)| name(*fit)).collect();
        let others = match others.is_empty() {
            true => "neither best-fit nor worst-fit finds one either".into(),
            false => format!("{} finds a place for all", others.join(" and ")),
        };
        return Err(Failure::does_not_fit(format!(
            "refused: first-fit has no core for VM {} of the {cores} there are; {others}; give it less, or more cores",
            vm + 1
        )));
    }
    print(&rows(&all))?;
    for way in &placement {
        let lines = match (&way.cores, way.idle) {
            (Some(each), Some(idle)) => {
                let core = |core: &Core| {
                    let vms: Vec<String> = core.vms.iter().map(|vm| (vm + 1).to_string()).collect();
                    if vms.is_empty() {
                        "idle".into()
                    } else {
                        format!("{} (x = {})", vms.join(" "), core.x)
                    }
                };
                format!("{idle} of {cores} cores idle: {}", each.iter().map(core).collect::<Vec<_>>().join(" | "))
            }
            _ => format!("no core for VM {}", way.unplaced.map_or(0, |vm| vm + 1)),
        };
        say!("{:9}  {lines}", name(way.fit));
    }
    Ok(ExitCode::SUCCESS)
}

fn name(fit: Fit) -> &'static str {
    match fit {
        Fit::First => "first-fit",
        Fit::Best => "best-fit",
        Fit::Worst => "worst-fit",
    }
}
