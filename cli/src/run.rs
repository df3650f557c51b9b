//! `giusto run` and `giusto restore`.

use crate::args::{Log, Only, RestoreArgs, RunArgs};
use crate::begin::{asked, introduce, lacks, tell_restored, Around};
use crate::failure::{create, Failure};
use crate::plan::{self, Read};
use crate::table::say;
use crate::trial;
use crate::{contract, table};
use giusto_daemon::{
    Again, Deployment, Error, Factors, Journal, Notify, Observer, Operator, Planner, Refused, Settings, Signals,
    Watchdog, WebSettings,
};
use giusto_model::{HostPlan, Plan, Site};
use giusto_planner::{Facts, Refusal, Replanner};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `giusto run`
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    giusto_daemon::log(args.log == Log::Json);
    enforce_or_try(args).map_err(Failure::logged)
}

fn enforce_or_try(args: &RunArgs) -> Result<ExitCode, Failure> {
    // Before there are threads.
    let notify =
        Notify::from_environment().map_err(|error| Failure::input(format!("NOTIFY_SOCKET is no address: {error}")))?;
    let web = args.web.clone().map(|address| WebSettings::new(address, args.web_token.as_deref()));
    let web = web.transpose().map_err(Failure::input)?;
    let given = given(args)?;
    if args.dry_run {
        return dry_run(args, &part(planned(args, given, &giusto_daemon::facts())?.1, args.only)?);
    }
    let watchdog = Watchdog::start()?;
    // First of all: what an earlier giusto left is undone, as looking at the machine may hide it. Without the privilege
    // there is nothing of it.
    let journal = Journal::open();
    if let Err(busy @ Error::Busy { .. }) = journal {
        return Err(busy.into()); // before its plan is written over
    }
    let machine = giusto_compute::probe();
    let own = args.out.join("plan.json");
    let plan_file = match &given {
        Given::Site(read) if args.trial => {
            let around = Around { machine: &machine, signals: Signals::mind(false), watchdog: &watchdog };
            return trial::trial(args, read, journal, &around);
        }
        Given::Site(_) => Some(own),
        Given::Plan(_) => None,
    };
    let (site, plan) = planned(args, given, &giusto_daemon::facts_of(&machine))?;
    if let Some(file) = &plan_file {
        create(file)?;
        giusto_planner::write(&plan, file)?;
    }
    if !args.site.json && args.only.is_none() {
        introduce(&plan, plan_file.as_deref().unwrap_or(&args.site.site))?;
    }
    let plan = part(plan, args.only)?;
    let missing = giusto_daemon::missing(&plan, &machine);
    if !missing.is_empty() {
        return Err(lacks(args, Some(&plan), &missing)?);
    }
    let signals = Signals::mind(true);
    let (mut journal, earlier) = journal?;
    tell_restored(&earlier)?;
    let around = Around { machine: &machine, signals, watchdog: &watchdog };
    enforce(args, (site, plan_file), &plan, &mut journal, (notify, web), &around)
}

/// What there is to enforce.
enum Given {
    Site(Box<Read>),
    /// This machine's part of a plan that was reviewed.
    Plan(Box<Plan>),
}

fn given(args: &RunArgs) -> Result<Given, Failure> {
    let path = &args.site.site;
    if !contract::is_plan(path) {
        return plan::read(path).map(|read| Given::Site(Box::new(read)));
    }
    let planning = [
        ("--trial", args.trial),
        ("--backend", args.insist.backend.is_some()),
        ("--latency", args.latency.file.is_some()),
    ];
    match planning.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::input(format!(
            "{option} needs a site file, and {} is a plan, which is enforced as it is",
            path.display()
        ))),
        None => contract::part(path, args.this.host.as_deref()).map(|plan| Given::Plan(Box::new(plan))),
    }
}

