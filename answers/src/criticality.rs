//! `giusto analyze criticality`: whether high and low criticality go together on a core, or find cores.

use crate::Error;
use giusto_analysis::admission::Fit;
use giusto_analysis::criticality::{
    judge_within, nearest, place, rooms, Budget, Interval, Level, Nearest, Placement, Refused, Room, Slack, Test,
    Unfit, Utilizations, Verdict, Vm, Why,
};
use giusto_model::{Bandwidth, Duration};
use serde::Serialize;

/// Which virtual CPUs, and where.
#[derive(Clone, Debug)]
pub struct Question {
    /// In the order in which they are placed.
    pub vms: Vec<Vm>,
    /// Most of a core that all on it may take together.
    pub capacity: Bandwidth,
    /// `None`: all on one.
    pub cores: Option<u32>,
}

/// What was found; `formats/criticality.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// They go together, or each found a core.
    pub schedulable: bool,
    /// As asked for.
    pub capacity: Bandwidth,
    /// Of all on one core; with several those of each core are in the placement.
    pub test: Option<Test>,
    /// The factor of virtual deadlines.
    pub x: Option<Bandwidth>,
    /// U1(1), U2(1), U2(2)
    #[serde(flatten)]
    pub utilizations: Option<Utilizations>,
    /// Of the factors that would do.
    pub interval: Option<Interval>,
    /// To spare, in each mode.
    pub slack: Option<Slack>,
    /// By how much each sum alone may grow.
    pub robustness: Option<Utilizations>,
    /// They do not fit: why.
    pub why: Option<Why>,
    /// EDF on usual budgets passes.
    pub less_strict: Option<bool>,
    /// In their order.
    pub vms: Vec<Told>,
    /// The one smaller budget with which they would fit.
    pub nearest: Option<Nearest>,
    /// With several cores: first-fit, and what best-fit and worst-fit would do.
    pub placement: Option<Vec<Placed>>,
    /// In words, where they do not go together.
    #[serde(skip)]
    because: Option<String>,
}

impl Answer {
    /// Nothing is known but that these do not fit, or not yet.
    fn open(capacity: Bandwidth, vms: Vec<Told>) -> Answer {
        Answer {
            schedulable: false,
            capacity,
            test: None,
            x: None,
            utilizations: None,
            interval: None,
            slack: None,
            robustness: None,
            why: None,
            less_strict: None,
            vms,
            nearest: None,
            placement: None,
            because: None,
        }
    }
}

/// What holds for one VM.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// High or low.
    pub level: Level,
    /// Its usual budget.
    pub optimistic_ns: Duration,
    /// Of a high one.
    pub worst_ns: Option<Duration>,
    /// Its period.
    pub period_ns: Duration,
    /// Where it is.
    pub core: Option<usize>,
    kept: Kept,
    /// By which it is ranked in LO mode.
    pub virtual_deadline_ns: Option<Duration>,
    /// How much more it may take.
    #[serde(flatten)]
    pub room: Option<Room>,
}

/// Which of its budgets it is sure of.
#[derive(Clone, Copy, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// Which core is taken.
    pub fit: Fit,
    /// Each with what is on it; `None`: not all found one.
    pub cores: Option<Vec<Core>>,
    /// Cores that no VM is on.
    pub idle: Option<usize>,
    /// The first VM that found no core.
    pub unplaced: Option<usize>,
}

/// A core and what is on it.
#[derive(Clone, Debug, Serialize)]
pub struct Core {
    /// By their places.
    pub vms: Vec<usize>,
    test: Test,
    /// The factor of virtual deadlines.
    pub x: Bandwidth,
    slack: Slack,
}

