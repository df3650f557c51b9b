//! What a packet costs: processor time of the threads that process an interface's packets.

use super::{Flood, Flow, Place, Stage};
use crate::Error;
use giusto_model::Duration;
use std::{fs, io};

/// How long a flood runs before it is measured.
const WARM_UP: std::time::Duration = std::time::Duration::from_millis(200);

/// Floods the vif of the sender, whose packets `threads` process, for so long. Errors: the core of the flow is not there; a
/// thread has ended.
pub fn flooded(stage: &Stage, flow: Flow, threads: &[u32], length: Duration) -> Result<Passed, Error> {
    let flood = Flood::start(stage, &[flow])?;
    std::thread::sleep(WARM_UP);
    let before = Passed::now(stage, flow.from, threads)?;
    std::thread::sleep(std::time::Duration::from_nanos(length.ns()));
    let passed = Passed::now(stage, flow.from, threads)?.since(before);
    flood.end()?;
    Ok(passed)
}

/// What has passed a vif of the stage, and what its threads have used, since both are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets from the guest or the remote machine that the host has taken.
    pub packets: u64,
    /// Processor time in ns.
    pub used: u64,
}

impl Passed {
    /// Packets that a core could process in a second of its time.
    pub fn a_second(self) -> f64 {
        self.packets as f64 * 1e9 / self.used.max(1) as f64
    }

    /// Now, at the vif towards `place`, whose packets `threads` process. Errors: a thread has ended.
    pub fn now(stage: &Stage, place: Place, threads: &[u32]) -> Result<Passed, Error> {
        let file = format!("/sys/class/net/{}/statistics/rx_packets", Stage::vif(place));
        let text = stage.run(Place::Host, &["cat", &file])?;
        let bad = |what: String, why: io::Error| Error::System { what: format!("read {what}"), why };
        let number = |text: &str| text.trim().parse().map_err(io::Error::other);
        let packets = number(&text).map_err(|why| bad(file, why))?;
        let mut used = 0;
        for tid in threads {
            let file = format!("/proc/{tid}/schedstat");
            let read = fs::read_to_string(&file).and_then(|text| number(text.split(' ').next().unwrap_or_default()));
            used += read.map_err(|why| bad(file, why))?;
        }
        Ok(Passed { packets, used })
    }

    /// What has come since.
    pub fn since(self, before: Passed) -> Passed {
        Passed { packets: self.packets.saturating_sub(before.packets), used: self.used.saturating_sub(before.used) }
    }
}