/// The plan for this machine with its predictions, and the site that it can be planned anew from.
fn planned(args: &RunArgs, given: Given, facts: &Facts) -> Result<(Option<Site>, Plan), Failure> {
    match given {
        Given::Site(read) => {
            let Read { site, from } = *read;
            let site = plan::measured_here(&site, &profiles(args), &asked(args))?;
            let mut plan = plan::here(&site, &from, &asked(args))?;
            plan::predict_all(&mut plan, 1)?;
            Ok((Some(site), plan))
        }
        Given::Plan(plan) => match contract::stale(&plan, &args.site.site, facts) {
            Some(refused) => Err(refused),
            None => Ok((adapted_from(&plan, &profiles(args), facts), *plan)),
        },
    }
}

/// The site that a reviewed plan was made from, where its services may be planned anew while it runs and the file is still as
/// it was. Says where it is not.
fn adapted_from(plan: &Plan, profiles: &Path, facts: &Facts) -> Option<Site> {
    let names: Vec<&str> =
        plan.services.iter().filter(|one| one.adapt.is_some()).map(|one| one.name.as_str()).collect();
    let basis = plan.basis.as_ref().filter(|_| !names.is_empty())?;
    let read = plan::read(Path::new(&basis.site.file));
    let site = match read {
        Ok(Read { site, from }) if from == basis.site => plan::measured(&site, profiles, facts),
        Ok(_) => Err(Failure::input("it has changed since")),
        Err(failure) => Err(failure),
    };
    site.inspect_err(|failure| {
        let (names, file) = (names.join(", "), &basis.site.file);
        tracing::warn!("{names}: not planned anew while it runs, as site {file} cannot be used: {failure}");
    })
    .ok()
}

/// Where a trial and `giusto measure execution` leave profiles.
fn profiles(args: &RunArgs) -> PathBuf {
    args.out.join("profiles")
}

fn enforce(
    args: &RunArgs,
    (site, plan_file): (Option<Site>, Option<PathBuf>),
    plan: &Plan,
    journal: &mut Journal,
    (notify, web): (Notify, Option<WebSettings>),
    around: &Around,
) -> Result<ExitCode, Failure> {
    let Around { machine, signals, watchdog } = *around;
    let host = plan.only_host().ok_or(Error::ManyHosts(plan.hosts.len()))?.name.clone();
    let latency = args.latency.file.as_deref().map(giusto_planner::read_latency).transpose()?;
    let facts =
        Facts { insist: args.insist.backend, host: Some(host.clone()), latency, ..giusto_daemon::facts_of(machine) };
    let start = AtStart { facts: facts.clone(), host, only: args.only };
    let again = Some((site, start.clone().again()));
    let settings =
        Settings { plan_file, facts, metrics: args.metrics, web, otlp: args.otlp.clone(), notify, signals, again };
    let file = std::path::absolute(&args.site.site).map_err(Failure::input)?;
    let plan = &giusto_daemon::begin_with(plan.clone(), journal)?;
    let mut operator = Operator::open(journal, plan, file, start.planner(profiles(args)), settings)?;
    let mut observer = Observer::default();
    let mut deployment = Deployment::set(plan, machine, journal, &args.out.join("logs"), watchdog.beats())?;
    let mut turn =
        |deployment: &mut Deployment, warnings: Vec<String>| operator.turn(&mut observer.stage(deployment, warnings));
    let stop = || signals.stopped();
    let done = giusto_daemon::enforce(&mut deployment, watchdog, &stop, &mut turn);
    operator.stopping();
    deployment.finish()?;
    done?;
    giusto_daemon::forget_mode(journal);
    tracing::info!("stopped; the host is as it was");
    Ok(ExitCode::SUCCESS)
}

/// This machine as it was at the start, as the host that it was then: looking at it again while threads may die under
/// SCHED_DEADLINE would make the kernel miscount.
#[derive(Clone)]
struct AtStart {
    facts: Facts,
    host: String,
    only: Option<Only>,
}

