//! The operator's side of `giusto run`: status, control socket, metrics, reload and the service manager around the loop that
//! enforces.
//!
//! Called by that loop ten times a second ([`Operator::turn`]) with what it enforces, as a [`Stage`].

use crate::adapt::{Adapter, Again, Wish};
use crate::control::Control;
use crate::control_queue::{ControlQueue, Order};
use crate::late::{Events, Late};
use crate::log::has_fields;
use crate::metrics::Metrics;
use crate::modes::{ModesStatus, Wishes};
use crate::otlp::{Otlp, OtlpAddress};
use crate::peek::OWN_PLAN;
use crate::plan_diff::{difference, Layout};
use crate::web::{Web, WebSettings};
use crate::{
    Change, CoreStatus, Error, Host, Journal, LinkStatus, Notify, PathStatus, Planner, Refused, ServiceStatus, Signals,
    Sources, State, Step,
};
use giusto_model::{Backend, Bandwidth, HostPlan, Plan, Site};
use giusto_planner::Facts;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What enforces, as far as operators have to do with it.
pub trait Stage {
    /// How everything stands; `plan` is in force. Called once a second.
    fn report(&mut self, plan: &Plan) -> Report;

    /// What of the services can be recorded. Called after [`Stage::report`].
    fn sources(&self) -> Sources {
        Sources::default()
    }

    /// Why `plan` cannot be put in force before Giusto starts anew. Asked before the first step.
    fn unable(&self, _plan: &Plan) -> Option<String> {
        None
    }

    /// Does one step on the way to `plan`; a service that is removed is not in it. Errors: it could not be done, and
    /// everything is as it was before it.
    fn apply(&mut self, step: &Step, plan: &Plan) -> Result<(), Error>;

    /// Ends mode changes, and returns the local modes that are in force, if there are modes. Errors: one is under way,
    /// which goes on.
    fn stop_modes(&mut self) -> Result<Option<Vec<String>>, Refused> {
        Ok(None)
    }

    /// `plan` is in force: its modes may be changed from now on.
    fn start_modes(&mut self, _plan: &Plan) -> Result<(), Error> {
        Ok(())
    }

    /// Where wishes for other modes go.
    fn wishes(&self) -> Option<Wishes> {
        None
    }
}

/// What a stage knows of itself; see [`crate::Status`].
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Report {
    pub cpu_ns: u64,
    pub cpu_recent: f64,
    pub notes: Vec<String>,
    pub services: Vec<ServiceStatus>,
    pub cores: Vec<CoreStatus>,
    pub network: Vec<LinkStatus>,
    pub modes: Option<ModesStatus>,
    pub warnings: Vec<String>,
    /// The service of each process.
    pub processes: BTreeMap<u32, String>,
    /// Jobs and messages that were late, one by one, since the last report.
    pub late: Vec<Late>,
    pub paths: Vec<PathStatus>,
}

/// How the operator's side is set up.
pub struct Settings {
    /// Where each new plan in force is written.
    pub plan_file: Option<PathBuf>,
    /// What admission goes by.
    pub facts: Facts,
    /// Where Prometheus may ask.
    pub metrics: Option<SocketAddr>,
    /// Where a browser may look.
    pub web: Option<WebSettings>,
    /// Where metrics and late jobs are sent.
    pub otlp: Option<OtlpAddress>,
    /// Who started this process.
    pub notify: Notify,
    /// What it is sent.
    pub signals: &'static Signals,
    /// The site in force, if it is known, and what plans a site with other execution times; `None`: services are not adapted
    /// to.
    pub again: Option<(Option<Site>, Again)>,
}

/// See the module. Dropping it closes what it opened.
pub struct Operator {
    control_queue: Arc<ControlQueue>,
    orders: Receiver<Order>,
    settings: Settings,
    plan: Plan,
    /// What is really held: not what the plan says where going back failed.
    layout: Layout,
    stuck: Option<String>,
    /// Where this giusto keeps its state.
    folder: PathBuf,
    /// The plan in force, for 'giusto explain'; gone with this giusto.
    own_plan: PathBuf,
    reported: Option<Instant>,
    adapter: Adapter,
    /// A wish is being planned.
    adapting: Arc<AtomicBool>,
    _control: Control,
    _metrics: Option<Metrics>,
    _web: Option<Web>,
    otlp: Option<Otlp>,
    /// Where their fields are kept.
    late: Option<Events>,
}

