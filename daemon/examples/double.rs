//! A giusto that enforces nothing, for tests of the operator's side without privilege: the real journal, control socket,
//! metrics, reload, log and service manager's protocol around a stage that only remembers what it was told.
//!
//! `double SITE [METRICS [json [WEB]]]`; a step for the service named in $DOUBLE_FAILS fails.

use giusto_daemon::{
    log, CoreStatus, Error, Journal, Notify, Operator, Refused, Report, ServiceState, ServiceStatus, Settings, Signals,
    Stage, Step, WebSettings,
};
use giusto_model::{Plan, Site};
use giusto_planner::{Facts, Refusal};
use std::path::{Path, PathBuf};

struct Double {
    fails: Option<String>,
}

impl Stage for Double {
    fn report(&mut self, plan: &Plan) -> Report {
        let services = plan.services.iter().map(|service| ServiceStatus {
            name: service.name.clone(),
            promise: "as-if-alone".into(),
            core: Some(service.core),
            backend: Some("double".into()),
            kind: Some(service.server.kind.to_string()),
            budget_ns: Some(service.server.budget.ns()),
            period_ns: Some(service.server.period.ns()),
            threads: 1,
            left_ns: Some(-1_000),
            supplied_ns: 1_500_000_000,
            supplied_recent: 0.25,
            depletions: Some(3),
            state: ServiceState::Throttled,
            ..ServiceStatus::default()
        });
        let cores = plan.services.iter().map(|service| CoreStatus {
            core: service.core,
            manager_cost: Some(0.01),
            manager_cpu_ns: Some(10_000_000),
            ..CoreStatus::default()
        });
        Report {
            cpu_ns: 0,
            cpu_recent: 0.0,
            modes: None,
            notes: vec!["backend double: nothing is enforced".into()],
            services: services.collect(),
            cores: cores.collect(),
            network: Vec::new(),
            processes: Default::default(),
            warnings: Vec::new(),
            late: Vec::new(),
            paths: Vec::new(),
        }
    }

    fn apply(&mut self, step: &Step, _: &Plan) -> Result<(), Error> {
        match self.fails.as_deref() == Some(step.service()) {
            true => Err(Error::Service { name: step.service().into(), what: "was told to fail".into() }),
            false => Ok(()),
        }
    }
}

fn plan(site: &Path) -> Result<(Option<Site>, Plan), Refused> {
    let site = giusto_site::read(site).map_err(|error| Refused { exit: 2, reason: error.to_string() })?;
    let plan = giusto_planner::plan(&site, &facts()).map_err(|refusal| {
        let exit = if matches!(refusal, Refusal::DoesNotFit(_)) { 1 } else { 2 };
        Refused { exit, reason: refusal.to_string() }
    })?;
    Ok((Some(site), plan))
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1, 2, 3])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let site = PathBuf::from(args.get(1).ok_or("double SITE [METRICS [json [WEB]]]")?);
    log(args.get(3).is_some_and(|format| format == "json"));
    let notify = Notify::from_environment()?;
    let signals = Signals::mind(true);
    let (journal, _) = Journal::open()?;
    let plan_file = site.with_extension("plan.json");
    let metrics = args.get(2).filter(|address| !address.is_empty()).map(|address| address.parse()).transpose()?;
    let web = args.get(4).map(|address| WebSettings::new(address.parse()?, None)).transpose()?;
    let settings =
        Settings { plan_file: Some(plan_file), facts: facts(), metrics, web, otlp: None, notify, signals, again: None };
    let (_, first) = plan(&site).map_err(|refused| refused.reason)?;
    let mut operator = Operator::open(&journal, &first, site, Box::new(plan), settings)?;
    let mut stage = Double { fails: std::env::var("DOUBLE_FAILS").ok() };
    while !signals.stopped() {
        operator.turn(&mut stage);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    operator.stopping();
    Ok(())
}