impl Question {
    /// Whether they go together.
    ///
    /// # Errors
    /// VMs that make no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        match self.cores {
            None => one_core(&self.vms, self.capacity),
            Some(cores) => several(&self.vms, self.capacity, cores as usize),
        }
    }

    /// Why they do not fit, and what would do; of an answer that says so.
    pub fn refused(&self, answer: &Answer) -> Error {
        let text = match &answer.placement {
            None => self.unfit(answer),
            Some(placement) => self.unplaced(placement),
        };
        Error::DoesNotFit { text, witness: serde_json::to_value(answer).ok() }
    }

    fn unfit(&self, answer: &Answer) -> String {
        let why = answer.because.as_deref().unwrap_or_default();
        let fit = match answer.nearest {
            None => "no single budget that is smaller makes them fit".into(),
            Some(Nearest { vm, budget, at_most }) => {
                let (what, now) = match budget {
                    Budget::Optimistic => ("budget", self.vms[vm].optimistic),
                    Budget::Worst => ("worst budget", self.vms[vm].worst),
                };
                format!("they fit with a {what} of at most {at_most} instead of {now} for VM {}", vm + 1)
            }
        };
        let less = match answer.less_strict {
            Some(true) => {
                "; the less strict test, EDF on usual budgets, would pass, and promises nothing once a high one takes more"
            }
            _ => "",
        };
        format!("refused: {why}; {fit}{less}")
    }

    fn unplaced(&self, placement: &[Placed]) -> String {
        let (vm, cores) = (placement[0].unplaced.unwrap_or(0), self.cores.unwrap_or(1));
        let others: Vec<&str> =
            placement[1..].iter().filter(|way| way.unplaced.is_none()).map(|way| name(way.fit)).collect();
        let others = match others.is_empty() {
            true => "neither best-fit nor worst-fit finds one either".into(),
            false => format!("{} finds a place for all", others.join(" and ")),
        };
        format!(
            "refused: first-fit has no core for VM {} of the {cores} there are; {others}; give it less, or more cores",
            vm + 1
        )
    }
}

fn unfit(refused: Refused) -> Result<Box<Unfit>, Error> {
    match refused {
        Refused::Unfit(unfit) => Ok(unfit),
        Refused::Vm { .. } => Err(Error::input(refused)),
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

fn one_core(vms: &[Vm], capacity: Bandwidth) -> Result<Answer, Error> {
    let rooms = rooms(vms, capacity).map_err(Error::input)?;
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
    let none = Answer { less_strict: Some(true), nearest, ..Answer::open(capacity, all) };
    Ok(match found {
        Ok(verdict) => Answer {
            schedulable: true,
            test: Some(verdict.test),
            x: Some(verdict.x),
            utilizations: Some(verdict.utilizations),
            interval: verdict.interval,
            slack: Some(verdict.slack),
            robustness: Some(verdict.robustness),
            ..none
        },
        Err(unfit) => {
            let because = Some(unfit.to_string());
            let Unfit { utilizations, why, less_strict, .. } = *unfit;
            Answer { utilizations: Some(utilizations), why: Some(why), less_strict: Some(less_strict), because, ..none }
        }
    })
}

/// First-fit, and what best-fit and worst-fit would do.
fn several(vms: &[Vm], capacity: Bandwidth, cores: usize) -> Result<Answer, Error> {
    let mut all: Vec<Told> = vms.iter().map(|vm| told(vm, None, None, None)).collect();
    let mut placement = Vec::new();
    for fit in [Fit::First, Fit::Best, Fit::Worst] {
        let found = place(vms, capacity, cores, fit).map_err(Error::input)?;
        let unplaced = found.as_ref().err().map(|none| none.vm);
        let (mut each, idle) = (Vec::new(), found.as_ref().ok().map(Placement::idle));
        for (number, here) in found.iter().flat_map(|found| &found.cores).enumerate() {
            let own: Vec<Vm> = here.iter().map(|&vm| vms[vm]).collect();
            let verdict = judge_within(&own, capacity).map_err(Error::input)?;
            if fit == Fit::First {
                let room = rooms(&own, capacity).map_err(Error::input)?;
                for (place, &vm) in here.iter().enumerate() {
                    all[vm] = told(&vms[vm], Some(number), Some((&verdict, place)), Some(room[place]));
                }
            }
            each.push(Core { vms: here.clone(), test: verdict.test, x: verdict.x, slack: verdict.slack });
        }
        placement.push(Placed { fit, cores: found.is_ok().then_some(each), idle, unplaced });
    }
    let schedulable = placement[0].unplaced.is_none();
    Ok(Answer { schedulable, placement: Some(placement), ..Answer::open(capacity, all) })
}

/// As people call it.
pub fn name(fit: Fit) -> &'static str {
    match fit {
        Fit::First => "first-fit",
        Fit::Best => "best-fit",
        Fit::Worst => "worst-fit",
    }
}