impl Operator {
    /// Opens the control socket beside `journal`, and the metrics, for a `plan` of one host that comes from the file `site`.
    /// Errors: one of them cannot be listened on; the plan is for several hosts.
    pub fn open(
        journal: &Journal,
        plan: &Plan,
        site: PathBuf,
        planner: Planner,
        mut settings: Settings,
    ) -> Result<Operator, Error> {
        let host = plan.only_host().ok_or(Error::ManyHosts(plan.hosts.len()))?;
        let (control_queue, orders) =
            ControlQueue::new(&host.name, site, planner, settings.again.take(), &settings.signals.stop);
        let control_queue = Arc::new(control_queue);
        let control = Control::listen(journal, control_queue.clone())?;
        let own_plan = journal.folder().join(OWN_PLAN);
        write_plan(plan, &own_plan);
        control_queue.planned(plan.clone());
        let metrics = settings.metrics.map(|address| Metrics::listen(address, control_queue.clone())).transpose()?;
        let web = settings.web.take().map(|web| Web::listen(web, control_queue.clone())).transpose()?;
        let cannot = |source| Error::Io { doing: "start the thread of --otlp".into(), source };
        let otlp = settings.otlp.take().map(|to| Otlp::start(to, control_queue.clone())).transpose().map_err(cannot)?;
        settings.notify.status("putting services in their places");
        Ok(Operator {
            control_queue,
            orders,
            settings,
            plan: plan.clone(),
            layout: Layout::of(plan),
            stuck: None,
            folder: journal.folder().into(),
            own_plan,
            reported: None,
            adapter: Adapter::default(),
            adapting: Arc::default(),
            _control: control,
            _metrics: metrics,
            _web: web,
            otlp,
            late: has_fields().then(Events::default),
        })
    }

    /// Everything is in its place, and was looked at: from the first call on this giusto is ready.
    pub fn turn(&mut self, stage: &mut dyn Stage) {
        self.settings.notify.alive();
        if self.settings.signals.reload() {
            self.reload_in_background();
        }
        while let Ok(order) = self.orders.try_recv() {
            self.carry_out(order, stage);
        }
        match self.reported {
            None => {
                self.control_queue.modes(stage.wishes());
                let ready = self.report(stage);
                self.settings.notify.ready(&ready);
            }
            Some(at) if at.elapsed() >= Duration::from_secs(1) => {
                self.control_queue.modes(stage.wishes()); // the thread of modes may be another one by now
                _ = self.report(stage);
            }
            Some(_) => {}
        }
    }

    /// The end begins.
    pub fn stopping(&mut self) {
        self.settings.notify.stopping();
        self.control_queue.publish().state = State::Stopping;
    }

    /// Brings the status up to date; returns it in a line.
    fn report(&mut self, stage: &mut dyn Stage) -> String {
        let Report {
            cpu_ns,
            cpu_recent,
            mut notes,
            services,
            cores,
            network,
            modes,
            mut warnings,
            processes,
            late,
            paths,
        } = stage.report(&self.plan);
        if let Some(events) = &mut self.late {
            events.take(&late, (&services, &paths), Instant::now());
        }
        let otlp = self.otlp.as_ref().map(|otlp| {
            otlp.tell(late);
            otlp.status()
        });
        notes.extend(otlp.as_ref().and_then(|otlp| otlp.problem.as_ref()).map(|why| format!("otlp: {why}")));
        self.control_queue.belong(processes, stage.sources());
        self.reported = Some(Instant::now());
        warnings.extend(self.stuck.clone());
        let state = if warnings.is_empty() { State::Enforcing } else { State::Degraded };
        let line = match warnings.first() {
            None => format!("enforcing, {} services", services.len()),
            Some(warning) => format!("degraded: {warning}"),
        };
        if !self.adapting.load(Ordering::Relaxed) {
            if let Some(wish) = self.adapter.wish(&self.plan, &services, Instant::now()) {
                self.adapt_in_background(wish);
            }
        }
        let mut status = self.control_queue.publish();
        status.adaptations = self.adapter.history().to_vec();
        let before = std::mem::replace(&mut status.state, state);
        (status.notes, status.services, status.cores, status.warnings) = (notes, services, cores, warnings);
        (status.network, status.modes, status.otlp, status.paths) = (network, modes, otlp, paths);
        (status.cpu_ns, status.cpu_recent) = (cpu_ns, cpu_recent);
        drop(status);
        if before != state {
            self.settings.notify.status(&line);
        }
        line
    }

    /// Plans anew with other execution times for one service.
    fn adapt_in_background(&self, wish: Wish) {
        let (control_queue, adapting) = (self.control_queue.clone(), self.adapting.clone());
        let adapt = move || {
            let service = wish.service.clone();
            if let Err(refused) = control_queue.adapt(wish) {
                tracing::warn!(service, "{service} asks for another share and cannot have it: {refused}");
            }
            adapting.store(false, Ordering::Relaxed);
        };
        self.adapting.store(true, Ordering::Relaxed);
        if let Err(error) = std::thread::Builder::new().name("giusto-adapt".into()).spawn(adapt) {
            self.adapting.store(false, Ordering::Relaxed);
            tracing::warn!("not planned anew: {error}");
        }
    }

