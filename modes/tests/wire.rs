//! Only what the owner of the key said in this session is taken, once and in order; and no bytes do any harm.

use giusto_modes::wire::{Broken, Key, Session, Taken, MOST, REFUSED_MOST};
use giusto_modes::{Answered, FromAgent, ToAgent};
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

type Manager = Session<ToAgent, FromAgent>;
type Agent = Session<FromAgent, ToAgent>;

const KEYS: [(&str, Key); 2] = [("vm-a", [7; 32]), ("vm-b", [8; 32])];

fn key(name: &str) -> Option<Key> {
    KEYS.iter().find(|known| known.0 == name).map(|known| known.1)
}

fn no_key(_: &str) -> Option<Key> {
    None
}

/// Both ends of an open session of a member, and all that they said so far.
fn open(name: &str, key_of_agent: Key, nonces: [u8; 2]) -> Result<(Agent, Manager, Vec<u8>, Vec<u8>), Broken> {
    let (mut said, mut heard, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    let mut agent = Agent::agent(name, key_of_agent, [nonces[0]; 16], &mut said);
    let mut manager = Manager::manager([nonces[1]; 16]);
    manager.feed(&said, &key, &mut heard, &mut taken)?;
    let first = said.len();
    agent.feed(&heard, &no_key, &mut said, &mut Vec::new())?;
    manager.feed(&said[first..], &key, &mut Vec::new(), &mut taken)?;
    assert_eq!(taken, [Taken::Open { name: name.into() }]);
    Ok((agent, manager, said, heard))
}

fn from_agent() -> impl Strategy<Value = FromAgent> {
    let local = prop_oneof![Just(None), (0..u16::MAX).prop_map(Some)];
    prop_oneof![
        (local, any::<u64>(), any::<u64>()).prop_map(|(local, change, digest)| FromAgent::Hello {
            local,
            change,
            digest
        }),
        any::<(u64, u16, u64, u64)>().prop_map(|(change, local, received_ns, switched_ns)| FromAgent::Done {
            change,
            local,
            received_ns,
            switched_ns
        }),
        any::<u64>().prop_map(|change| FromAgent::Failed { change }),
        (any::<u32>(), "[a-zé]{0,120}").prop_map(|(request, mode)| FromAgent::Ask { request, mode }),
    ]
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while bytes.len() >= 2 {
        let end = 2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        all.push(bytes[..end].to_vec());
        bytes = &bytes[end..];
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_one_end_says_the_other_takes_however_it_is_cut(says in prop::collection::vec(from_agent(), 0..12), cuts in prop::collection::vec(1usize..40, 1..60)) {
        let (mut agent, mut manager, ..) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
        let mut bytes = Vec::new();
        says.iter().for_each(|message| assert!(agent.seal(message, &mut bytes)));
        let (mut taken, mut rest) = (Vec::new(), bytes.as_slice());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(*cut));
            manager.feed(now, &key, &mut Vec::new(), &mut taken).unwrap();
            rest = later;
        }
        prop_assert_eq!(taken, says.into_iter().map(Taken::Message).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000), opened in any::<bool>()) {
        let mut taken = Vec::new();
        let mut out = Vec::new();
        let mut manager = if opened { open("vm-a", KEYS[0].1, [1, 2]).unwrap().1 } else { Manager::manager([2; 16]) };
        let first = manager.feed(&bytes, &key, &mut out, &mut taken);
        // A session that was closed stays closed.
        if let Err(why) = first {
            prop_assert_eq!(manager.feed(&bytes, &key, &mut out, &mut taken), Err(why));
        }
        prop_assert!(taken.is_empty());
        let mut agent = Agent::agent("vm-a", KEYS[0].1, [1; 16], &mut Vec::new());
        let mut taken = Vec::new();
        let _ = agent.feed(&bytes, &no_key, &mut out, &mut taken);
        let sealed = agent.seal(&FromAgent::Failed { change: 1 }, &mut out);
        prop_assert!(taken.is_empty() && !sealed);
    }

    #[test]
    fn a_frame_that_was_touched_is_not_taken_and_the_next_one_is(says in from_agent(), place in any::<prop::sample::Index>(), with in 1u8..) {
        let (mut agent, mut manager, ..) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
        let mut bytes = Vec::new();
        agent.seal(&says, &mut bytes);
        let good = bytes.clone();
        let at = 2 + place.index(bytes.len() - 2);
        bytes[at] ^= with;
        let mut taken = Vec::new();
        manager.feed(&bytes, &key, &mut Vec::new(), &mut taken).unwrap();
        prop_assert!(taken.is_empty() && manager.refused() == 1);
        manager.feed(&good, &key, &mut Vec::new(), &mut taken).unwrap();
        prop_assert_eq!(taken, [Taken::Message(says)]);
    }
}

