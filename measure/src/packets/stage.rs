//! Network namespaces with a host, its bridge, guests and a remote machine.

use crate::Error;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host, whose processing is measured: it has a bridge with the vifs and the uplink.
    Host,
    /// A guest, from 0. Its `eth0` is the other end of the host's vif.
    Guest(usize),
    /// Another machine; its `eth0` is the other end of the host's uplink.
    Remote,
}

/// A host with a bridge, a vif `v<i>` for each guest, and the uplink `up0` to a remote machine, each a veth pair between network
/// namespaces that nothing else is in. Names begin with `giusto-stage-` and this process's id; dropping it removes them, making
/// one removes what dead processes have left.
///
/// It needs root and iproute2's `ip`.
#[derive(Debug)]
pub struct Stage {
    name: String,
    guests: usize,
}

const PREFIX: &str = "giusto-stage-";

impl Stage {
    /// Makes it. Errors: what the kernel or `ip` said; what was made until then is removed.
    pub fn new(guests: usize) -> Result<Stage, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let stage = Stage { name: format!("{PREFIX}{}-{count}", std::process::id()), guests };
        for place in stage.places() {
            run(&["ip", "netns", "add", &stage.namespace(place)])?;
        }
        stage.run(Place::Host, &["ip", "link", "add", "br0", "type", "bridge"])?;
        stage.run(Place::Host, &["ip", "link", "set", "br0", "up"])?;
        (0..guests).try_for_each(|guest| stage.connect(Place::Guest(guest)))?;
        stage.connect(Place::Remote)?;
        Ok(stage)
    }

    /// The name of its network namespace.
    pub fn namespace(&self, place: Place) -> String {
        match place {
            Place::Host => format!("{}-host", self.name),
            Place::Guest(guest) => format!("{}-g{guest}", self.name),
            Place::Remote => format!("{}-remote", self.name),
        }
    }

    /// The host's end towards a guest or the remote machine.
    pub fn vif(place: Place) -> String {
        match place {
            Place::Guest(guest) => format!("v{guest}"),
            Place::Host | Place::Remote => "up0".into(),
        }
    }

    /// The address of a guest, or of the remote machine; the host has none.
    pub fn address(place: Place) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, host_part(place))
    }

    /// Runs a program there to its end.
    pub fn run(&self, place: Place, words: &[&str]) -> Result<String, Error> {
        let namespace = self.namespace(place);
        run(&[&["ip", "netns", "exec", &namespace], words].concat())
    }

    /// Does `work` in a thread that is there: sockets that it makes stay there.
    pub fn inside<T: Send>(&self, place: Place, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let what = format!("enter network namespace {}", self.namespace(place));
        let failed = |why| Error::System { what: what.clone(), why };
        let file = fs::File::open(format!("/run/netns/{}", self.namespace(place))).map_err(failed)?;
        let enter = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        let done: Result<T, io::Error> = std::thread::scope(|scope| scope.spawn(enter).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.map_err(failed)
    }

    /// All but the host.
    pub fn ends(&self) -> impl Iterator<Item = Place> {
        (0..self.guests).map(Place::Guest).chain([Place::Remote])
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        [Place::Host].into_iter().chain(self.ends())
    }

    fn connect(&self, place: Place) -> Result<(), Error> {
        let (vif, there) = (Stage::vif(place), self.namespace(place));
        self.run(Place::Host, &["ip", "link", "add", &vif, "type", "veth", "peer", "name", "eth0", "netns", &there])?;
        self.run(Place::Host, &["ip", "link", "set", &vif, "master", "br0", "up"])?;
        let address = format!("{}/24", Stage::address(place));
        self.run(place, &["ip", "link", "set", "eth0", "address", &hardware(place)])?;
        self.run(place, &["ip", "addr", "add", &address, "dev", "eth0"])?;
        self.run(place, &["ip", "link", "set", "eth0", "up"])?;
        // Known beforehand, so that nothing but what is measured passes.
        for other in self.ends().filter(|other| *other != place) {
            let (address, hardware) = (Stage::address(other).to_string(), hardware(other));
            let known = ["ip", "neigh", "replace", &address, "lladdr", &hardware, "dev", "eth0", "nud", "permanent"];
            self.run(place, &known)?;
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.places().for_each(|place| remove(&self.namespace(place)));
    }
}

fn host_part(place: Place) -> u8 {
    match place {
        Place::Host => 1,
        Place::Remote => 2,
        Place::Guest(guest) => 10 + guest.min(240) as u8,
    }
}

fn hardware(place: Place) -> String {
    format!("02:00:00:00:77:{:02x}", host_part(place))
}

fn remove(namespace: &str) {
    let _ = Command::new("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
}

/// Removes what processes have left that are dead.
fn sweep() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().to_string();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| fs::metadata(format!("/proc/{pid}")).is_err()) {
            remove(&name);
        }
    }
}

fn run(words: &[&str]) -> Result<String, Error> {
    let what = || format!("run '{}'", words.join(" "));
    let done = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let done = done.map_err(|why| Error::System { what: format!("{} (package iproute2 has it)", what()), why })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
        return match said.contains("Operation not permitted") {
            true => Err(Error::Root { what: what() }),
            false => Err(Error::System { what: what(), why: io::Error::other(said) }),
        };
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
