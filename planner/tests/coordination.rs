//! The ensemble of ZooKeeper servers: planned within its promise or refused, and what a refusal says would fit does.

mod common;

use common::{leftovers, plan, site};
use giusto_model::{
    Coordination, CoordinationPlan, Duration, Engine, Epochs, Member, Places, Plan, RecoveryTimes, Site, Ticks,
    ZooKeeper, ZooKeeperPlan,
};
use giusto_planner::{explain, slow_to_see, zookeeper, Facts, Faster, How, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

fn ensemble(servers: u32, recovery: Duration) -> Coordination {
    let member = |number| Member { host: format!("edge-{number}"), port: 2181 };
    Coordination {
        servers: (1..=servers).map(member).collect(),
        recovery,
        engine: Engine::ZooKeeper(ZooKeeper {
            epochs: None,
            wait: None,
            times: RecoveryTimes::default(),
            ticks: Ticks::Written { tick: ms(200), sync_limit: 5 },
            places: Places::default(),
        }),
    }
}

fn own(ensemble: &mut Coordination) -> &mut ZooKeeper {
    match &mut ensemble.engine {
        Engine::ZooKeeper(own) => own,
        Engine::Etcd(_) => panic!("etcd"),
    }
}

/// The same ensemble with something else.
fn with(ensemble: &Coordination, change: impl FnOnce(&mut ZooKeeper)) -> Coordination {
    let mut changed = ensemble.clone();
    change(own(&mut changed));
    changed
}

fn of(plan: &Plan) -> ZooKeeperPlan {
    match plan.coordination.clone() {
        Some(CoordinationPlan::ZooKeeper(own)) => own,
        other => panic!("{other:?}"),
    }
}

fn planned(ensemble: &Coordination) -> Result<Plan, Refusal> {
    let host = |member: &Member| {
        let mut host = site(&[0], Vec::new()).hosts.remove(0);
        host.name.clone_from(&member.host);
        host
    };
    let hosts = ensemble.servers.iter().map(host).collect();
    let site = Site {
        hosts,
        services: vec![leftovers("batch", "0%")],
        topics: Vec::new(),
        paths: Default::default(),
        coordination: Some(ensemble.clone()),
        modes: None,
    };
    plan(&site, &Facts::typical(vec![0]))
}

#[test]
fn three_servers_recover_within_200_ms_with_table_5_3_because_epochs_overlap() {
    let found = planned(&ensemble(3, ms(200))).unwrap();
    let ensemble = of(&found);
    assert_eq!((ensemble.bound, ensemble.epochs, ensemble.wait), (ms(200), Epochs::Overlap, ms(20)));
    assert_eq!(ensemble.machine_loss, ms(1200));
    let text = explain(&found, "coordination").unwrap();
    assert!(text.contains("reserve would take up to 205 ms"), "{text}");
    assert!(text.contains("C2") && text.contains("TieredStopAtLevel=1"), "{text}");
    // Enough time: the safest of both.
    let relaxed = of(&planned(&Coordination { recovery: ms(205), ..super_of(3) }).unwrap());
    assert_eq!((relaxed.bound, relaxed.epochs), (ms(205), Epochs::Reserve));
}

fn super_of(servers: u32) -> Coordination {
    ensemble(servers, ms(200))
}

#[test]
fn five_servers_are_refused_with_how_much_is_missing_and_what_would_fit() {
    let asked = with(&ensemble(5, ms(200)), |own| own.epochs = Some(Epochs::Strict));
    let refusal = planned(&asked).unwrap_err();
    // 3 + 35 + (13 + 6 + 20 + 60) + (55 + 100 + 15)
    let text = refusal.to_string();
    assert!(text.contains("within 307 ms") && text.contains("107 ms later than promised (200 ms)"), "{text}");
    let Refusal::Recovery(slow) = refusal else { panic!("{text}") };
    // Three with strict take 215 ms: more than promised too.
    assert_eq!(slow.nearest, [Faster::Recovery(ms(307))]);
}

fn drawn(rng: &mut StdRng) -> Coordination {
    let mut us = |from: u64, to: u64| Duration::from_us(rng.random_range(from..to));
    let times = RecoveryTimes {
        leave: us(0, 40_000),
        jitter: us(1, 20_000),
        delay: us(1, 5_000),
        message: us(0, 1_000),
        recover: us(1_000, 80_000),
        learner: us(0, 10_000),
        write: us(0, 60_000),
    };
    let promised = us(20_000, 300_000);
    let spread = times.jitter.ns() + times.delay.ns();
    let extra = us(1, 60_000);
    let wait = rng.random_bool(0.5).then(|| Duration::from_ns(spread + extra.ns()));
    let epochs = [None, Some(Epochs::Strict), Some(Epochs::Reserve), Some(Epochs::Overlap)][rng.random_range(0..4)];
    let tick = ms(rng.random_range(10..3000));
    with(&ensemble(rng.random_range(3..10), promised), |own| {
        let ticks = Ticks::Written { tick, sync_limit: 5 };
        *own = ZooKeeper { epochs, wait, times, ticks, ..own.clone() };
    })
}

#[test]
fn every_plan_is_proven_and_every_proposal_of_a_refusal_keeps_the_promise_and_no_longer_wait_does() {
    let mut rng = StdRng::seed_from_u64(9);
    let (mut kept, mut overlapped, mut waits, mut epochs, mut fewer, mut promises) = (0, 0, 0, 0, 0, 0);
    for _ in 0..3000 {
        let mut asked = drawn(&mut rng);
        let epochs_asked = own(&mut asked).epochs;
        let refusal = match planned(&asked) {
            Ok(plan) => {
                check_plan(&plan).unwrap_or_else(|broken| panic!("{broken}: {asked:?}"));
                let found = of(&plan);
                assert!(found.bound <= asked.recovery && epochs_asked.is_none_or(|epochs| epochs == found.epochs));
                kept += 1;
                overlapped += u32::from(epochs_asked.is_none() && found.epochs == Epochs::Overlap);
                continue;
            }
            Err(refusal) => refusal,
        };
        let Refusal::Recovery(slow) = refusal else { panic!("{refusal}") };
        assert!(slow.bound > slow.promised && slow.promised == asked.recovery);
        let How::ZooKeeper { epochs: kept_so, .. } = slow.how else { panic!("{}", slow.how) };
        let fixed = with(&asked, |own| own.epochs = Some(kept_so));
        for near in &slow.nearest {
            let changed = match *near {
                Faster::Epochs(other) => with(&asked, |own| own.epochs = Some(other)),
                Faster::Wait(wait) => {
                    let longer = with(&fixed, |own| own.wait = Some(Duration::from_ns(wait.ns() + 1000)));
                    assert!(planned(&longer).is_err(), "{asked:?}");
                    with(&fixed, |own| own.wait = Some(wait))
                }
                Faster::Servers(count) => {
                    let mut less = fixed.clone();
                    less.servers.truncate(count + 1);
                    assert!(count + 1 == asked.servers.len() || planned(&less).is_err());
                    less.servers.truncate(count);
                    less
                }
                Faster::Latency(_) | Faster::MachineLoss(_) => panic!("{near} is of a silent leader"),
                Faster::Recovery(bound) => {
                    let less = Coordination { recovery: Duration::from_ns(bound.ns() - 1), ..fixed.clone() };
                    assert!(planned(&less).is_err());
                    Coordination { recovery: bound, ..fixed.clone() }
                }
            };
            assert!(planned(&changed).is_ok(), "{near}: {asked:?}");
            match near {
                Faster::Epochs(_) => epochs += 1,
                Faster::Wait(_) => waits += 1,
                Faster::Servers(_) => fewer += 1,
                _ => promises += 1,
            }
        }
    }
    println!("ensembles: {kept} planned, {overlapped} by overlapping; {promises} refused, of which fit {epochs} with other epochs, {waits} with another wait, {fewer} with fewer servers");
    assert!(kept > 500 && overlapped > 20 && epochs > 50 && waits > 50 && fewer > 50 && promises > 500);
}

#[test]
fn a_plan_that_claims_too_little_is_found() {
    let good = planned(&with(&ensemble(3, ms(300)), |own| own.epochs = Some(Epochs::Strict))).unwrap();
    check_plan(&good).unwrap();
    let broken = |change: &dyn Fn(&mut ZooKeeperPlan)| {
        let mut own = of(&good);
        change(&mut own);
        let plan = Plan { coordination: Some(CoordinationPlan::ZooKeeper(own)), ..good.clone() };
        check_plan(&plan).unwrap_err().to_string()
    };
    let short = |time: &mut Duration| *time = Duration::from_ns(time.ns() - 1);
    assert!(broken(&|plan| short(&mut plan.bound)).contains("longest recovery of the ensemble"));
    assert!(broken(&|plan| short(&mut plan.first_write)).contains("first write"));
    assert!(broken(&|plan| short(&mut plan.machine_loss)).contains("machine is lost"));
    assert!(broken(&|plan| plan.recovery = Duration::from_ns(plan.bound.ns() - 1)).contains("promised recovery"));
    assert!(broken(&|plan| plan.wait = ms(16)).contains("(5.2)"));
    assert!(broken(&|plan| plan.servers[2].host = "edge-1".into()).contains("hosts of the ensemble"));
    for part in 0..7 {
        let text = broken(&|plan| {
            let times = &mut plan.times;
            let all = [&mut times.leave, &mut times.delay, &mut times.message, &mut times.recover, &mut times.learner];
            match all.into_iter().nth(part) {
                Some(time) => *time = time.checked_add(Duration::from_ns(1)).unwrap(),
                None if part == 5 => times.jitter = times.jitter.checked_add(Duration::from_ns(1)).unwrap(),
                None => times.write = times.write.checked_add(Duration::from_ns(1)).unwrap(),
            }
        });
        assert!(text.contains("longest recovery"), "{text}");
    }
}

#[test]
fn every_server_gets_a_file_with_all_servers_and_the_numbers_of_the_plan() {
    let asked = with(&ensemble(3, ms(250)), |own| {
        (own.wait, own.ticks) = (Some(ms(18)), Ticks::Written { tick: ms(300), sync_limit: 5 });
    });
    let files = zookeeper(&of(&planned(&asked).unwrap()));
    assert_eq!(files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["1\n", "2\n", "3\n"]);
    for file in &files {
        let lines: Vec<&str> = file.config.lines().filter(|line| !line.starts_with('#')).collect();
        // 20 s are 66.7 ticks; w, j and d as the server reads them.
        for line in [
            "tickTime=300",
            "initLimit=67",
            "syncLimit=5",
            "maxSessionTimeout=40000",
            "clientPort=2181",
            "dataDir=/var/lib/zookeeper",
            "server.1=edge-1:2888:3888",
            "server.3=edge-3:2888:3888",
            "giusto.epochs=reserve",
            "giusto.wait=18000us",
            "giusto.jitter=13000us",
            "giusto.delay=3000us",
        ] {
            assert!(lines.contains(&line), "{line}: {}", file.config);
        }
    }
    let files = zookeeper(&of(&planned(&ensemble(3, ms(250))).unwrap()));
    assert!(files[0].config.contains("\ngiusto.wait=adaptive\n"));
    let places = Places { data: "/srv/zk".into(), quorum_port: 12888, election_port: 13888 };
    let elsewhere = with(&ensemble(3, ms(250)), |own| own.places = places);
    let files = zookeeper(&of(&planned(&elsewhere).unwrap()));
    for line in ["\ndataDir=/srv/zk\n", "\nserver.1=edge-1:12888:13888\n", "\nserver.3=edge-3:12888:13888\n"] {
        assert!(files.iter().all(|file| file.config.contains(line)), "{line}");
    }
}

#[test]
fn a_machine_that_is_noticed_late_is_warned_of() {
    let of = |tick, sync_limit| {
        slow_to_see(&with(&ensemble(3, ms(200)), |own| own.ticks = Ticks::Written { tick, sync_limit }))
    };
    assert_eq!(of(ms(200), 5), None);
    assert!(of(ms(200), 6).unwrap().contains("200 ms x 6 = 1.2 s"));
    assert!(of(ms(2000), 5).unwrap().contains("= 10 s"));
}
