//! Thousands of damaged sites: never a panic, always a site that keeps the model's rules or an error at a place that
//! exists. Seeded; a failure prints the text.

use giusto_model::{Interface, Load, Origin, Promise, Site, RUNNING, STOPPED};
use giusto_site::{parse, SiteError};
use rand::{seq::IndexedRandom, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;

const SEED: u64 = 7;
const ROUNDS: usize = 18_000;
const SITES: [&str; 8] = [
    include_str!("../../sites/walk.yaml"),
    include_str!("../../sites/too-much.yaml"),
    include_str!("../../sites/adopted.yaml"),
    include_str!("../../sites/supply.yaml"),
    include_str!("../../sites/flight.yaml"),
    include_str!("../../sites/two-hosts.yaml"),
    include_str!("../../sites/modes.yaml"),
    include_str!("../../sites/critical.yaml"),
];
/// What YAML and the grammar find interesting.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "'",
    "\"",
    "\n",
    "  ",
    "\t",
    "#",
    " #",
    "&a ",
    "*a",
    "!",
    "!!str ",
    "|\n",
    ">\n",
    "%",
    "---\n",
    "...\n",
    "? ",
    "- ",
    "<<: ",
    "~",
    "null",
    "on",
    "\\",
    "\0",
    "\u{feff}",
    "é",
    "0",
    "99999999999999999999",
    "-",
    "5%",
    "ms",
    "/",
    "\r",
];

