//! `tests/transcripts/*.txt`: what the manager is told, a line, and after `----` what it wants done.
//! `GIUSTO_REWRITE=1` writes what it does now; review the diff.
//!
//! A file begins with the world: `place CORES`, `vm NAME PLACE.. | LOCAL B/P.. | LOCAL ..` (in ms; a local mode
//! without servers has none; `host` instead of `vm`: without an agent), `mode NAME LOCAL..` or `urgent NAME LOCAL..`,
//! `policy`, `requests`, `on-timeout`, `transition`. Time-out 2 ms, spacing 5 ms, boost 400 us. Admission: bandwidths
//! add up to the cores at most.
//!
//! Then, with times in us: `TIME request MODE | done VM CHANGE | failed VM CHANGE | hello VM LOCAL CHANGE | lost VM |
//! carried VM CHANGE | set N in-force TIME | refuse N | tick`.

use giusto_model::{Bandwidth, Duration, Instant, Server, ServerKind};
use giusto_modes::*;
use std::fmt::Write;
use std::path::Path;

struct World {
    places: Vec<Place>,
    members: Vec<Member>,
    modes: Vec<Mode>,
    settings: Settings,
}

fn world(lines: &[&str]) -> World {
    let ms = Duration::from_ms;
    let settings = Settings {
        policy: Policy::Sequential,
        requests: Requests::Reject,
        on_timeout: OnTimeout::RollBack,
        transition: Transition::Fast,
        timeout: ms(2),
        spacing: ms(5),
        boost: Duration::from_us(400),
    };
    let mut world = World { places: Vec::new(), members: Vec::new(), modes: Vec::new(), settings };
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "place" => world.places.push(Place { name: rest.into(), boosts: rest.parse().unwrap() }),
            "vm" | "host" => {
                let mut parts = rest.split(" | ");
                let mut head = parts.next().unwrap().split(' ');
                let name = head.next().unwrap().to_string();
                let local = |text: &str| {
                    let mut words = text.split(' ');
                    let name = words.next().unwrap().to_string();
                    let server = |word: &str| {
                        let (budget, period) = word.split_once('/').unwrap();
                        let [budget, period] = [budget, period].map(|n| ms(n.parse().unwrap()));
                        Server { kind: ServerKind::Deferrable, budget, period }
                    };
                    Local { name, utilization: Bandwidth::ZERO, servers: words.map(server).collect() }
                };
                let places = head.map(|place| place.parse().unwrap()).collect();
                let agent = word == "vm";
                world.members.push(Member {
                    name,
                    agent,
                    parts: places,
                    locals: parts.map(local).collect(),
                    asks: vec![],
                });
            }
            "mode" | "urgent" => {
                let mut words = rest.split(' ');
                let name = words.next().unwrap().to_string();
                let locals = words.zip(&world.members).map(|(word, member)| {
                    member.locals.iter().position(|local| local.name == word).expect("a local mode of this member")
                });
                let locals = locals.collect();
                world.modes.push(Mode { name, locals, urgent: word == "urgent" });
            }
            "policy" => {
                world.settings.policy = match rest {
                    "batch" => Policy::Batch,
                    "greedy" => Policy::Greedy,
                    "boost" => Policy::Boost,
                    _ => Policy::Sequential,
                }
            }
            "requests" => {
                world.settings.requests = match rest {
                    "queue" => Requests::Queue,
                    "preempt" => Requests::Preempt,
                    _ => Requests::Reject,
                }
            }
            "on-timeout" => {
                world.settings.on_timeout = if rest == "degrade" { OnTimeout::Degrade } else { OnTimeout::RollBack }
            }
            "transition" => {
                world.settings.transition = if rest == "guaranteed" { Transition::Guaranteed } else { Transition::Fast }
            }
            other => panic!("'{other}' in the world"),
        }
    }
    world
}

fn fits(cores: u64, servers: &[Server]) -> bool {
    let sum = servers.iter().try_fold(Bandwidth::ZERO, |all, server| all.checked_add(server.bandwidth()));
    sum.is_some_and(|sum| sum <= Bandwidth::new(cores, 1).unwrap())
}

