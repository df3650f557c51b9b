//! Paths that are promised something although the ensemble's leader, a service or a topic fails (docs/decisions/0068).

mod common;

use common::{path, plan, planned, refused_paths, sites, stage};
use giusto_model::{
    Assurance, BrokerTimes, Coordination, CoordinationPlan, Despite, DespitePlan, Duration, Engine, Fails, Instant,
    JobRecord, Link, Member, Path, PathSource, Places, Plan, RecoveryTimes, Site, Through, Ticks, Topic, TopicLimit,
    Within, ZooKeeper,
};
use giusto_planner::{explain, Facts, PathCause, PathRefusal};
use giusto_simulator::{play_path, play_path_that_fails, PathStop, Unobserved};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn time(text: &str) -> Duration {
    text.parse().unwrap()
}

fn poisson(rate: &str) -> PathSource {
    PathSource::Poisson(rate.parse().unwrap())
}

fn service(name: &str) -> Through {
    Through::Service(name.into())
}

fn leader() -> Despite {
    Despite { fails: Fails::Leader, gap: None }
}

fn ends(name: &str, gap: &str) -> Despite {
    Despite { fails: Fails::Service(name.into()), gap: Some(time(gap)) }
}

fn stands(gap: &str) -> Despite {
    Despite { fails: Fails::Topic("alarms".into()), gap: Some(time(gap)) }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Services one after the other, each on a host of its own, of whose first three an ensemble has servers.
fn chain(source: PathSource, times: &[&str], within: &str, despite: &[Despite]) -> Site {
    let on = |nth: usize| format!("edge-{}", nth + 1);
    let stages = times.iter().enumerate().map(|(nth, time)| stage(NAMES[nth], time, &on(nth))).collect();
    let mut site = sites(&[&[1], &[1], &[1], &[1]], stages);
    let link = |nth: usize| Link { from: on(nth), to: on(nth + 1), worst: time("200us"), measured: None };
    site.paths.links = (0..3).map(link).collect();
    let through = NAMES[..times.len()].iter().map(|name| service(name)).collect();
    site.paths.all = vec![Path { despite: despite.to_vec(), ..path("alarm", source, through, time(within)) }];
    site.coordination = Some(Coordination {
        servers: (0..3).map(|nth| Member { host: on(nth), port: 2181 }).collect(),
        recovery: time("250ms"),
        engine: Engine::ZooKeeper(ZooKeeper {
            epochs: None,
            wait: None,
            times: RecoveryTimes::default(),
            ticks: Ticks::Written { tick: time("200ms"), sync_limit: 5 },
            places: Places::default(),
        }),
    });
    site
}

/// The same with a topic between the first two services, half of whose messages are those of others.
fn with_topic(mut site: Site, publishers: u32) -> Site {
    let point = |percentile: &str, within| Within { percentile: percentile.parse().unwrap(), within: time(within) };
    site.topics = vec![Topic {
        name: "alarms".into(),
        publishers,
        each: "1/s".parse().unwrap(),
        batch: 1,
        brokers: vec!["edge-2".into()],
        service: None,
        promise: vec![point("p99", "60ms")],
        limit: TopicLimit::Delivery,
        bucket: None,
        measured: Some(BrokerTimes {
            capacity: "12k/s".parse().unwrap(),
            latency: vec![point("p99", "2ms"), point("p99.9", "3ms")],
            worst: Some(time("8ms")),
        }),
    }];
    site.paths.all[0].through.insert(1, Through::Topic("alarms".into()));
    site
}

fn facts() -> Facts {
    Facts::typical(vec![0, 1])
}

fn told(site: &Site) -> Plan {
    planned(site, &facts())
}

fn refused(site: &Site) -> PathRefusal {
    refused_paths(site, &facts())
}

fn server(plan: &Plan, name: &str) -> (u64, u64) {
    let own = plan.services.iter().find(|one| one.name == name).unwrap();
    let giusto_model::Certificate::Stage { budget, .. } = own.certificate else { panic!("{own:?}") };
    (own.server.period.ns(), budget.ns())
}

fn stop(plan: &Plan, failing: &DespitePlan, from: u64) -> PathStop {
    let through = &plan.paths[0].through;
    let (stage, lost) = match &failing.fails {
        Fails::Leader => (None, false),
        Fails::Service(name) => (through.iter().position(|stage| stage.service() == Some(name)), true),
        Fails::Topic(_) => (through.iter().position(|stage| stage.to_string().starts_with("tokens")), true),
    };
    PathStop { stage, from: Instant::from_ns(from), until: Instant::from_ns(from + failing.gap.ns()), lost }
}

/// Messages of a run in which that fails from then on, or nothing does.
fn played(plan: &Plan, failing: Option<(&DespitePlan, u64)>, seed: u64) -> Vec<JobRecord> {
    let stops: Vec<PathStop> = failing.iter().map(|(failing, from)| stop(plan, failing, *from)).collect();
    let horizon = Duration::from_secs(6);
    play_path_that_fails(plan, &plan.paths[0], horizon, (seed, &stops), &mut Unobserved).unwrap().messages
}

#[test]
fn a_failure_costs_whole_periods_and_what_is_done_once_more() {
    let bears = [leader(), ends("b", "130ms")];
    let found = told(&chain(poisson("40/s"), &["1ms", "2ms", "1ms"], "700ms", &bears));
    let path = &found.paths[0];
    let [first, second] = &path.despite[..] else { panic!("{path:?}") };
    let Some(CoordinationPlan::ZooKeeper(ensemble)) = &found.coordination else { panic!() };
    assert_eq!(first.gap, ensemble.first_write);
    assert!(first.gap > ensemble.bound);
    let (period, budget) = server(&found, "b");
    assert_eq!(second.later.ns(), (130_000_000u64.div_ceil(period) + 2_000_000u64.div_ceil(budget)) * period);
    // Up to whole periods at each stage in its turn.
    let up = |time: u64, name: &str| time.div_ceil(server(&found, name).0) * server(&found, name).0;
    assert_eq!(first.later.ns(), up(up(up(first.gap.ns(), "a"), "b"), "c"));
    let point = &path.points[0];
    assert!(point.at.ns() + path.later().ns() <= point.within.ns(), "{path:?}");
    // 40 a second of some 0.6 s.
    assert!((20..70).contains(&first.touched) && first.touched > second.touched, "{path:?}");
    let said = explain(&found, "alarm").unwrap();
    for words in ["despite the leader", "despite b", "until another leader has written", "what it had not passed on"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(check_plan(&found).unwrap().paths[0].believed, 0);
    for host in ["edge-1", "edge-2", "edge-3"] {
        check_plan(&found.on(host).unwrap()).unwrap();
    }
    // Where it loses its machine and that is promised, that counts.
    let mut lost = chain(poisson("40/s"), &["1ms", "2ms", "1ms"], "900ms", &bears);
    let Some(Coordination { engine: Engine::ZooKeeper(own), .. }) = &mut lost.coordination else { panic!() };
    own.ticks = Ticks::Planned(giusto_model::SilenceAsked { latency: time("20ms"), machine_loss: Some(time("400ms")) });
    let found = told(&lost);
    let Some(CoordinationPlan::ZooKeeper(ensemble)) = &found.coordination else { panic!() };
    assert!(found.paths[0].despite[0].gap > ensemble.machine_loss, "{:?}", found.paths[0].despite);
}

/// Paths whose stages are each alone on their cores, with constant times, so that a run with a failure and one without it can be
/// compared message by message.
fn forms(rng: &mut StdRng) -> Site {
    let times: Vec<String> =
        (0..rng.random_range(1..=4)).map(|_| format!("{}us", rng.random_range(300..4000))).collect();
    let times: Vec<&str> = times.iter().map(String::as_str).collect();
    let gap = format!("{}ms", rng.random_range(5..300));
    let source = match rng.random_bool(0.5) {
        true => poisson(&format!("{}/s", rng.random_range(20..90))),
        false => PathSource::Periodic {
            period: Duration::from_ms(rng.random_range(12..40)),
            jitter: Duration::from_ms(rng.random_range(0..10)),
            burst: rng.random_range(1..=2),
        },
    };
    let failing = NAMES[rng.random_range(0..times.len())];
    let mut site = chain(source, &times, "1500ms", &[leader(), ends(failing, &gap)]);
    if times.len() == 4 && rng.random_bool(0.5) {
        let branches = vec![vec![service("b")], vec![service("c")]];
        site.paths.all[0].through = vec![service("a"), Through::All(branches), service("d")];
        let link = |from: &str, to: &str| Link { from: from.into(), to: to.into(), worst: time("1ms"), measured: None };
        site.paths.links.extend([link("edge-1", "edge-3"), link("edge-2", "edge-4")]);
    } else if matches!(source, PathSource::Poisson(_)) && times.len() > 1 && rng.random_bool(0.8) {
        // What fails is the topic, or behind it; before it, those of others would not be late.
        site = with_topic(site, rng.random_range(90..150));
        site.paths.all[0].despite = vec![stands(&gap), ends(NAMES[times.len() - 1], &gap)];
    }
    site
}

#[test]
fn no_message_is_later_by_more_than_a_failure_may_cost() {
    let mut rng = StdRng::seed_from_u64(68);
    let (mut compared, mut nearest, mut kinds) = (0, 0.0f64, [0; 3]);
    for _ in 0..30 {
        let site = forms(&mut rng);
        let Ok(found) = plan(&site, &facts()) else { continue };
        for failing in &found.paths[0].despite {
            kinds[match failing.fails {
                Fails::Leader => 0,
                Fails::Service(_) => 1,
                Fails::Topic(_) => 2,
            }] += 1;
            for _ in 0..3 {
                let seed = rng.random_range(0..1_000_000);
                let from = rng.random_range(1_000_000_000..4_000_000_000);
                let (without, with) = (played(&found, None, seed), played(&found, Some((failing, from)), seed));
                assert_eq!(without.len(), with.len());
                for (one, other) in without.iter().zip(&with) {
                    let later = other.finish.unwrap().ns().saturating_sub(one.finish.unwrap().ns());
                    assert!(later <= failing.later.ns(), "{later} beyond {failing:?} at {from}, seed {seed}: {site:?}");
                    nearest = nearest.max(later as f64 / failing.later.ns() as f64);
                    compared += 1;
                }
            }
        }
    }
    println!("{compared} messages beside {kinds:?} failures; the nearest at {nearest:.3} of what one may cost");
    assert!(nearest > 0.95 && kinds.iter().all(|count| *count >= 3), "{nearest} {kinds:?}");
}

/// Failures of one kind again and again: messages near them, and how many of these were later than promised.
fn near(plan: &Plan, failing: &DespitePlan, seed: u64) -> (usize, usize, usize) {
    let point = &plan.paths[0].points[0];
    let apart = 4 * point.within.ns();
    let stops: Vec<PathStop> = (1..=80).map(|nth| stop(plan, failing, nth * apart + nth * 977_777)).collect();
    let horizon = Duration::from_ns(82 * apart);
    let run = play_path_that_fails(plan, &plan.paths[0], horizon, (seed, &stops), &mut Unobserved).unwrap();
    let is_near = |stop: &PathStop, job: &&JobRecord| {
        job.release.ns() + point.at.ns() >= stop.from.ns() && job.release < stop.until
    };
    let took = |job: &JobRecord| job.response_ns().unwrap_or(u64::MAX);
    let each: Vec<Vec<u64>> =
        stops.iter().map(|stop| run.messages.iter().filter(|job| is_near(stop, job)).map(took).collect()).collect();
    let late = each.iter().flatten().filter(|took| **took > point.within.ns()).count();
    (each.iter().map(Vec::len).sum(), late, each.iter().map(Vec::len).max().unwrap())
}

#[test]
fn messages_that_a_failure_touches_are_in_time_as_often_as_is_promised() {
    // Also where those of others come in behind what fails and are not late.
    let bears = [leader(), ends("a", "200ms"), stands("300ms")];
    let found = told(&with_topic(chain(poisson("50/s"), &["2ms", "3ms", "1ms"], "2s", &bears), 120));
    let path = &found.paths[0];
    assert_eq!(path.despite.len(), 3);
    // The leader's is twice, as the topic brings messages of others.
    assert!(path.despite[0].later.ns() > 2 * path.despite[0].gap.ns(), "{path:?}");
    for failing in &path.despite {
        let (messages, late, most) = near(&found, failing, 5);
        println!("{}: {messages} messages, {late} late, {most} touched at most of {}", failing.fails, failing.touched);
        assert!(messages > 1000 && late * 100 <= messages, "{failing:?}: {late} of {messages}");
        assert!(most as u64 <= failing.touched && most * 3 > failing.touched as usize, "{most} {failing:?}");
    }
    // A promise that does not count with it is broken by it.
    let mut bare = told(&with_topic(chain(poisson("50/s"), &["2ms", "3ms", "1ms"], "150ms", &[]), 120));
    let failing = path.despite[1].clone();
    bare.paths[0].despite = vec![failing.clone()];
    let (messages, late, _) = near(&bare, &failing, 5);
    assert!(late * 20 > messages, "{late} of {messages}");
}

#[test]
fn what_cannot_be_borne_is_refused_with_what_would_fit() {
    let short = refused(&chain(poisson("40/s"), &["1ms", "2ms"], "220ms", &[ends("b", "200ms")]));
    let PathCause::TooSlow { later: Some((Fails::Service(name), later)), .. } = &short.cause else { panic!("{short}") };
    assert!(name == "b" && *later >= time("200ms"), "{short}");
    let told = short.to_string();
    let [longer, without] = &short.nearest[..] else { panic!("{short}") };
    assert!(longer.contains("despite: {service: b, gap: 200ms}") && without.ends_with("without 'despite'"), "{told}");
    assert!(told.contains("more when b has failed"), "{told}");
    let within = longer.trim_start_matches("promise: {p99: ").split(',').next().unwrap();
    self::told(&chain(poisson("40/s"), &["1ms", "2ms"], within, &[ends("b", "200ms")]));
    // Not even without it.
    let never = refused(&chain(poisson("40/s"), &["1ms", "2ms"], "10ms", &[leader()]));
    assert!(!never.nearest.iter().any(|near| near.contains("without")), "{never}");
    // Paths that share a service bear its failure, not that of the leader.
    let two = |despite: Despite| {
        let mut site = chain(poisson("30/s"), &["1ms", "1ms", "1ms"], "700ms", &[despite]);
        let other = path("other", poisson("20/s"), vec![service("b"), service("c")], time("500ms"));
        site.paths.all.push(other);
        site
    };
    let shared = self::told(&two(ends("b", "100ms")));
    assert!(shared.paths[0].later() >= time("100ms") && shared.paths[1].despite.is_empty());
    assert!(matches!(refused(&two(leader())).cause, PathCause::Fails { fails: Fails::Leader, .. }));
}

#[test]
fn what_is_simulated_leaves_room_for_a_failure() {
    let with = |despite: &[Despite], within: &str| {
        let mut site = chain(poisson("40/s"), &["1ms", "2ms", "1ms"], within, despite);
        site.paths.all[0].assurance = Assurance::Simulated;
        self::told(&site)
    };
    let found = with(&[ends("b", "100ms")], "220ms");
    let (path, point) = (&found.paths[0], &found.paths[0].points[0]);
    assert!(path.simulated.is_some() && point.at.ns() + path.later().ns() <= point.within.ns(), "{path:?}");
    let run = play_path(&found, path, Duration::from_secs(1000), 3, &mut Unobserved).unwrap();
    assert!(run.whole.percentile(99.0).ns() + path.later().ns() <= point.within.ns());
    // With twice the gap nothing is left of the time that runs have shown to be enough.
    let mut longer = found.clone();
    let borne = &mut longer.paths[0].despite[0];
    borne.later = Duration::from_ns(borne.later.ns() * 2);
    assert!(check_plan(&longer).is_err());
}

#[test]
fn whatever_is_changed_of_what_is_borne_is_noticed() {
    let bears = [leader(), ends("a", "200ms"), stands("300ms")];
    let site = with_topic(chain(poisson("50/s"), &["2ms", "3ms", "1ms"], "2s", &bears), 120);
    let good = told(&site);
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).unwrap_err().to_string()
    };
    let on = |nth: usize, change: &dyn Fn(&mut DespitePlan)| broken(&|plan| change(&mut plan.paths[0].despite[nth]));
    let less = |time: Duration| Duration::from_ns(time.ns() - 1_000_000);
    let later = "time by which messages are later";
    for (words, said) in [
        (later, on(0, &|one| one.later = less(one.later))),
        (later, on(1, &|one| one.later = less(one.later))),
        (later, on(2, &|one| one.later = less(one.later))),
        (later, on(1, &|one| one.gap = time("300ms"))),
        ("until another leader has written", on(0, &|one| one.gap = less(one.gap))),
        ("messages that it touches", on(1, &|one| one.touched -= 12)),
        ("in time after a failure", on(2, &|one| one.later = time("1950ms"))),
        ("some time for which it stands still", on(2, &|one| one.gap = Duration::ZERO)),
        ("a service of the path", on(1, &|one| one.fails = Fails::Service("d".into()))),
        ("a topic of the path", on(2, &|one| one.fails = Fails::Topic("others".into()))),
        ("each failure once", on(2, &|one| one.fails = Fails::Leader)),
        ("in time after a failure", broken(&|plan| plan.paths[0].points[0].within = plan.paths[0].points[0].at)),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // What the site says is compared with it.
    let other = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        giusto_verify::check_site(&plan, &site, b"").unwrap_err().to_string()
    };
    assert!(!other(&|_| ()).contains("it bears")); // but it was planned from no file
    assert!(other(&|plan| drop(plan.paths[0].despite.pop())).contains("what it bears"));
    assert!(other(&|plan| plan.paths[0].despite[1].gap = time("100ms")).contains("how long it stands still"));
}
