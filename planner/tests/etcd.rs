//! The ensemble of etcd servers: planned within its promise or refused, what a refusal says would fit does, and a plan that
//! claims too little is found.

mod common;
#[path = "common/measured.rs"]
mod measured;

use common::{leftovers, plan, site};
use giusto_model::{
    Coordination, CoordinationPlan, Duration, Engine, Etcd, EtcdPlaces, EtcdPlan, EtcdTimes, Host, Member, Plan, Site,
    Stress,
};
use giusto_planner::{etcd, explain, Facts, Faster, How, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

fn ensemble(servers: u32, recovery: Duration, times: EtcdTimes) -> Coordination {
    let member = |number| Member { host: format!("edge-{number}"), port: 2379 };
    let engine = Engine::Etcd(Etcd { times, places: EtcdPlaces::default() });
    Coordination { servers: (1..=servers).map(member).collect(), recovery, engine }
}

fn planned(ensemble: &Coordination) -> Result<Plan, Refusal> {
    let host = |member: &Member| {
        let mut host = site(&[0], Vec::new()).hosts.remove(0);
        host.name.clone_from(&member.host);
        host
    };
    let site = Site {
        hosts: ensemble.servers.iter().map(host).collect(),
        services: vec![leftovers("batch", "0%")],
        topics: Vec::new(),
        paths: Default::default(),
        coordination: Some(ensemble.clone()),
        modes: None,
    };
    plan(&site, &Facts::typical(vec![0]))
}

fn of(plan: &Plan) -> EtcdPlan {
    match plan.coordination.clone() {
        Some(CoordinationPlan::Etcd(own)) => own,
        other => panic!("{other:?}"),
    }
}

fn lan() -> EtcdTimes {
    EtcdTimes { latency: ms(1), delay: Duration::from_us(500), write: ms(1) }
}

#[test]
fn a_promise_that_leaves_room_has_a_longer_heartbeat_and_each_is_explained_and_exported() {
    let (tight, wide) =
        (planned(&ensemble(3, ms(200), lan())).unwrap(), planned(&ensemble(3, ms(2000), lan())).unwrap());
    let (fast, calm) = (of(&tight), of(&wide));
    assert!(fast.heartbeat < calm.heartbeat && fast.bound <= ms(200) && calm.bound <= ms(2000), "{fast:?} {calm:?}");
    assert!(calm.heartbeat <= ms(100) && fast.election >= fast.heartbeat.checked_mul(5).unwrap());
    let text = explain(&tight, "coordination").unwrap();
    for part in ["heartbeat", "election timeout", "pre-vote", "3 L + d + b", "killed, stopped or cut; promised 200 ms"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let files = etcd(&fast);
    assert_eq!(files.len(), 3);
    let beat = format!("ETCD_HEARTBEAT_INTERVAL={}", fast.heartbeat.ns() / 1_000_000);
    let timeout = format!("ETCD_ELECTION_TIMEOUT={}", fast.election.ns() / 1_000_000);
    for (file, name) in files.iter().zip(["edge-1", "edge-2", "edge-3"]) {
        let lines: Vec<&str> = file.environment.lines().filter(|line| !line.starts_with('#')).collect();
        for line in [
            beat.as_str(),
            timeout.as_str(),
            "ETCD_PRE_VOTE=true",
            "ETCD_LISTEN_PEER_URLS=http://0.0.0.0:2380",
            "ETCD_INITIAL_CLUSTER=edge-1=http://edge-1:2380,edge-2=http://edge-2:2380,edge-3=http://edge-3:2380",
            &format!("ETCD_NAME={name}"),
            &format!("ETCD_ADVERTISE_CLIENT_URLS=http://{name}:2379"),
        ] {
            assert!(lines.contains(&line), "{line}: {}", file.environment);
        }
    }
}

#[test]
fn every_plan_is_proven_and_every_proposal_of_a_refusal_keeps_the_promise() {
    let mut rng = StdRng::seed_from_u64(41);
    let (mut kept, mut fewer, mut promises) = (0, 0, 0);
    for _ in 0..250 {
        let mut us = |from: u64, to: u64| Duration::from_us(rng.random_range(from..to));
        let times = EtcdTimes { latency: us(1, 8_000), delay: us(1, 2_000), write: us(1, 8_000) };
        let promised = us(100_000, 2_000_000);
        let asked = ensemble(rng.random_range(3..8), promised, times);
        let refusal = match planned(&asked) {
            Ok(plan) => {
                check_plan(&plan).unwrap_or_else(|broken| panic!("{broken}: {asked:?}"));
                let found = of(&plan);
                assert!(found.bound <= promised && found.more_rounds_ppm <= 1000, "{asked:?}");
                kept += 1;
                continue;
            }
            Err(refusal) => refusal,
        };
        let Refusal::Recovery(slow) = refusal else { panic!("{refusal}") };
        assert!(slow.bound > promised && matches!(slow.how, How::Etcd { .. }));
        for near in &slow.nearest {
            let changed = match *near {
                Faster::Servers(count) => {
                    fewer += 1;
                    let mut less = asked.clone();
                    less.servers.truncate(count + 1);
                    assert!(count + 1 == asked.servers.len() || planned(&less).is_err());
                    less.servers.truncate(count);
                    less
                }
                Faster::Recovery(bound) => {
                    promises += 1;
                    let less = Coordination { recovery: Duration::from_ns(bound.ns() - 1), ..asked.clone() };
                    assert!(planned(&less).is_err(), "{asked:?}");
                    Coordination { recovery: bound, ..asked.clone() }
                }
                Faster::Epochs(_) | Faster::Wait(_) | Faster::Latency(_) | Faster::MachineLoss(_) => {
                    panic!("{near} is of ZooKeeper")
                }
            };
            assert!(planned(&changed).is_ok(), "{near}: {asked:?}");
        }
    }
    println!("etcd: {kept} planned; {promises} refused, of which {fewer} fit with fewer servers");
    assert!(kept > 50 && fewer > 5 && promises > 50);
}

#[test]
fn a_plan_that_claims_too_little_is_found() {
    let good = planned(&ensemble(5, ms(1000), lan())).unwrap();
    check_plan(&good).unwrap();
    let broken = |change: &dyn Fn(&mut EtcdPlan)| {
        let mut own = of(&good);
        change(&mut own);
        let plan = Plan { coordination: Some(CoordinationPlan::Etcd(own)), ..good.clone() };
        check_plan(&plan).unwrap_err().to_string()
    };
    let less = |time: &mut Duration| *time = Duration::from_ns(time.ns() - 1);
    let more = |time: &mut Duration| *time = Duration::from_ns(time.ns() + 1);
    assert!(broken(&|plan| less(&mut plan.bound)).contains("longest recovery of the ensemble"));
    assert!(broken(&|plan| less(&mut plan.first_write)).contains("first write"));
    assert!(broken(&|plan| plan.recovery = Duration::from_ns(plan.bound.ns() - 1)).contains("promised recovery"));
    assert!(broken(&|plan| plan.servers[4].host = "edge-1".into()).contains("hosts of the ensemble"));
    assert!(broken(&|plan| plan.more_rounds_ppm -= 1).contains("recoveries with more elections"));
    assert!(broken(&|plan| plan.rounds -= 1).contains("recoveries with more elections"));
    assert!(broken(&|plan| plan.election = plan.heartbeat.checked_mul(4).unwrap()).contains("as etcd takes them"));
    assert!(broken(&|plan| less(&mut plan.heartbeat)).contains("as etcd takes them"));
    assert!(broken(&|plan| plan.times.latency = plan.election).contains("campaigns needlessly"));
    for text in [
        broken(&|plan| more(&mut plan.times.latency)),
        broken(&|plan| more(&mut plan.times.delay)),
        broken(&|plan| more(&mut plan.times.write)),
    ] {
        assert!(text.contains("longest recovery"), "{text}");
    }
}

#[test]
fn a_host_that_was_measured_to_be_later_than_the_plan_says_is_refused() {
    let mut whole = site(&[0], vec![leftovers("batch", "0%")]);
    whole.coordination = Some(ensemble(3, ms(2000), lan()));
    let host = whole.hosts.remove(0);
    let names = (1..=3).map(|number| format!("edge-{number}"));
    whole.hosts = names.map(|name| Host { name, ..host.clone() }).collect();
    let facts = |late| {
        let latency = measured::measured(&[(0, Duration::from_us(500), Stress::Quiet, late)]);
        Facts { host: Some("edge-2".into()), latency: Some(latency), ..Facts::typical(vec![0]) }
    };
    plan(&whole, &facts(ms(1))).unwrap();
    let text = plan(&whole, &facts(ms(2))).unwrap_err().to_string();
    assert!(text.contains("2 ms on host 'edge-2'") && text.contains("measured: {latency: ...}"), "{text}");
}
