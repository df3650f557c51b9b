//! Services that go by a name, which outlives their cgroups.

use crate::container;
use crate::systemd::{self, HIERARCHIES};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// Neither is asked sooner again.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

/// Who knows the cgroup of a service: it may have another when it is started again.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// Of systemd.
    Unit(String),
    /// Of Docker or Podman.
    Container(String),
}

impl Named {
    /// Its cgroup now. Errors say what was expected and what to do.
    pub(crate) fn control_group(&self) -> Result<String, String> {
        match self {
            Named::Unit(unit) => systemd::control_group("systemctl", unit, &HIERARCHIES),
            Named::Container(name) => container::control_group(&container::SOCKETS, name),
        }
    }

    /// How it is started again.
    pub(crate) fn start(&self) -> String {
        match self {
            Named::Unit(unit) => format!("systemctl start {unit}"),
            Named::Container(name) => format!("docker start {name}, or podman start {name}"),
        }
    }
}

/// The cgroup of a service that goes by a name, as it was told last.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) named: Named,
    asked: Instant,
    /// From a thread that waits for the answer: systemd or an engine may be silent, and other services do not wait for it.
    answer: Option<Receiver<Result<String, String>>>,
}

impl Place {
    /// Asks for it and waits. Errors say what was expected and what to do.
    pub(crate) fn of(named: Named) -> Result<Place, String> {
        Ok(Place { path: named.control_group()?, named, asked: Instant::now(), answer: None })
    }

    /// Asks again where that was not done lately, and takes what was answered since. Does not wait.
    pub(crate) fn look(&mut self) {
        let named = self.named.clone();
        self.look_by(move || named.control_group());
    }

    fn look_by(&mut self, ask: impl FnOnce() -> Result<String, String> + Send + 'static) {
        match self.answer.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return,
            Some(Ok(Ok(path))) => self.path = path,
            Some(Ok(Err(_)) | Err(TryRecvError::Disconnected)) | None => {}
        }
        self.answer = None;
        if self.asked.elapsed() < ASKED_AGAIN {
            return;
        }
        self.asked = Instant::now();
        let (sender, receiver) = mpsc::channel();
        // Who has no room for a thread has none for the answer: it is asked another time.
        let asks = thread::Builder::new().name("giusto-named".into()).spawn(move || {
            let _ = sender.send(ask()); // the asking thread may have ended
        });
        self.answer = asks.ok().map(|_| receiver);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let long_ago = Instant::now().checked_sub(ASKED_AGAIN * 2).unwrap();
        let named = Named::Container("search".into());
        let mut place = Place { path: "old".into(), named, asked: long_ago, answer: None };
        let (answers, engine) = mpsc::channel::<Result<String, String>>();
        // Ends, too, where it is waited for, so that the test fails and does not hang.
        let silent = move || engine.recv_timeout(Duration::from_secs(5)).unwrap_or_else(|_| Ok("waited for".into()));
        place.look_by(silent);
        assert_eq!(place.path, "old", "it goes on at once");
        // As long as it says nothing it is not asked a second time.
        place.asked = long_ago;
        place.look_by(|| panic!("asked twice"));
        assert_eq!(place.path, "old");
        answers.send(Ok("new".into())).unwrap();
        while place.path == "old" {
            place.asked = Instant::now();
            place.look();
            thread::yield_now();
        }
        assert_eq!(place.path, "new");
        // What it does not know leaves the place as it was told last.
        place.asked = long_ago;
        place.look_by(|| Err("it has no such container".into()));
        while place.answer.is_some() {
            place.asked = Instant::now();
            place.look();
            thread::yield_now();
        }
        assert_eq!(place.path, "new");
    }
}