/// Frames that an attacker on the wire could send into a session of vm-a, and what each is.
fn strange() -> Vec<(&'static str, Vec<u8>)> {
    let done = FromAgent::Done { change: 3, local: 1, received_ns: 5, switched_ns: 6 };
    let sealed = |agent: &mut Agent| {
        let mut bytes = Vec::new();
        agent.seal(&done, &mut bytes);
        bytes
    };
    let (mut earlier, mut sessions_manager, said, heard) = open("vm-a", KEYS[0].1, [1, 9]).unwrap();
    let (mut other, ..) = open("vm-b", KEYS[1].1, [1, 2]).unwrap();
    let mut own = Vec::new();
    sessions_manager.seal(&ToAgent::Command { change: 3, local: 1 }, &mut own);
    let mut all =
        vec![("earlier session", sealed(&mut earlier)), ("other member", sealed(&mut other)), ("manager's own", own)];
    all.extend(frames(&said).into_iter().map(|frame| ("handshake", frame)));
    all.extend(frames(&heard).into_iter().map(|frame| ("handshake", frame)));
    all
}

#[test]
fn what_others_said_or_this_session_said_before_does_nothing() {
    let mut counted = std::collections::BTreeMap::new();
    for (what, bytes) in strange() {
        let (mut agent, mut manager, ..) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
        let mut taken = Vec::new();
        manager.feed(&bytes, &key, &mut Vec::new(), &mut taken).unwrap();
        assert!(taken.is_empty() && manager.refused() == 1, "{what}");
        let mut next = Vec::new();
        agent.seal(&FromAgent::Failed { change: 4 }, &mut next);
        manager.feed(&next, &key, &mut Vec::new(), &mut taken).unwrap();
        assert_eq!(taken.len(), 1, "{what}");
        *counted.entry(what).or_insert(0) += 1;
    }
    let (mut agent, mut manager, ..) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
    let mut one = |change| {
        let mut bytes = Vec::new();
        agent.seal(&FromAgent::Failed { change }, &mut bytes);
        bytes
    };
    let (first, second, third) = (one(1), one(2), one(3));
    // Out of order, in order, again, in order, left out.
    let mut taken = Vec::new();
    for bytes in [&second, &first, &first, &second, &first, &second, &third] {
        manager.feed(bytes, &key, &mut Vec::new(), &mut taken).unwrap();
    }
    assert_eq!(taken, [1, 2, 3].map(|change| Taken::Message(FromAgent::Failed { change })));
    assert_eq!(manager.refused(), 4);
    // The agent's end does not take its own words either.
    let (mut agent, ..) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
    let mut taken = Vec::new();
    agent.feed(&first, &no_key, &mut Vec::new(), &mut taken).unwrap();
    assert!(taken.is_empty() && agent.refused() == 1);
    assert_eq!(counted.len(), 4, "{counted:?}");
}

#[test]
fn a_flood_of_forged_frames_ends_the_session() {
    let (_, mut manager, ..) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
    let frame = [[0, 40].to_vec(), vec![1; 40]].concat();
    let mut feed = || manager.feed(&frame, &key, &mut Vec::new(), &mut Vec::new());
    assert!((0..REFUSED_MOST).all(|_| feed().is_ok()));
    assert_eq!(feed(), Err(Broken::Forged));
}

