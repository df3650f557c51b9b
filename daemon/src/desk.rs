//! The desk between operators and enforcement: clients ask here from their threads, the loop that enforces looks by.
//!
//! Enforcement is never waited upon for a status (the last one it left is given), and never waits for a client.

use crate::modes::Wishes;
use crate::{Change, ChangeStatus, State, Status, Wish, STATUS_VERSION};
use giusto_model::Plan;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

/// What clients can ask of a running giusto. Called from many threads.
pub trait Host: Send + Sync {
    /// How it stands; never waits.
    fn status(&self) -> Status;
    /// Plans `site` (or the one in force) anew and applies the difference. Errors: why not; the old plan is in force then.
    fn reload(&self, site: Option<&Path>) -> Result<Change, Refused>;
    /// Changes the mode. Returns how that went, or `None` once it has begun where nobody waits. Errors: it was not begun, or did not end in that mode.
    fn change_mode(&self, wish: &Wish) -> Result<Option<ChangeStatus>, Refused>;
    /// Asks for an orderly end.
    fn stop(&self);
}

/// Why something asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The exit code that says so (DESIGN, "Errors").
    pub exit: u8,
    /// In words, with what to do.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Reads a site file and plans it for this host.
pub type Planner = Box<dyn Fn(&Path) -> Result<Plan, Refused> + Send + Sync>;

/// A plan that is to replace the one in force; whoever takes it answers.
pub(crate) struct Order {
    pub(crate) plan: Plan,
    pub(crate) answer: SyncSender<Result<Change, Refused>>,
}

/// How long an order may take: services that start may take 10 s each.
const PATIENCE: Duration = Duration::from_secs(60);

/// Implements [`Host`] for a loop that looks by ten times a second.
pub(crate) struct Desk {
    status: Mutex<Status>,
    /// The site file in force; held during a reload.
    site: Mutex<PathBuf>,
    planner: Planner,
    orders: Sender<Order>,
    stop: &'static AtomicBool,
    wishes: Mutex<Option<Wishes>>,
}

impl Desk {
    pub(crate) fn new(
        host: &str,
        site: PathBuf,
        planner: Planner,
        stop: &'static AtomicBool,
    ) -> (Desk, Receiver<Order>) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let status = Status {
            giusto: STATUS_VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            host: host.into(),
            pid: std::process::id(),
            since_ns: since.as_nanos() as u64,
            state: State::Starting,
            notes: Vec::new(),
            services: Vec::new(),
            cores: Vec::new(),
            network: Vec::new(),
            modes: None,
            adaptations: Vec::new(),
            warnings: Vec::new(),
        };
        let (orders, taken) = channel();
        (
            Desk {
                status: Mutex::new(status),
                site: Mutex::new(site),
                planner,
                orders,
                stop,
                wishes: Mutex::new(None),
            },
            taken,
        )
    }

    /// Where wishes for modes go from now on.
    pub(crate) fn modes(&self, wishes: Option<Wishes>) {
        *self.wishes.lock().unwrap_or_else(PoisonError::into_inner) = wishes;
    }

    /// The status, to be brought up to date.
    pub(crate) fn publish(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Desk {
    fn status(&self) -> Status {
        let mut status = self.publish().clone();
        // Changes take a millisecond: these are newer than what the loop left.
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.modes = wishes.map(|wishes| wishes.status()).or(status.modes);
        status
    }

    fn reload(&self, site: Option<&Path>) -> Result<Change, Refused> {
        let refused = |exit, reason: &str| Refused { exit, reason: reason.into() };
        let mut in_force = match self.site.try_lock() {
            Ok(in_force) => in_force,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(refused(4, "another reload is under way; try again after it")),
        };
        let site = site.unwrap_or(&in_force).to_path_buf();
        let plan = (self.planner)(&site)?;
        let (answer, answered) = sync_channel(1);
        let stopping = || refused(4, "giusto is stopping");
        self.orders.send(Order { plan, answer }).map_err(|_| stopping())?;
        let change = match answered.recv_timeout(PATIENCE) {
            Ok(change) => change?,
            Err(RecvTimeoutError::Disconnected) => return Err(stopping()),
            Err(RecvTimeoutError::Timeout) => {
                return Err(refused(
                    4,
                    "the new plan is not in force after a minute, and may still be: see 'giusto status'",
                ));
            }
        };
        *in_force = site;
        Ok(change)
    }

    fn change_mode(&self, wish: &Wish) -> Result<Option<ChangeStatus>, Refused> {
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
}