impl AtStart {
    /// Plans site files, and reads plans.
    fn planner(self, profiles: PathBuf) -> Planner {
        let profiles = std::path::absolute(&profiles).unwrap_or(profiles);
        Box::new(move |file| {
            if contract::is_plan(file) {
                return self.reviewed(file, &profiles).map_err(Failure::into_refused);
            }
            let Read { site, from } = plan::read(file).map_err(Failure::into_refused)?;
            let site = plan::measured(&site, &profiles, &self.facts).map_err(Failure::into_refused)?;
            let planned = giusto_planner::plan_on(&site, &self.facts, &self.host);
            let plan = planned.map_err(|refusal| Failure::of_site(refusal, file).into_refused())?;
            Ok((Some(site), self.finished(plan::based(plan, &from, &self.facts))?))
        })
    }

    fn reviewed(&self, file: &Path, profiles: &Path) -> Result<(Option<Site>, Plan), Failure> {
        let plan = contract::part(file, Some(&self.host))?;
        match contract::stale(&plan, file, &self.facts) {
            Some(refused) => Err(refused),
            None => Ok((adapted_from(&plan, profiles, &self.facts), part(plan, self.only)?)),
        }
    }

    /// Plans a site whose services ask for more than it says.
    fn again(self) -> Again {
        let refused = |refusal: Refusal| Failure::from(refusal).into_refused();
        let replanner = Replanner::new(self.facts.clone(), self.host.clone());
        let only = self.only;
        let attempt = move |site: &Site, factors: &Factors| {
            let planned = giusto_planner::adapted(site, factors, factors, &|site| replanner.plan(site));
            part(planned.map_err(refused)?.0, only).map_err(Failure::into_refused)
        };
        let adapt = move |site: &Site, wanted: &Factors, floor: &Factors| {
            let plan = |site: &Site| giusto_planner::plan_on(site, &self.facts, &self.host);
            let (plan, used) = giusto_planner::adapted(site, wanted, floor, &plan).map_err(refused)?;
            Ok((self.finished(plan)?, used))
        };
        Again { adapt: Box::new(adapt), attempt: Box::new(attempt) }
    }

    fn finished(&self, mut plan: Plan) -> Result<Plan, Refused> {
        plan::predict_all(&mut plan, 1).map_err(Failure::into_refused)?;
        part(plan, self.only).map_err(Failure::into_refused)
    }
}

/// What is to be enforced of a plan.
fn part(plan: Plan, only: Option<Only>) -> Result<Plan, Failure> {
    match only {
        None => Ok(plan),
        Some(Only::Network) if plan.network.is_empty() => {
            Err(Failure::input("--only network: the site says nothing about packets on this host; expected 'network' of a host and of its services"))
        }
        Some(Only::Network) => {
            let (services, leftovers, topics) = (Vec::new(), Vec::new(), Vec::new());
            // Cores are no matter then: they stay as they are.
            let hosts = plan.hosts.into_iter().map(|host| HostPlan { parked: Vec::new(), ..host }).collect();
            Ok(Plan { hosts, services, leftovers, topics, coordination: None, ..plan })
        }
    }
}

fn dry_run(args: &RunArgs, plan: &Plan) -> Result<ExitCode, Failure> {
    let steps = giusto_daemon::dry_run(plan, &giusto_compute::probe());
    if args.site.json {
        return table::json(&json!({"plan": plan, "steps": steps}));
    }
    let steps: String = steps.iter().map(|step| format!("would {step}\n")).collect();
    table::print(&format!("{}{steps}", plan::describe(plan)))?;
    Ok(ExitCode::SUCCESS)
}

/// `giusto restore`
pub(crate) fn restore(args: &RestoreArgs) -> Result<ExitCode, Failure> {
    let (_, restored) = Journal::open()?;
    if args.json {
        table::json(&restored)?;
    }
    tell_restored(&restored)?;
    if !args.json {
        say!("{}", if restored.undone == 0 { "there is nothing to restore" } else { "the host is as it was" });
    }
    Ok(ExitCode::SUCCESS)
}
