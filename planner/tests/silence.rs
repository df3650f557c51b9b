//! Ticks of a ZooKeeper ensemble, planned from the latency of its hosts: within what was promised of a lost machine or refused
//! with what would fit, proven, explained and exported; and a plan that claims too little is found.

mod common;
#[path = "common/measured.rs"]
mod measured;

use common::{leftovers, plan, site};
use giusto_model::{
    Coordination, CoordinationPlan, Duration, Engine, Epochs, Member, Places, Plan, RecoveryTimes, SilenceAsked, Site,
    Stress, Ticks, ZooKeeper, ZooKeeperPlan,
};
use giusto_planner::{explain, zookeeper, Facts, Faster, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

fn ensemble(servers: u32, latency: Duration, machine_loss: Option<Duration>) -> Coordination {
    let member = |number| Member { host: format!("edge-{number}"), port: 2181 };
    let times = RecoveryTimes {
        leave: ms(10),
        jitter: ms(8),
        delay: ms(1),
        message: Duration::from_us(500),
        recover: ms(40),
        learner: ms(10),
        write: ms(5),
    };
    let ticks = Ticks::Planned(SilenceAsked { latency, machine_loss });
    let own = ZooKeeper { epochs: None, wait: None, times, ticks, places: Places::default() };
    Coordination { servers: (1..=servers).map(member).collect(), recovery: ms(600), engine: Engine::ZooKeeper(own) }
}

fn with(ensemble: &Coordination, change: impl FnOnce(&mut ZooKeeper)) -> Coordination {
    let mut changed = ensemble.clone();
    match &mut changed.engine {
        Engine::ZooKeeper(own) => change(own),
        Engine::Etcd(_) => panic!("etcd"),
    }
    changed
}

fn asked(ensemble: &Coordination, change: impl FnOnce(&mut SilenceAsked)) -> Coordination {
    with(ensemble, |own| match &mut own.ticks {
        Ticks::Planned(asked) => change(asked),
        Ticks::Written { .. } => panic!("written"),
    })
}

fn of_site(ensemble: &Coordination) -> Site {
    let host = |member: &Member| {
        let mut host = site(&[0], Vec::new()).hosts.remove(0);
        host.name.clone_from(&member.host);
        host
    };
    Site {
        hosts: ensemble.servers.iter().map(host).collect(),
        services: vec![leftovers("batch", "0%")],
        topics: Vec::new(),
        paths: Default::default(),
        coordination: Some(ensemble.clone()),
        modes: None,
    }
}

fn planned(ensemble: &Coordination) -> Result<Plan, Refusal> {
    plan(&of_site(ensemble), &Facts::typical(vec![0]))
}

fn of(plan: &Plan) -> ZooKeeperPlan {
    match plan.coordination.clone() {
        Some(CoordinationPlan::ZooKeeper(own)) => own,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_that_is_stopped_or_cut_off_is_replaced_in_a_quarter_of_a_second_where_servers_are_at_most_20_ms_late() {
    let found = planned(&ensemble(3, ms(20), Some(ms(250)))).unwrap();
    let own = of(&found);
    // 5 ticks of 24 ms are more than 12 + 100 + 2 + 3 ms; reserve would take 5 ms more.
    assert_eq!((own.tick, own.sync_limit, own.epochs), (ms(24), 5, Epochs::Overlap));
    assert_eq!((own.bound, own.machine_loss), (ms(97), ms(249)));
    assert_eq!(own.silence.unwrap().step_down, ms(98));
    check_plan(&found).unwrap();
    let text = explain(&found, "coordination").unwrap();
    for part in [
        "tick",
        "sync-limit",
        "S = 120 ms",
        "step down",
        "A = S - L - 2 ms",
        "suspicions",
        "one in 10^6 s",
        "D = d + S + 2 L",
        "promised 250 ms",
        "reserve would take up to 254 ms where a machine is lost",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for file in zookeeper(&own) {
        // 20 s are 833.3 ticks.
        for line in ["\ntickTime=24\n", "\ninitLimit=834\n", "\nsyncLimit=5\n", "\ngiusto.step-down=98000us\n"] {
            assert!(file.config.contains(line), "{line}: {}", file.config);
        }
    }
    // Without a promise almost the shortest silence, which is 120 ms, with more time a longer tick.
    let soonest = of(&planned(&ensemble(3, ms(20), None)).unwrap());
    assert_eq!((soonest.tick, soonest.sync_limit, soonest.epochs), (ms(44), 3, Epochs::Reserve));
    let calm = of(&planned(&ensemble(3, ms(20), Some(ms(1000)))).unwrap());
    assert!(calm.tick > own.tick && calm.machine_loss <= ms(1000), "{calm:?}");
    let refusal = planned(&ensemble(3, ms(20), Some(ms(200)))).unwrap_err().to_string();
    for part in [
        "is stopped or cut off",
        "within 249 ms",
        "49 ms later than promised",
        "measured: {latency: ",
        "machine-loss: 249ms",
    ] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}

#[test]
fn five_servers_wait_for_the_last_that_leaves_or_are_refused() {
    let found = planned(&ensemble(5, ms(20), None)).unwrap();
    let own = of(&found);
    // j' + d + 4 ms, with j' = 16 + 1 + 80 + 1.
    assert_eq!((own.tick, own.wait, own.adaptive), (ms(32), ms(103), false));
    assert!(explain(&found, "coordination").unwrap().contains("up to j' = 98 ms apart"));
    check_plan(&found).unwrap();
    for change in
        [&(|own: &mut ZooKeeperPlan| own.adaptive = true) as &dyn Fn(&mut ZooKeeperPlan), &|own| own.wait = ms(99)]
    {
        let mut broken = own.clone();
        change(&mut broken);
        let plan = Plan { coordination: Some(CoordinationPlan::ZooKeeper(broken)), ..found.clone() };
        assert!(check_plan(&plan).unwrap_err().to_string().contains("a wait for the last that leaves"));
    }
    let refusal = planned(&ensemble(5, ms(80), None)).unwrap_err();
    assert!(matches!(refusal, Refusal::Apart { .. }), "{refusal}");
    assert!(refusal.to_string().contains("four servers or fewer"), "{refusal}");
    planned(&ensemble(4, ms(80), None)).unwrap();
    let fixed = |wait| with(&ensemble(5, ms(20), None), |own| own.wait = Some(wait));
    // Ticks of 10 ms: 5 + 1 + 80 + 1 and 1.
    assert!(planned(&fixed(ms(88))).is_err());
    assert_eq!(of(&planned(&fixed(ms(89))).unwrap()).wait, ms(89));
}

#[test]
fn every_plan_is_proven_and_every_proposal_of_a_refusal_keeps_the_promise() {
    let mut rng = StdRng::seed_from_u64(17);
    let (mut kept, mut refused, mut latencies, mut ways) = (0, 0, 0, 0);
    for _ in 0..1500 {
        let mut us = |from: u64, to: u64| Duration::from_us(rng.random_range(from..to));
        let times = RecoveryTimes {
            leave: us(0, 20_000),
            jitter: us(1, 15_000),
            delay: us(1, 3_000),
            message: us(0, 1_000),
            recover: us(1_000, 60_000),
            learner: us(0, 10_000),
            write: us(0, 60_000),
        };
        let (latency, promised) = (us(1, 40_000), us(100_000, 600_000));
        let epochs = [None, Some(Epochs::Strict), Some(Epochs::Reserve)][rng.random_range(0..3)];
        let one = with(&ensemble(rng.random_range(3..8), latency, Some(promised)), |own| {
            (own.times, own.epochs) = (times, epochs);
        });
        let slow = match planned(&one) {
            Ok(plan) => {
                check_plan(&plan).unwrap_or_else(|broken| panic!("{broken}: {one:?}"));
                assert!(of(&plan).machine_loss <= promised);
                kept += 1;
                continue;
            }
            Err(Refusal::Recovery(slow)) => slow,
            Err(Refusal::Apart { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        refused += 1;
        for near in &slow.nearest {
            let changed = match *near {
                Faster::Latency(fits) => {
                    latencies += 1;
                    let more = Duration::from_ns(fits.ns() + 1000);
                    assert!(more >= latency || planned(&asked(&one, |asked| asked.latency = more)).is_err(), "{one:?}");
                    asked(&one, |asked| asked.latency = fits)
                }
                Faster::MachineLoss(lost) => {
                    let less = Duration::from_ns(lost.ns() - 1);
                    let fixed = with(&one, |own| own.epochs = own.epochs.or(Some(Epochs::Overlap)));
                    assert!(planned(&asked(&fixed, |asked| asked.machine_loss = Some(less))).is_err(), "{one:?}");
                    asked(&one, |asked| asked.machine_loss = Some(lost))
                }
                Faster::Epochs(other) => {
                    ways += 1;
                    with(&one, |own| own.epochs = Some(other))
                }
                Faster::Servers(fewer) => {
                    let mut less = one.clone();
                    less.servers.truncate(fewer);
                    less
                }
                Faster::Wait(_) | Faster::Recovery(_) => continue,
            };
            assert!(planned(&changed).is_ok(), "{near}: {one:?}");
        }
    }
    let fit = format!("{latencies} would fit with a smaller latency, {ways} with other epochs");
    println!("ensembles: {kept} planned, {refused} refused, of which {fit}");
    assert!(kept > 300 && refused > 300 && latencies > 200 && ways > 30, "{kept} {refused} {latencies} {ways}");
}

#[test]
fn a_plan_that_claims_too_little_is_found() {
    let good = planned(&ensemble(3, ms(20), Some(ms(250)))).unwrap();
    let broken = |change: &dyn Fn(&mut ZooKeeperPlan)| {
        let mut own = of(&good);
        change(&mut own);
        let plan = Plan { coordination: Some(CoordinationPlan::ZooKeeper(own)), ..good.clone() };
        check_plan(&plan).unwrap_err().to_string()
    };
    let ns = Duration::from_ns;
    let silence =
        |change: &dyn Fn(&mut giusto_model::SilencePlan)| broken(&|own| own.silence.as_mut().map_or((), change));
    assert!(broken(&|own| own.machine_loss = ns(own.machine_loss.ns() - 1)).contains("machine is lost"));
    assert!(broken(&|own| own.sync_limit += 1).contains("has stepped down when the first follower leaves"));
    assert!(broken(&|own| own.sync_limit -= 1).contains("has stepped down when the first follower leaves"));
    assert!(broken(&|own| own.tick = ms(25)).contains("a tick with two words"));
    assert!(broken(&|own| own.tick = ms(20)).contains("has stepped down"));
    assert!(silence(&|own| own.step_down = ns(own.step_down.ns() + 1)).contains("has stepped down"));
    assert!(silence(&|own| own.step_down = ms(95)).contains("a leader that all answer leads on"));
    assert!(silence(&|own| own.asked.latency = ms(21)).contains("a leader that all answer leads on"));
    assert!(
        silence(&|own| own.asked.machine_loss = Some(ms(248))).contains("promised recovery where a machine is lost")
    );
    // A slow disk whose followers would be dropped.
    assert!(broken(&|own| own.times.write = ms(30)).contains("a follower that writes is kept"));
    let calm = planned(&ensemble(3, ms(20), Some(ms(1000)))).unwrap();
    let mut own = of(&calm);
    own.sync_limit += 1;
    let silence = own.silence.as_mut().unwrap();
    silence.step_down = silence.step_down.checked_add(own.tick).unwrap();
    own.machine_loss = own.machine_loss.checked_add(own.tick).unwrap();
    let plan = Plan { coordination: Some(CoordinationPlan::ZooKeeper(own)), ..calm };
    assert!(check_plan(&plan).unwrap_err().to_string().contains("the fewest ticks"));
}

#[test]
fn a_host_that_was_measured_to_be_later_than_the_plan_says_is_refused() {
    let site = of_site(&ensemble(3, ms(2), None));
    let facts = |late| {
        let latency = measured::measured(&[(0, Duration::from_us(500), Stress::Quiet, late)]);
        Facts { host: Some("edge-2".into()), latency: Some(latency), ..Facts::typical(vec![0]) }
    };
    plan(&site, &facts(ms(2))).unwrap();
    let text = plan(&site, &facts(ms(3))).unwrap_err().to_string();
    assert!(text.contains("3 ms on host 'edge-2'") && text.contains("measured: {latency: ...}"), "{text}");
}