fn play(text: &str) -> String {
    let (head, rest) = text.split_once("\n\n").expect("a world, an empty line, events");
    let World { places, members, modes, settings } =
        world(&head.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>());
    let table = Table::new(places.clone(), members, modes).unwrap();
    let admission = move |place: usize, servers: &[Server]| fits(places[place].name.parse().unwrap(), servers);
    let start = table.modes()[0].locals.clone();
    let mut manager = Manager::new(table.clone(), settings, admission, &start).unwrap();
    for (member, row) in table.members().iter().enumerate().filter(|(_, row)| row.agent) {
        let message = FromAgent::Hello { local: Some(start[member] as u16), change: 0, digest: row.digest() };
        manager.handle(Instant::ZERO, Event::Message { member, message }, &mut Vec::new());
    }
    let mut text = format!("{head}\n\n");
    for block in rest.split("\n\n") {
        let told: Vec<&str> = block.lines().take_while(|line| *line != "----").collect();
        let mut out = Vec::new();
        for line in &told {
            if let Some((at, event)) = event(&table, line) {
                manager.handle(at, event, &mut out);
            }
        }
        writeln!(text, "{}\n----", told.join("\n")).unwrap();
        out.iter().for_each(|action| writeln!(text, "{}", said(&table, action)).unwrap());
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}

fn us(text: &str) -> Instant {
    Instant::from_ns(text.parse::<u64>().unwrap() * 1000)
}

fn event(table: &Table, line: &str) -> Option<(Instant, Event)> {
    if line.starts_with('#') {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |nth: usize| words[nth].parse::<u64>().unwrap();
    let member = || table.member(words[2]).unwrap();
    let local = |nth: usize| {
        let locals = &table.members()[member()].locals;
        locals.iter().position(|local| local.name == words[nth]).map(|local| local as u16)
    };
    let event = match words[1] {
        "request" => {
            Event::Request { request: us(words[0]).ns() / 1000, target: Target::Mode(table.mode(words[2]).unwrap()) }
        }
        "done" => {
            let (change, local) = (number(3), local(4).unwrap());
            let message = FromAgent::Done { change, local, received_ns: 0, switched_ns: 0 };
            Event::Message { member: member(), message }
        }
        "failed" => Event::Message { member: member(), message: FromAgent::Failed { change: number(3) } },
        "hello" => {
            let digest = table.members()[member()].digest();
            let message = FromAgent::Hello { local: local(3), change: number(4), digest };
            Event::Message { member: member(), message }
        }
        "lost" => Event::Lost { member: member() },
        "carried" => Event::Carried { member: member(), change: number(3), done: true },
        "set" => Event::SetDone { set: number(2), in_force: us(words[4]) },
        "refuse" => Event::SetFailed { set: number(2) },
        "tick" => Event::Tick,
        other => panic!("'{other}' in {line}"),
    };
    Some((us(words[0]), event))
}

fn said(table: &Table, action: &Action) -> String {
    let name = |member: &usize| table.members()[*member].name.clone();
    let names = |members: &[usize]| members.iter().map(name).collect::<Vec<_>>().join(" ");
    let local = |member: &usize, local: usize| table.members()[*member].locals[local].name.clone();
    let us = |at: &Instant| at.ns() / 1000;
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::Done { took, settled } => format!("done in {} us, settled at {}", took.ns() / 1000, us(settled)),
        Outcome::Degraded { silent, .. } => format!("degraded, silent: {}", names(silent)),
        Outcome::RolledBack { silent } => format!("rolled back, silent: {}", names(silent)),
        Outcome::Stuck { members } => format!("stuck: {}", names(members)),
        Outcome::Refused(Refusal::NoOrder { place, members }) => format!("no order: place {place}, {}", names(members)),
        other => format!("{other:?}"),
    };
    let mode = |locals: &[usize]| {
        locals.iter().enumerate().map(|(member, of)| local(&member, *of)).collect::<Vec<_>>().join(" ")
    };
    match action {
        Action::Send { member, message: ToAgent::Command { change, local: to } } => {
            format!("tell {}: {} ({change})", name(member), local(member, usize::from(*to)))
        }
        Action::Send { member, message } => format!("tell {}: {message:?}", name(member)),
        Action::Set { set, member, parts, local: to, when } => {
            let when = match when {
                When::Now => "now".into(),
                When::Replenishment(at) => format!("at a replenishment, not before {}", us(at)),
            };
            let parts = parts.iter().map(|part| part.to_string()).collect::<Vec<_>>().join(",");
            format!("set {set}: {}.{parts} as in {}, {when}", name(member), local(member, *to))
        }
        Action::Boost { member, until } => format!("boost {} until {}", name(member), us(until)),
        Action::EndBoost { member } => format!("end the boost of {}", name(member)),
        Action::Carry { member, change, local: to } => {
            format!("carry {}: {} ({change})", name(member), local(member, *to))
        }
        Action::Wake(at) => format!("wake at {}", us(at)),
        Action::Keep(kept) => {
            let way = match (kept.open, kept.back) {
                (true, false) => "on the way",
                (true, true) => "on the way back",
                _ => "settled",
            };
            let unsound =
                if kept.unsound.is_empty() { String::new() } else { format!(", unsound: {}", names(&kept.unsound)) };
            format!("keep {}: {} -> {}, {way}{unsound}", kept.change, mode(&kept.from), mode(&kept.to))
        }
        Action::Ended { outcome: how, .. } => format!("ended: {}", outcome(how)),
        Action::Answer { request, outcome: how } => format!("answer {request}: {}", outcome(how)),
        Action::Record(step) => format!("record {}", name(&step.member)),
    }
}

#[test]
fn what_is_told_leads_to_what_is_done() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "transcripts are there");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let now = play(&text);
        if std::env::var_os("GIUSTO_REWRITE").is_some() {
            std::fs::write(&file, now).unwrap();
            continue;
        }
        assert!(now == text, "{}: expected\n{text}\nbut it is\n{now}", file.display());
    }
}