#[test]
fn without_the_key_no_session_opens() {
    assert_eq!(open("vm-a", KEYS[1].1, [1, 2]).err(), Some(Broken::Key), "vm-b speaks for vm-a");
    assert_eq!(open("vm-c", KEYS[1].1, [1, 2]).err(), Some(Broken::Unknown));
    // The proof of another session, with the same nonce of the agent.
    let (_, _, said, _) = open("vm-a", KEYS[0].1, [1, 9]).unwrap();
    let mut manager = Manager::manager([2; 16]);
    assert_eq!(manager.feed(&said, &key, &mut Vec::new(), &mut Vec::new()), Err(Broken::Key));
    // What the manager said, sent back to it as a proof.
    let (_, _, said, heard) = open("vm-a", KEYS[0].1, [1, 2]).unwrap();
    let mut proof = frames(&heard)[0].clone();
    proof.splice(4..20, []);
    proof[..3].copy_from_slice(&[0, 34, 0x12]);
    let mut manager = Manager::manager([2; 16]);
    manager.feed(&frames(&said)[0], &key, &mut Vec::new(), &mut Vec::new()).unwrap();
    let mut taken = Vec::new();
    assert_eq!(manager.feed(&proof, &key, &mut Vec::new(), &mut taken), Err(Broken::Key));
    assert!(taken.is_empty() && !manager.seal(&ToAgent::Command { change: 1, local: 1 }, &mut Vec::new()));
    // A manager without the key.
    let mut agent = Agent::agent("vm-a", KEYS[0].1, [1; 16], &mut Vec::new());
    let mut challenge = frames(&heard)[0].clone();
    *challenge.last_mut().unwrap() ^= 1;
    assert_eq!(agent.feed(&challenge, &no_key, &mut Vec::new(), &mut Vec::new()), Err(Broken::Key));
    // No frame, and one that is too long.
    for (length, bytes) in [(0, [0, 0, 1]), (MOST + 1, [1, 65, 1])] {
        let broken = Manager::manager([2; 16]).feed(&bytes, &key, &mut Vec::new(), &mut Vec::new());
        assert_eq!(broken, Err(Broken::Length(length)));
    }
}

/// Every kind of message in a session, as hexadecimal lines: who says it, and its bytes.
fn spoken() -> String {
    let (mut agent, mut manager, said, heard) = open("vm-a", KEYS[0].1, [0x11, 0x22]).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut lines = Vec::new();
    let (said, heard) = (frames(&said), frames(&heard));
    lines.push(format!("agent {}", hex(&said[0])));
    lines.push(format!("manager {}", hex(&heard[0])));
    lines.push(format!("agent {}", hex(&said[1])));
    for message in [
        FromAgent::Hello { local: Some(2), change: 5, digest: 0x0123_4567_89ab_cdef },
        FromAgent::Hello { local: None, change: 5, digest: 1 },
        FromAgent::Done { change: 6, local: 3, received_ns: 1_000, switched_ns: 2_000 },
        FromAgent::Failed { change: 7 },
        FromAgent::Ask { request: 9, mode: "notfall-é".into() },
    ] {
        let mut bytes = Vec::new();
        agent.seal(&message, &mut bytes);
        lines.push(format!("agent {}", hex(&bytes)));
    }
    for message in
        [ToAgent::Command { change: 6, local: 3 }, ToAgent::Answer { request: 9, answered: Answered::RolledBack }]
    {
        let mut bytes = Vec::new();
        manager.seal(&message, &mut bytes);
        lines.push(format!("manager {}", hex(&bytes)));
    }
    lines.join("\n") + "\n"
}

#[test]
fn another_implementation_says_the_same_bytes() {
    let vector = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/goldens/modes-session.txt");
    let golden = std::fs::read_to_string(vector).expect("formats/goldens/modes-session.txt");
    assert_eq!(spoken(), golden);
    // tests/session.py is written from formats/modes.md alone, with Python's own HMAC.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session.py");
    let python = Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut python = python.expect("python3 is one of what make setup installs");
    python.stdin.take().unwrap().write_all(golden.as_bytes()).unwrap();
    let out = python.wait_with_output().unwrap();
    assert!(out.status.success() && String::from_utf8_lossy(&out.stdout) == "10 frames\n", "{out:?}");
}
