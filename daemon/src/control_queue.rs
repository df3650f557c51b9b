//! What operators ask of enforcement: clients ask here from their threads, the loop that enforces looks by.
//!
//! Enforcement is never waited upon for a status (the last one it left is given), and never waits for a client.

use crate::adapt::{Again, Factors, Wish};
use crate::modes::Wishes;
use crate::{Change, ChangeStatus, Refused, Sources, State, Status, STATUS_VERSION};
use giusto_model::{Plan, Site};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

/// What clients can ask of a running giusto. Called from many threads.
pub trait Host: Send + Sync {
    /// How it stands; never waits.
    fn status(&self) -> Status;
    /// Plans `site` (or the one in force) anew and applies the difference. Errors: why not; the old plan is in force then.
    fn reload(&self, site: Option<&Path>) -> Result<Change, Refused>;
    /// Changes the mode. Returns how that went, or `None` once it has begun if the wish is not to wait. Errors: it was not
    /// begun, or did not end in that mode.
    fn change_mode(&self, wish: &crate::Wish) -> Result<Option<ChangeStatus>, Refused>;
    /// Asks for an orderly end.
    fn stop(&self);
    /// The service of each process, as it was a second ago at most.
    fn processes(&self) -> Arc<BTreeMap<u32, String>> {
        Arc::default()
    }
    /// The plan in force, as far as it is known.
    fn plan(&self) -> Option<Arc<Plan>> {
        None
    }
    /// What of it can be recorded, as it was a second ago at most.
    fn sources(&self) -> Sources {
        Sources::default()
    }
    /// The plan if each request or job of a service had so many times the work; `None`: what the plan in force comes from is
    /// not known. Errors: it does not fit, or cannot be planned now.
    fn what_if(&self, _service: &str, _times: f64) -> Option<Result<Plan, Refused>> {
        None
    }
}

/// Reads a site file and plans it for this host, or reads a plan that was reviewed. The site, as far as it is known, is what
/// services are adapted from.
pub type Planner = Box<dyn Fn(&Path) -> Result<(Option<Site>, Plan), Refused> + Send + Sync>;

/// A plan that is to replace the one in force; the thread that takes it answers.
pub(crate) struct Order {
    pub(crate) plan: Plan,
    /// What it comes from, where no operator asked for it.
    pub(crate) wish: Option<Wish>,
    pub(crate) answer: SyncSender<Result<Change, Refused>>,
}

/// How long an order may take: services that start may take 10 s each.
const PATIENCE: Duration = Duration::from_secs(60);

/// Implements [`Host`] for a loop that looks by ten times a second.
pub(crate) struct ControlQueue {
    status: Mutex<Status>,
    /// Held while another plan is put in force.
    in_force: Mutex<InForce>,
    planner: Planner,
    again: Option<Again>,
    orders: Sender<Order>,
    stop: &'static AtomicBool,
    wishes: Mutex<Option<Wishes>>,
    processes: Mutex<Arc<BTreeMap<u32, String>>>,
    plan: Mutex<Option<Arc<Plan>>>,
    sources: Mutex<Sources>,
}

/// What the plan in force comes from.
struct InForce {
    file: PathBuf,
    /// As it was read, as far as that is known.
    site: Option<Site>,
    factors: Factors,
}

