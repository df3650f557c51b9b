//! The ensemble: planned within its promise or refused, and what a refusal says would fit does.

mod common;

use common::{leftovers, plan, site};
use giusto_model::{Coordination, Duration, Epochs, Member, Places, Plan, RecoveryTimes, Site};
use giusto_planner::{explain, slow_to_see, zookeeper, Facts, Faster, Refusal};
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
        epochs: None,
        wait: None,
        times: RecoveryTimes::default(),
        tick: ms(200),
        sync_limit: 5,
        places: Places::default(),
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
        coordination: Some(ensemble.clone()),
        modes: None,
    };
    plan(&site, &Facts::typical(vec![0]))
}

#[test]
fn three_servers_recover_within_200_ms_with_table_5_3_because_epochs_overlap() {
    let found = planned(&ensemble(3, ms(200))).unwrap();
    let ensemble = found.coordination.clone().unwrap();
    assert_eq!((ensemble.bound, ensemble.epochs, ensemble.wait), (ms(200), Epochs::Overlap, ms(20)));
    assert_eq!(ensemble.machine_loss, ms(1200));
    let text = explain(&found, "coordination").unwrap();
    assert!(text.contains("reserve would take up to 205 ms"), "{text}");
    assert!(text.contains("C2") && text.contains("TieredStopAtLevel=1"), "{text}");
    // Enough time: the safest of both.
    let relaxed = planned(&Coordination { recovery: ms(205), ..super_of(3) }).unwrap().coordination.unwrap();
    assert_eq!((relaxed.bound, relaxed.epochs), (ms(205), Epochs::Reserve));
}

fn super_of(servers: u32) -> Coordination {
    ensemble(servers, ms(200))
}

#[test]
fn five_servers_are_refused_with_how_much_is_missing_and_what_would_fit() {
    let asked = Coordination { epochs: Some(Epochs::Strict), ..ensemble(5, ms(200)) };
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
    Coordination { epochs, wait, times, tick, ..ensemble(rng.random_range(3..10), promised) }
}

#[test]
fn every_plan_is_proven_and_every_proposal_of_a_refusal_keeps_the_promise_and_no_longer_wait_does() {
    let mut rng = StdRng::seed_from_u64(9);
    let (mut kept, mut overlapped, mut waits, mut epochs, mut fewer, mut promises) = (0, 0, 0, 0, 0, 0);
    for _ in 0..3000 {
        let asked = drawn(&mut rng);
        let refusal = match planned(&asked) {
            Ok(plan) => {
                check_plan(&plan).unwrap_or_else(|broken| panic!("{broken}: {asked:?}"));
                let found = plan.coordination.unwrap();
                assert!(found.bound <= asked.recovery && asked.epochs.is_none_or(|epochs| epochs == found.epochs));
                kept += 1;
                overlapped += u32::from(asked.epochs.is_none() && found.epochs == Epochs::Overlap);
                continue;
            }
            Err(refusal) => refusal,
        };
        let Refusal::Recovery(slow) = refusal else { panic!("{refusal}") };
        assert!(slow.bound > slow.promised && slow.promised == asked.recovery);
        let fixed = Coordination { epochs: Some(slow.epochs), ..asked.clone() };
        for near in &slow.nearest {
            let changed = match *near {
                Faster::Epochs(other) => Coordination { epochs: Some(other), ..asked.clone() },
                Faster::Wait(wait) => {
                    let longer = Coordination { wait: Some(Duration::from_ns(wait.ns() + 1000)), ..fixed.clone() };
                    assert!(planned(&longer).is_err(), "{asked:?}");
                    Coordination { wait: Some(wait), ..fixed.clone() }
                }
                Faster::Servers(count) => {
                    let mut less = fixed.clone();
                    less.servers.truncate(count + 1);
                    assert!(count + 1 == asked.servers.len() || planned(&less).is_err());
                    less.servers.truncate(count);
                    less
                }
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
                Faster::Recovery(_) => promises += 1,
            }
        }
    }
    println!("ensembles: {kept} planned, {overlapped} by overlapping; {promises} refused, of which fit {epochs} with other epochs, {waits} with another wait, {fewer} with fewer servers");
    assert!(kept > 500 && overlapped > 20 && epochs > 50 && waits > 50 && fewer > 50 && promises > 500);
}

#[test]
fn a_plan_that_claims_too_little_is_found() {
    let good = planned(&Coordination { epochs: Some(Epochs::Strict), ..ensemble(3, ms(300)) }).unwrap();
    check_plan(&good).unwrap();
    let broken = |change: &dyn Fn(&mut giusto_model::CoordinationPlan)| {
        let mut plan = good.clone();
        change(plan.coordination.as_mut().unwrap());
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
    let asked = Coordination { wait: Some(ms(18)), tick: ms(300), ..ensemble(3, ms(250)) };
    let files = zookeeper(&planned(&asked).unwrap().coordination.unwrap());
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
    let files = zookeeper(&planned(&ensemble(3, ms(250))).unwrap().coordination.unwrap());
    assert!(files[0].config.contains("\ngiusto.wait=adaptive\n"));
    let places = Places { data: "/srv/zk".into(), quorum_port: 12888, election_port: 13888 };
    let files = zookeeper(&planned(&Coordination { places, ..ensemble(3, ms(250)) }).unwrap().coordination.unwrap());
    for line in ["\ndataDir=/srv/zk\n", "\nserver.1=edge-1:12888:13888\n", "\nserver.3=edge-3:12888:13888\n"] {
        assert!(files.iter().all(|file| file.config.contains(line)), "{line}");
    }
}

#[test]
fn a_machine_that_is_noticed_late_is_warned_of() {
    let of = |tick, sync_limit| slow_to_see(&Coordination { tick, sync_limit, ..ensemble(3, ms(200)) });
    assert_eq!(of(ms(200), 5), None);
    assert!(of(ms(200), 6).unwrap().contains("200 ms x 6 = 1.2 s"));
    assert!(of(ms(2000), 5).unwrap().contains("= 10 s"));
}