    /// No client waits for an answer to SIGHUP.
    fn reload_in_background(&self) {
        let control_queue = self.control_queue.clone();
        let reload = move || {
            tracing::info!("SIGHUP: reading the site file again");
            if let Err(refused) = control_queue.reload(None) {
                tracing::warn!(exit = refused.exit, "not reloaded, the old plan stays in force: {refused}");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("giusto-reload".into()).spawn(reload) {
            tracing::warn!("not reloaded: {error}; try again");
        }
    }

    fn carry_out(&mut self, order: Order, stage: &mut dyn Stage) {
        self.settings.notify.reloading();
        let before = self.plan.clone();
        let mut plan = order.plan;
        if order.wish.is_some() {
            plan.basis.clone_from(&before.basis); // the same site, with other execution times
        }
        let done = self.reload(plan, stage);
        match &done {
            Ok(change) => {
                tracing::info!(steps = change.steps.len(), "reloaded: {} steps", change.steps.len());
                self.adapter.planned(&before, &self.plan, order.wish.as_ref());
                write_plan(&self.plan, &self.own_plan);
                self.control_queue.planned(self.plan.clone());
                if let Some(file) = &self.settings.plan_file {
                    write_plan(&self.plan, file);
                }
            }
            Err(refused) => tracing::warn!(exit = refused.exit, "not reloaded: {refused}"),
        }
        let status = self.report(stage);
        self.settings.notify.ready(&status);
        let _ = order.answer.send(done); // it may have gone
    }

    /// Puts `new` in force, in the mode in which the host is where it has that one too.
    fn reload(&mut self, new: Plan, stage: &mut dyn Stage) -> Result<Change, Refused> {
        if let Some(plan) = stage.stop_modes()?.and_then(|locals| self.plan.in_mode(&locals)) {
            self.plan = plan;
            if self.stuck.is_none() {
                self.layout = Layout::of(&self.plan);
            }
        }
        let failed = |error: Error| Refused { exit: 4, reason: error.to_string() };
        let new = crate::modal::in_force(new, &self.folder).map_err(failed);
        let done = new.and_then(|new| {
            let change = self.change(stage, &new)?;
            self.plan = new;
            Ok(change)
        });
        let begun = stage.start_modes(&self.plan).map_err(failed);
        self.control_queue.modes(stage.wishes());
        let change = done?;
        begun.map(|()| change)
    }

    /// The host of `new`, if it is the one that runs: what another one has to do is not to be done here.
    fn same_host<'p>(&self, new: &'p Plan) -> Result<&'p HostPlan, Refused> {
        let names = |plan: &Plan| plan.hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>().join(", ");
        let same = |host: &&HostPlan| self.plan.hosts.iter().any(|before| before.name == host.name);
        new.only_host().filter(same).ok_or_else(|| {
            let reason = format!("this giusto runs host {}, and the new plan is for {}", names(&self.plan), names(new));
            Refused { exit: 2, reason: format!("{reason}; start it again for another host") }
        })
    }

    /// From what is held to `new`, or back where a step fails.
    fn change(&mut self, stage: &mut dyn Stage, new: &Plan) -> Result<Change, Refused> {
        let host = self.same_host(new)?;
        if let Some(reason) = stage.unable(new) {
            return Err(Refused { exit: 4, reason: format!("{reason}; the old plan is in force") });
        }
        let (facts, keep_free) = (self.settings.facts.clone(), host.keep_free);
        let capacity = |backend| giusto_planner::capacity(keep_free, &facts, backend).0;
        let (old, goal) = (Layout::of(&self.plan), Layout::of(new));
        let steps = difference(&self.layout, &goal, &capacity);
        for step in &steps {
            self.settings.notify.alive();
            tracing::info!(service = step.service(), "{step}");
            if let Err(error) = stage.apply(step, new) {
                let mut reason = format!("cannot {step}: {error}");
                self.stuck = self.go_back(stage, &old, &capacity);
                match &self.stuck {
                    None => reason.push_str("; the old plan is in force"),
                    Some(stuck) => reason = format!("{reason}; {stuck}"),
                }
                return Err(Refused { exit: 4, reason });
            }
            self.layout.apply(step, &goal);
        }
        self.stuck = None;
        Ok(Change { steps })
    }

    /// As far as possible; what is not is returned.
    fn go_back(
        &mut self,
        stage: &mut dyn Stage,
        old: &Layout,
        capacity: &dyn Fn(Backend) -> Bandwidth,
    ) -> Option<String> {
        let mut stuck = Vec::new();
        for step in difference(&self.layout, old, capacity) {
            match stage.apply(&step, &self.plan) {
                Ok(()) => self.layout.apply(&step, old),
                Err(error) => stuck.push(format!("going back, cannot {step}: {error}")),
            }
        }
        (!stuck.is_empty()).then(|| format!("{}; reload a site that fits, or start giusto again", stuck.join("; ")))
    }
}

fn write_plan(plan: &Plan, file: &Path) {
    if let Err(error) = giusto_planner::write(plan, file) {
        tracing::warn!("the plan is in force, and {} does not have it: {error}", file.display());
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own_plan);
    }
}

#[cfg(test)]
#[path = "operator_tests.rs"]
mod tests;
