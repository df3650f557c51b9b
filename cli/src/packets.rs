//! `giusto measure packets` and `giusto analyze packets`.

use crate::args::{PacketsArgs, ProcessingArgs};
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_answers::packets::Question;
use giusto_measure::packets::{flooded, Flow, Passed, Place, Stage};
use giusto_model::{Bucket, Duration, NetworkPlan, PacketClass, PacketUnit, Rate, Tokens, Uplink, UplinkPlan, VifPlan};
use giusto_network::Network;
use serde_json::json;
use std::process::ExitCode;

/// Most packets of one interface in a row, in every kernel known.
const POLL: u32 = 64;

/// Makes a host of network namespaces, floods it, and says what a packet costs.
pub(crate) fn packets(args: &PacketsArgs) -> Result<ExitCode, Failure> {
    let cores = giusto_compute::sched::affinity(0).map_err(Failure::running)?;
    let known = cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    if !cores.contains(&args.core) {
        return Err(Failure::input(format!("--core {}: expected a core that giusto may use: {known}", args.core)));
    }
    let Some(&other) = cores.iter().find(|&&core| core != args.core) else {
        return Err(Failure::lacks(format!("a second core is missing: a guest sends there; giusto may use {known}")));
    };
    let stage = Stage::new(1)?;
    let applied = stage.inside(Place::Host, || Network::apply(&plan(args.core)?, &mut Vec::new()).map_err(failed))?;
    let network = applied?;
    let threads: Vec<u32> =
        network.status().into_iter().filter(|link| link.service.is_some()).flat_map(|link| link.threads).collect();
    let found = flooded(
        &stage,
        Flow { from: Place::Guest(0), to: Place::Remote, rate: None, core: other },
        &threads,
        args.length,
    )?;
    if found.packets < u64::from(POLL) {
        return Err(Failure::running(format!("only {} packets passed; measure for longer with --for", found.packets)));
    }
    let rate = (found.a_second() / 1e3).floor() as u64;
    let poll = Duration::from_ns(found.used * u64::from(POLL) / found.packets);
    if args.json {
        let capacity = format!("{}/s", rate * 1000);
        return json(&json!({"core": args.core, "packets": found.packets, "used_ns": found.used,
            "packet_ns": found.used / found.packets, "capacity": capacity, "poll": POLL, "poll_ns": poll}));
    }
    describe(args.core, found, rate, poll)?;
    Ok(ExitCode::SUCCESS)
}

/// `giusto analyze packets`
pub(crate) fn bounds(args: &ProcessingArgs) -> Result<ExitCode, Failure> {
    let ProcessingArgs { capacity, poll, latency, .. } = *args;
    let answer = Question { levels: args.flow.clone(), capacity, poll, latency }.answer()?;
    if args.json {
        return json(&answer);
    }
    let mut rows = vec![["flow", "within"].map(String::from).to_vec()];
    rows.extend(answer.flows.iter().map(|flow| vec![flow.flow.clone(), format!("{:.3}", flow.within_ns)]));
    print(&table(&rows, 1))?;
    say!("from the highest priority down; the threads run for {:.3} of any second at most", answer.busy_ns);
    Ok(ExitCode::SUCCESS)
}

fn describe(core: u32, found: Passed, rate: u64, poll: Duration) -> Result<(), Failure> {
    let us = found.used as f64 / found.packets as f64 / 1e3;
    say!("core {core} processes {rate}k packets/s: {us:.2} us each, from a guest over a bridge to an uplink ({} packets)", found.packets);
    say!("{POLL} in a row, which nothing interrupts, take {:.3} ms: the floor of every bound", poll.ns() as f64 / 1e6);
    say!("in the site file:  network: {{cores: {core}, capacity: {rate}k/s, ...}}");
    say!("a bridge with rules, or another driver, takes longer: lower it by what yours adds");
    Ok(())
}

fn failed(error: giusto_network::Error) -> Failure {
    Failure::from(giusto_daemon::Error::from(error))
}

/// The guest on the core; of what it sends nothing is limited.
fn plan(core: u32) -> Result<NetworkPlan, Failure> {
    let rate = Rate::of(1000, Duration::from_secs(1)).ok_or_else(|| Failure::running("a second is no time"))?;
    let uplink = Uplink { name: Stage::vif(Place::Remote), bucket: Bucket { rate, depth: Tokens::whole(1) } };
    let vif = VifPlan {
        name: Stage::vif(Place::Guest(0)),
        service: "guest".into(),
        class: PacketClass::Low,
        core,
        priority: None,
        bucket: None,
        received: None,
        promise: vec![],
        bound: None,
        reasons: vec![],
    };
    Ok(NetworkPlan {
        on: "measured".into(),
        cores: vec![core],
        capacity: rate,
        poll: POLL,
        count: PacketUnit::Skb,
        uplinks: vec![UplinkPlan { uplink, core, priority: 90 }],
        vifs: vec![vif],
        reasons: vec![],
    })
}