impl ControlQueue {
    pub(crate) fn new(
        host: &str,
        file: PathBuf,
        planner: Planner,
        again: Option<(Option<Site>, Again)>,
        stop: &'static AtomicBool,
    ) -> (ControlQueue, Receiver<Order>) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let status = Status {
            giusto: STATUS_VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            host: host.into(),
            pid: std::process::id(),
            since_ns: since.as_nanos() as u64,
            state: State::Starting,
            cpu_ns: 0,
            cpu_recent: 0.0,
            notes: Vec::new(),
            services: Vec::new(),
            cores: Vec::new(),
            network: Vec::new(),
            modes: None,
            adaptations: Vec::new(),
            paths: Vec::new(),
            otlp: None,
            warnings: Vec::new(),
        };
        let (orders, taken) = channel();
        let (site, again) = again.map_or((None, None), |(site, again)| (site, Some(again)));
        let in_force = Mutex::new(InForce { file, site, factors: Factors::new() });
        (
            ControlQueue {
                status: Mutex::new(status),
                in_force,
                planner,
                again,
                orders,
                stop,
                wishes: Mutex::new(None),
                processes: Mutex::default(),
                plan: Mutex::default(),
                sources: Mutex::default(),
            },
            taken,
        )
    }

    /// Which service each process belongs to from now on, and what can be recorded.
    pub(crate) fn belong(&self, processes: BTreeMap<u32, String>, sources: Sources) {
        *self.sources.lock().unwrap_or_else(PoisonError::into_inner) = sources;
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(processes);
    }

    /// Which plan is in force from now on.
    pub(crate) fn planned(&self, plan: Plan) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(plan));
    }

    /// Where wishes for modes go from now on.
    pub(crate) fn modes(&self, wishes: Option<Wishes>) {
        *self.wishes.lock().unwrap_or_else(PoisonError::into_inner) = wishes;
    }

    /// Plans the site in force with other execution times for one service. Waits for a reload that is under way.
    /// Errors: why not; the
    /// plan in force stays.
    pub(crate) fn adapt(&self, wish: Wish) -> Result<(), Refused> {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let InForce { site: Some(site), factors, .. } = &*in_force else { return Ok(()) };
        let Some(again) = &self.again else { return Ok(()) };
        let mut wanted = factors.clone();
        let factor = wanted.entry(wish.service.clone()).or_insert(1.0);
        *factor = (*factor * wish.times).max(1.0);
        // What is given back is no floor.
        let floor: Factors = factors.iter().map(|(name, factor)| (name.clone(), factor.min(wanted[name]))).collect();
        let (plan, used) = (again.adapt)(site, &wanted, &floor)?;
        self.order(plan, Some(wish))?;
        in_force.factors = used;
        Ok(())
    }

    /// Has a plan put in force, and waits for that.
    fn order(&self, plan: Plan, wish: Option<Wish>) -> Result<Change, Refused> {
        let refused = |exit, reason: &str| Refused { exit, reason: reason.into() };
        let stopping = || refused(4, "giusto is stopping");
        let (answer, answered) = sync_channel(1);
        self.orders.send(Order { plan, wish, answer }).map_err(|_| stopping())?;
        match answered.recv_timeout(PATIENCE) {
            Ok(change) => change,
            Err(RecvTimeoutError::Disconnected) => Err(stopping()),
            Err(RecvTimeoutError::Timeout) => {
                Err(refused(4, "the new plan is not in force after a minute, and may still be: see 'giusto status'"))
            }
        }
    }

    /// The status, to be brought up to date.
    pub(crate) fn publish(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for ControlQueue {
    fn status(&self) -> Status {
        let mut status = self.publish().clone();
        // Changes take a millisecond: these are newer than what the loop left.
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.modes = wishes.map(|wishes| wishes.status()).or(status.modes);
        status
    }

    fn reload(&self, site: Option<&Path>) -> Result<Change, Refused> {
        let mut in_force = match self.in_force.try_lock() {
            Ok(in_force) => in_force,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let reason = "another plan is being put in force; try again after it".into();
                return Err(Refused { exit: 4, reason });
            }
        };
        let file = site.unwrap_or(&in_force.file).to_path_buf();
        let (site, plan) = (self.planner)(&file)?;
        let change = self.order(plan, None)?;
        *in_force = InForce { file, site, factors: Factors::new() };
        Ok(change)
    }

    fn change_mode(&self, wish: &crate::Wish) -> Result<Option<ChangeStatus>, Refused> {
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let none = || Refused {
            exit: 2,
            reason: "this host has no modes, or is not in its plan yet; expected 'modes' in the site file".into(),
        };
        wishes.ok_or_else(none)?.change(wish)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn processes(&self) -> Arc<BTreeMap<u32, String>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn plan(&self) -> Option<Arc<Plan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sources(&self) -> Sources {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn what_if(&self, service: &str, times: f64) -> Option<Result<Plan, Refused>> {
        let again = self.again.as_ref()?;
        let in_force = match self.in_force.try_lock() {
            Ok(in_force) => in_force,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let reason = "another plan is being put in force; ask again after it".into();
                return Some(Err(Refused { exit: 4, reason }));
            }
        };
        let (site, mut factors) = (in_force.site.clone()?, in_force.factors.clone());
        drop(in_force);
        *factors.entry(service.into()).or_insert(1.0) *= times;
        Some((again.attempt)(&site, &factors))
    }
}
