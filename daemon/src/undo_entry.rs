//! What this program changes on a host, whichever room does it: one journal holds all of it.

use giusto_compute::Report;
use serde::{Deserialize, Serialize};

/// A change, as its undoing. On disk it is what its room writes: the names of its variants tell the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Change {
    /// To threads and cgroups.
    Compute(giusto_compute::Undo),
    /// To interfaces and the threads that process their packets.
    Network(giusto_network::Undo),
}

/// Undoes all, packets first: what `compute` undoes last ends services, and their interfaces with them.
pub(crate) fn undo(all: &[Change]) -> Report {
    let (mut compute, mut network) = (Vec::new(), Vec::new());
    for change in all {
        match change {
            Change::Compute(undo) => compute.push(undo.clone()),
            Change::Network(undo) => network.push(undo.clone()),
        }
    }
    let packets = giusto_network::undo(&network);
    let mut report = giusto_compute::undo(&compute);
    report.undone += packets.undone;
    report.failed.extend(packets.failed);
    report
}

/// Which have nothing to undo, now and later ([`giusto_compute::spent`]); of packets, none is forgotten.
pub(crate) fn spent(all: &[Change]) -> Vec<bool> {
    let compute = all.iter().filter_map(|change| match change {
        Change::Compute(undo) => Some(undo.clone()),
        Change::Network(_) => None,
    });
    let mut spent = giusto_compute::spent(&compute.collect::<Vec<_>>()).into_iter();
    all.iter().map(|change| matches!(change, Change::Compute(_)) && spent.next() == Some(true)).collect()
}

/// What `compute` records.
pub(crate) fn of_compute(undo: &giusto_compute::Undo) -> Change {
    Change::Compute(undo.clone())
}

/// The core that a change takes offline.
pub(crate) fn parks(change: &Change) -> Option<u32> {
    match change {
        Change::Compute(undo) => undo.parks(),
        Change::Network(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_compute::Undo;

    /// Lines as earlier releases wrote them, and of both rooms.
    #[test]
    fn each_line_is_read_by_the_room_that_wrote_it() {
        let link = giusto_network::Link { name: "vnet0".into(), index: 2, namespace: 7 };
        for (line, change) in [
            (r#"{"folder":"/a"}"#, Change::Compute(Undo::Folder("/a".into()))),
            (
                r#"{"file":{"path":"/a","value":"1"}}"#,
                Change::Compute(Undo::File { path: "/a".into(), value: "1".into() }),
            ),
            (
                r#"{"contained":{"folder":"/a","limits":[],"end_within_ns":8000000000}}"#,
                Change::Compute(Undo::Contained { folder: "/a".into(), limits: vec![], end_within_ns: 8_000_000_000 }),
            ),
            (
                r#"{"clsact":{"name":"vnet0","index":2,"namespace":7}}"#,
                Change::Network(giusto_network::Undo::Clsact(link.clone())),
            ),
            (
                r#"{"interface-file":{"link":{"name":"vnet0","index":2,"namespace":7},"file":"threaded","value":"0"}}"#,
                Change::Network(giusto_network::Undo::InterfaceFile {
                    link,
                    file: "threaded".into(),
                    value: "0".into(),
                }),
            ),
        ] {
            assert_eq!(serde_json::from_str::<Change>(line).unwrap(), change);
            assert_eq!(serde_json::to_string(&change).unwrap(), line);
        }
        // Written before a service could say how long its end may take.
        assert_eq!(
            serde_json::from_str::<Change>(r#"{"contained":{"folder":"/a","limits":[]}}"#).unwrap(),
            Change::Compute(Undo::Contained { folder: "/a".into(), limits: vec![], end_within_ns: 2_000_000_000 })
        );
        assert!(serde_json::from_str::<Change>(r#"{"of another release":1}"#).is_err());
    }
}
