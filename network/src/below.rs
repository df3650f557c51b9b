//! Which interfaces process the packets of one that has no thread of its own, in words.

use crate::route::{Asking, Seen};
use crate::Error;

/// So many names are told.
const TOLD: usize = 8;

/// What to name instead of it.
pub(crate) fn instead(route: &Asking, one: &Seen, is_vif: bool) -> Result<String, Error> {
    let all = route.all().map_err(|source| Error::kernel(format!("look below {}", one.name), source))?;
    let mut found = Vec::new();
    collect(&all, one, &mut vec![one.index], &mut found);
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(advice(one, &found, is_vif))
}

/// Those at the bottom, each once.
fn collect<'a>(all: &'a [Seen], one: &Seen, looked: &mut Vec<u32>, found: &mut Vec<&'a Seen>) {
    let is_below = |other: &&Seen| match one.kind.as_deref() {
        Some("bridge" | "bond" | "team") => other.port_of == Some(one.index),
        _ => one.link == Some((other.index, None)),
    };
    for next in all.iter().filter(is_below) {
        if looked.contains(&next.index) {
            continue;
        }
        looked.push(next.index);
        match next.kind.as_deref() {
            None | Some("veth" | "tun") => found.push(next),
            Some(_) => collect(all, next, looked, found),
        }
    }
}

fn advice(one: &Seen, found: &[&Seen], is_vif: bool) -> String {
    const PAIR: &str = "give the service a veth pair or a tap";
    let away = one.link.is_some_and(|(_, namespace)| namespace.is_some());
    match (found, one.kind.as_deref()) {
        ([], Some("netkit")) => {
            format!("its packets are processed in softirqs where its owner sends, in no thread; {PAIR} instead")
        }
        ([], _) if away => {
            "its packets are processed with those of an interface in another network namespace; name that one there"
                .into()
        }
        ([], _) if is_vif => format!("its packets are processed in no thread of their own; {PAIR} instead"),
        ([], _) => {
            "it has no packet processing of its own; name the hardware interfaces over which its packets come".into()
        }
        (found, _) => {
            let names = listed(found);
            let process = format!("what arrives there is processed by the threads of {names}");
            match is_vif && found.iter().all(|below| below.kind.is_none()) {
                true => format!("{process}: list that under 'uplinks', and {PAIR} for a class of its own"),
                false => format!("{process}: name {} instead", if found.len() > 1 { "these" } else { &names }),
            }
        }
    }
}

fn listed(found: &[&Seen]) -> String {
    let names: Vec<String> = found.iter().take(TOLD).map(|one| format!("'{}'", one.name)).collect();
    match (names.as_slice(), found.len()) {
        ([one], _) => one.clone(),
        (all, more @ TOLD..) if more > TOLD => format!("{} and {} more", all.join(", "), more - TOLD),
        ([most @ .., last], _) => format!("{} and {last}", most.join(", ")),
        ([], _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(index: u32, name: &str, kind: Option<&str>, link: Option<u32>, port_of: Option<u32>) -> Seen {
        let (name, kind) = (name.into(), kind.map(String::from));
        Seen { index, name, kind, link: link.map(|link| (link, None)), port_of, ..Seen::default() }
    }

    #[test]
    fn the_interfaces_at_the_bottom_are_named() {
        let mut all = vec![
            seen(1, "eth0", None, None, Some(3)),
            seen(2, "eth1", None, None, Some(3)),
            seen(3, "bond0", Some("bond"), None, Some(5)),
            seen(4, "bond0.7", Some("vlan"), Some(3), None),
            seen(5, "br0", Some("bridge"), None, None),
            seen(6, "v0", Some("veth"), Some(9), Some(5)),
            seen(7, "v0.7", Some("vlan"), Some(6), None),
            seen(8, "nk0", Some("netkit"), Some(8), None),
            seen(9, "d0", Some("dummy"), None, None),
            Seen { link: Some((2, Some(1))), ..seen(10, "m0", Some("macvlan"), None, None) },
            seen(11, "loop", Some("vlan"), Some(12), None),
            seen(12, "pool", Some("vlan"), Some(11), None),
        ];
        let says = |all: &[Seen], name: &str, is_vif: bool| {
            let one = all.iter().find(|one| one.name == name).unwrap();
            let mut found = Vec::new();
            collect(all, one, &mut vec![one.index], &mut found);
            found.sort_by(|a, b| a.name.cmp(&b.name));
            advice(one, &found, is_vif)
        };
        assert!(says(&all, "v0.7", true).ends_with("by the threads of 'v0': name 'v0' instead"));
        assert!(says(&all, "bond0.7", false).ends_with("by the threads of 'eth0' and 'eth1': name these instead"));
        assert!(says(&all, "bond0.7", true).contains("list that under 'uplinks', and give the service a veth pair"));
        assert!(says(&all, "br0", true).ends_with("by the threads of 'eth0', 'eth1' and 'v0': name these instead"));
        assert!(says(&all, "nk0", true).ends_with("in no thread; give the service a veth pair or a tap instead"));
        assert!(says(&all, "d0", true).contains("in no thread of their own; give the service"));
        assert!(says(&all, "d0", false).contains("name the hardware interfaces"));
        assert!(says(&all, "m0", true).contains("in another network namespace"));
        assert!(says(&all, "loop", true).contains("in no thread of their own"), "no loop");
        all.extend((20..40).map(|index| seen(index, &format!("v{index}"), Some("veth"), None, Some(5))));
        assert!(says(&all, "br0", true).contains("and 15 more: name these"), "{}", says(&all, "br0", true));
    }
}
