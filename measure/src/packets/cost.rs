//! What a packet costs: processor time of the threads that process an interface's packets.

use super::{Place, Stage};
use crate::Error;
use std::{fs, io};

/// What has passed a vif of the stage, and what its threads have used, since both are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets from the guest or the remote machine that the host has taken.
    pub packets: u64,
    /// Processor time in ns.
    pub used: u64,
}

impl Passed {
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