fn mutate(text: &str, rng: &mut ChaCha8Rng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    match rng.random_range(0..8) {
        0 if !bytes.is_empty() => {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        1 => bytes.truncate(rng.random_range(0..=bytes.len())),
        kind @ 2..=4 => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            let (from, to) = (rng.random_range(0..lines.len()), rng.random_range(0..lines.len()));
            match kind {
                2 => drop(lines.remove(from)),
                3 => lines.insert(to, lines[from]),
                _ => lines.swap(from, to),
            }
            return lines.join("\n");
        }
        5 => {
            let (from, to) = (rng.random_range(0..=bytes.len()), rng.random_range(0..=bytes.len()));
            drop(bytes.drain(from.min(to)..from.max(to).min(from.min(to) + 12)));
        }
        _ => {
            let at = rng.random_range(0..=bytes.len());
            let piece = PIECES.choose(rng).unwrap().repeat(rng.random_range(1..4));
            bytes.splice(at..at, piece.into_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Every rule that `giusto_model` states for a site.
fn keeps_the_rules(site: &Site) {
    for host in &site.hosts {
        assert!(!host.cores.is_empty() && host.cores.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(host.keep_free.as_f64() < 1.0);
    }
    let hosts: BTreeSet<_> = site.hosts.iter().map(|host| &host.name).collect();
    assert!(!hosts.is_empty() && hosts.len() == site.hosts.len());
    assert!(site.services.iter().filter_map(|service| service.on.as_ref()).all(|on| hosts.contains(on)));
    let names: BTreeSet<_> = site.services.iter().map(|service| &service.name).collect();
    assert!(!names.is_empty() && names.len() == site.services.len());
    for service in &site.services {
        let timely = matches!(service.promise, Promise::AsIfAlone | Promise::EveryDeadline { .. });
        assert_eq!(service.tasks.is_empty(), !timely);
        if let Promise::EveryDeadline { vcpus, placed, .. } = &service.promise {
            assert!(*vcpus == 1 || service.origin.has_vcpus());
            assert!(placed.is_empty() || placed.len() == service.tasks.len());
            assert!((0..*vcpus).all(|vcpu| placed.is_empty() || placed.contains(&vcpu)));
            let jobs: u64 = service.tasks.iter().map(|task| u64::from(task.copies)).sum();
            assert!(u64::from(*vcpus) <= jobs);
        }
        if let Promise::Supply(interfaces) = &service.promise {
            let fits = |i: &Interface| !i.budget.is_zero() && i.budget <= i.period;
            assert!(!interfaces.is_empty() && interfaces.iter().all(fits));
        }
        service.tasks.iter().for_each(|task| task.validate().unwrap());
        if let Origin::Start(words) = &service.origin {
            assert!(!words[0].is_empty() && words.iter().all(|word| !word.contains('\0')));
        }
        if let Some(load) = &service.load {
            let sizes = match load {
                Load::Redis { fields, value, .. } => (1..=1000).contains(fields) && (1..=4096).contains(value),
                Load::RedisSort { items, .. } => (1..=1_000_000).contains(items),
                Load::Memcached { value, connections, .. } => {
                    (1..=4096).contains(value) && (1..=1000).contains(connections)
                }
                Load::Echo { value, .. } => (1..=4096).contains(value),
                Load::Http { path, .. } => path.starts_with('/') && !path.contains([' ', '\r', '\n']),
            };
            assert!(load.address().ip().is_loopback() && sizes);
        }
    }
    modes_keep_the_rules(site);
}

fn modes_keep_the_rules(site: &Site) {
    let able: Vec<_> = site.services.iter().filter(|service| service.agent.is_some()).collect();
    assert!(site.services.iter().all(|service| service.agent.is_some() != service.modes.is_empty()));
    let Some(modes) = &site.modes else { return assert!(able.is_empty()) };
    assert!(!modes.changes.listen.is_empty() && !modes.changes.spacing.is_zero());
    let first = modes.modes.first().expect("a mode");
    assert!(able.iter().all(|service| first.locals.iter().any(|local| local.service == service.name)));
    for mode in &modes.modes {
        let members = |all: &[giusto_model::MemberMode]| all.iter().map(|m| m.service.clone()).collect::<Vec<_>>();
        assert_eq!(members(&mode.locals), members(&first.locals));
        for local in &mode.locals {
            let service = site.services.iter().find(|service| service.name == local.service).expect("a service");
            let known = service.modes.iter().any(|own| own.name == local.local);
            let leftovers = matches!(service.promise, Promise::Leftovers { .. });
            assert!(known || local.local == STOPPED || (leftovers && local.local == RUNNING), "{local:?}");
        }
    }
}

fn place_exists(error: &SiteError, text: &str) {
    let SiteError::Text(at) = error else { panic!("{error}") };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line = text.split('\n').nth(at.line - 1).unwrap_or_else(|| panic!("no such line: {error}"));
    assert!((1..=line.chars().count() + 1).contains(&at.column), "no such column: {error}");
    assert_eq!(error.to_string().lines().count(), 4, "{error}");
}

#[test]
fn damaged_sites_never_panic_and_every_error_has_a_place_that_exists() {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut text = SITES.choose(&mut rng).unwrap().to_string();
        for _ in 0..rng.random_range(1..=3) {
            text = mutate(&text, &mut rng);
        }
        let outcome = catch_unwind(|| match parse("site.yaml", &text) {
            Ok(site) => {
                keeps_the_rules(&site);
                "accepted".to_string()
            }
            Err(error) => {
                place_exists(&error, &text);
                let SiteError::Text(at) = &error else { unreachable!() };
                at.found.split('\'').step_by(2).collect::<Vec<_>>().join("…")
            }
        });
        let outcome = outcome.unwrap_or_else(|_| panic!("seed {SEED}, round {round}:\n{text}"));
        *seen.entry(outcome).or_default() += 1;
    }
    // The interesting cases occurred.
    let count = |part: &str| seen.iter().filter(|(text, _)| text.contains(part)).map(|(_, n)| n).sum::<usize>();
    for part in ["accepted", "not YAML", "is not a key", "is written twice", "a value is missing", "needs", "invisible"]
    {
        assert!(count(part) >= 20, "{part}: only {}\n{seen:#?}", count(part));
    }
    assert!(seen.len() >= 40, "{} kinds of outcome\n{seen:#?}", seen.len());
}

#[test]
fn large_and_deep_texts_are_refused_without_exhausting_stack_or_patience() {
    let size = giusto_site::LARGEST_FILE;
    for piece in [
        "[", "{", "- ", "? ", "a: {", "'", "\"", "\n", "# ", " ", "!", "&a ", "%", "|\n", "\\", ",", "-", "a,", "[],",
        "a\n", "é",
    ] {
        for head in ["", "giusto: 1\nhosts: ", "giusto: 1\nhosts: ["] {
            let text = format!("{head}{}", piece.repeat((size - head.len()) / piece.len()));
            place_exists(&parse("site.yaml", &text).unwrap_err(), &text);
        }
    }
}
