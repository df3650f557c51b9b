//! Topics: planned within their promises, proven by another law than the planner's, or refused with what would fit.

mod common;

use common::{leftovers, plan, sites};
use giusto_model::{BrokerTimes, Bucket, Duration, Plan, Rate, Tokens, Topic, TopicLimit, TopicPlan, Within};
use giusto_planner::{explain, plan_on, unmeasured, Facts, Refusal, TopicCause, TopicFit, TopicRefusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn points(list: &[(&str, u64)]) -> Vec<Within> {
    let point = |(p, us): &(&str, u64)| Within { percentile: p.parse().unwrap(), within: Duration::from_us(*us) };
    list.iter().map(point).collect()
}

/// A thousand publishers of 10 messages a second, as in [LiC20, section 2.5.1].
fn alarms(brokers: u32) -> Topic {
    Topic {
        name: "alarms".into(),
        publishers: 1000,
        each: rate("10/s"),
        batch: 1,
        brokers: (1..=brokers).map(|number| format!("edge-{number}")).collect(),
        service: None,
        promise: points(&[("p99", 1000)]),
        limit: TopicLimit::Publishing,
        bucket: None,
        measured: None,
    }
}

fn measured(capacity: &str, latency: &[(&str, u64)]) -> Option<BrokerTimes> {
    Some(BrokerTimes { capacity: rate(capacity), latency: points(latency), worst: None })
}

fn planned(topics: Vec<Topic>) -> Result<Plan, Box<TopicRefusal>> {
    let cores: Vec<&[u32]> = vec![&[0]; HOSTS as usize];
    let mut site = sites(&cores, vec![leftovers("batch", "0%")]);
    site.topics = topics;
    plan(&site, &Facts::typical(vec![0])).map_err(|refusal| match refusal {
        Refusal::Topic(refusal) => refusal,
        other => panic!("{other}"),
    })
}

const HOSTS: u32 = 6;

#[test]
fn the_paper_s_topic_gets_the_bucket_with_which_one_in_a_hundred_waits() {
    // Without a broker's time, none of 99 % may wait: the least depth with P <= 1 %, 26 (spec messaging.md).
    let topic = Topic { promise: points(&[("p99", 1)]), ..alarms(1) };
    let found = planned(vec![topic.clone()]).unwrap().topics.remove(0);
    assert_eq!(found.bucket, Bucket { rate: rate("11k/s"), depth: Tokens::whole(26) });
    assert_eq!((found.delayed_ppm.div_ceil(10), found.brokers.len()), (862, 1)); // 0.861 %
    assert!(unmeasured(&topic).unwrap().contains("measured: {capacity"));
    // Split over six they wait for 11.384 ms at p99.
    let full = measured("1700/s", &[("p99.999", 1)]);
    let bucket = Some(found.bucket);
    let split = Topic { measured: full, bucket, promise: points(&[("p99", 12_000)]), ..alarms(6) };
    let found = planned(vec![split]).unwrap();
    assert_eq!(found.topics[0].brokers.len(), 6);
    let p99 = found.topics[0].predicted[0].within.ns();
    assert!((11_385_000..11_400_000).contains(&p99), "{p99}: 11.384 ms for p99, a little more for p99.001, and 1 us");
    let text = explain(&found, "alarms").unwrap();
    assert!(text.contains("the fewest that carry it, each up to 1700/s") && text.contains("50.250 %"), "{text}");
}

#[test]
fn at_delivery_each_share_has_a_token_more_for_the_message_that_enters_a_socket() {
    let topic = Topic { promise: points(&[("p99", 1)]), limit: TopicLimit::Delivery, ..alarms(1) };
    let found = planned(vec![topic.clone()]).unwrap().topics.remove(0);
    assert_eq!(found.bucket, Bucket { rate: rate("11k/s"), depth: Tokens::whole(27) }); // 26 at publishing
    assert_eq!(found.delayed_ppm.div_ceil(10), 862);
    let full = measured("1700/s", &[("p99.999", 1)]);
    let bucket = |depth| Some(Bucket { rate: rate("11k/s"), depth: Tokens::whole(depth) });
    let split = |depth| Topic {
        measured: full.clone(),
        bucket: bucket(depth),
        promise: points(&[("p99", 12_000)]),
        brokers: alarms(6).brokers,
        ..topic.clone()
    };
    let found = planned(vec![split(32)]).unwrap();
    let p99 = found.topics[0].predicted[0].within.ns();
    assert!((11_385_000..11_400_000).contains(&p99), "{p99}: as of 26 tokens at publishing");
    let told = planned(vec![split(11)]).unwrap_err().to_string();
    assert!(told.contains("each needs at least two"), "{told}");
    // What holds at publishing is not claimed at delivery.
    let mut bad = planned(vec![Topic { limit: TopicLimit::Publishing, ..topic }]).unwrap();
    check_plan(&bad).unwrap();
    bad.topics[0].limit = TopicLimit::Delivery;
    assert!(check_plan(&bad).unwrap_err().to_string().contains("that wait"));
}

#[test]
fn what_a_plan_claims_of_a_topic_is_refuted_if_it_is_too_good() {
    let latency = [("p50", 200), ("p99.9", 800)];
    let topics = vec![Topic {
        measured: measured("6k/s", &latency),
        promise: points(&[("p90", 900), ("p99", 1500)]),
        ..alarms(3)
    }];
    let good = planned(topics).unwrap();
    let broken = |change: &dyn Fn(&mut TopicPlan), what: &str| {
        let mut bad = good.clone();
        change(&mut bad.topics[0]);
        let told = check_plan(&bad).unwrap_err().to_string();
        assert!(told.contains("topic 'alarms'") && told.contains(what), "{told}");
    };
    assert_eq!(good.topics[0].brokers, ["edge-1", "edge-2"]);
    let whole = |depth| Bucket { rate: rate("11k/s"), depth: Tokens::whole(depth) };
    broken(
        &|topic| topic.predicted[1].within = topic.predicted[1].within.checked_sub(Duration::from_us(5)).unwrap(),
        "later than",
    );
    broken(
        &|topic| topic.promise[1].within = topic.predicted[1].within.checked_sub(Duration::from_ns(1)).unwrap(),
        "its promise",
    );
    broken(&|topic| topic.delayed_ppm -= 3, "that wait");
    broken(&|topic| topic.brokers.truncate(1), "shares");
    broken(&|topic| topic.brokers[1] = "edge-1".into(), "each once");
    broken(&|topic| topic.measured.as_mut().unwrap().capacity = rate("4999/s"), "can carry");
    broken(
        &|topic| {
            (topic.bucket, topic.share) =
                (whole(4), whole(2).share(1).map(|b| Bucket { rate: rate("5500/s"), ..b }).unwrap())
        },
        "",
    );
    broken(&|topic| topic.predicted.truncate(1), "one prediction a promise");
}

#[test]
fn refusals_say_what_would_fit() {
    let told = |topics: Vec<Topic>| planned(topics).unwrap_err().to_string();
    let slow = Topic { measured: measured("20k/s", &[("p99.9", 1200)]), ..alarms(1) };
    assert_eq!(
        told(vec![slow]),
        "topic 'alarms': p99 ≤ 1 ms is not kept even if no message waits for a token: a broker alone takes 1.2 ms; it would fit with \
         promise: {p99: 1.2ms}"
    );
    let full = Topic { measured: measured("4k/s", &[("p99.9", 200)]), ..alarms(2) };
    assert_eq!(
        told(vec![full]),
        "topic 'alarms': its 2 brokers cannot carry 10000/s beside what else they carry; it would fit with 3 brokers, or with publishers: 800"
    );
    // 26 tokens suffice if no message waits; 11 more come in the millisecond that 1 % may exceed.
    let few = Topic { bucket: Some(Bucket { rate: rate("10k/s"), depth: Tokens::whole(26) }), ..alarms(1) };
    assert!(told(vec![few]).ends_with(
        "less than 99 %: give tokens at a higher rate; it would fit with bucket: {rate: 11000/s, depth: 15}"
    ));
    let shallow = Topic { bucket: Some(Bucket { rate: rate("11k/s"), depth: Tokens::whole(3) }), ..alarms(1) };
    assert!(
        told(vec![shallow]).contains("it would fit with bucket: {rate: 11000/s, depth: 15}, or with promise: {p99: 2")
    );
}

#[test]
fn a_host_gets_what_its_broker_carries() {
    let mut site = sites(&[&[0], &[0], &[0]], vec![leftovers("batch", "0%")]);
    site.services[0].on = Some("edge-3".into());
    let latency = [("p99.9", 100)];
    site.topics = vec![
        Topic { measured: measured("10k/s", &latency), ..alarms(2) },
        Topic { name: "logs".into(), measured: measured("10k/s", &latency), ..alarms(2) },
    ];
    let of = |host: &str| {
        let part = plan_on(&site, &Facts::typical(vec![0]), host).unwrap();
        part.topics.iter().map(|topic| topic.name.clone()).collect::<Vec<_>>()
    };
    // The first takes all that edge-1 can.
    assert_eq!((of("edge-1"), of("edge-2"), of("edge-3")), (vec!["alarms".into()], vec!["logs".into()], vec![]));
}

fn drawn(rng: &mut StdRng, name: &str) -> Topic {
    let many = rng.random_range(1..=HOSTS);
    let mut brokers: Vec<String> = (1..=HOSTS).map(|number| format!("edge-{number}")).collect();
    brokers.rotate_left(rng.random_range(0..HOSTS) as usize);
    brokers.truncate(many as usize);
    let each = rng.random_range(1..30);
    let publishers = rng.random_range(1..2000);
    let within = |us: u64| [("p90", us / 2), ("p99", us)];
    let us = rng.random_range(10..20_000);
    let promise = points(&within(us)[usize::from(rng.random_bool(0.5))..]);
    let latency = [("p99.5", rng.random_range(5..2_000)), ("p99.95", rng.random_range(2_000..6_000))];
    let capacity = format!("{}/s", rng.random_range(2_000..40_000));
    let tokens = rng.random_range(80..200) * u64::from(publishers) * each / 100;
    let bucket =
        Bucket { rate: rate(&format!("{}/s", tokens.max(1))), depth: Tokens::of(rng.random_range(2..200), 2).unwrap() };
    Topic {
        name: name.into(),
        publishers,
        each: rate(&format!("{each}/s")),
        service: None,
        batch: if rng.random_bool(0.3) { rng.random_range(2..6) } else { 1 },
        brokers,
        promise,
        limit: if rng.random_bool(0.5) { TopicLimit::Delivery } else { TopicLimit::Publishing },
        bucket: rng.random_bool(0.4).then_some(bucket),
        measured: if rng.random_bool(0.8) { measured(&capacity, &latency) } else { None },
    }
}

#[test]
fn plans_are_proven_least_and_few_and_what_a_refusal_proposes_fits() {
    let mut rng = StdRng::seed_from_u64(31);
    let [mut alone, mut split, mut shared, mut proposed] = [0; 4];
    let mut causes = [0; 4];
    for _ in 0..800 {
        let topics: Vec<Topic> = ["a", "b", "c"].map(|name| drawn(&mut rng, name)).to_vec();
        let at = match planned(topics.clone()) {
            Ok(plan) => {
                least(&topics, &plan);
                for (topic, found) in topics.iter().zip(&plan.topics) {
                    *(if found.brokers.len() > 1 { &mut split } else { &mut alone }) += 1;
                    let part = |plan: &TopicPlan| plan.brokers.contains(&found.brokers[0]);
                    shared += u32::from(plan.topics.iter().filter(|plan| part(plan)).count() > 1);
                    assert!(topic.brokers.iter().filter(|broker| found.brokers.contains(broker)).eq(&found.brokers));
                }
                continue;
            }
            Err(refusal) => {
                let TopicRefusal { topic, cause, nearest } = *refusal;
                causes[match cause {
                    TopicCause::Capacity { .. } => 0,
                    TopicCause::Broker { .. } => 1,
                    TopicCause::Bucket { .. } => 2,
                    TopicCause::Wait { .. } => 3,
                    TopicCause::Analysis(why) => panic!("{why}"),
                }] += 1;
                (topics.iter().position(|other| other.name == topic).unwrap(), nearest)
            }
        };
        let (index, nearest) = at;
        for fit in nearest {
            let mut changed = topics[..=index].to_vec();
            let topic = &mut changed[index];
            match fit {
                // Hosts of tests are few, and some of them carry other topics.
                TopicFit::Brokers(_) => continue,
                TopicFit::Publishers(publishers) => topic.publishers = publishers,
                TopicFit::Bucket(bucket) => topic.bucket = Some(bucket),
                TopicFit::Promise(point) => {
                    topic.promise.retain(|other| other.percentile == point.percentile);
                    topic.promise[0] = point;
                }
            }
            if let Err(refusal) = planned(changed) {
                let cause = refusal.cause;
                // What is enough for one reason may not be for another, which is said next.
                let other = match fit {
                    TopicFit::Publishers(_) => {
                        matches!(cause, TopicCause::Broker { .. } | TopicCause::Wait { .. } | TopicCause::Bucket { .. })
                    }
                    TopicFit::Promise(_) => matches!(cause, TopicCause::Wait { .. } | TopicCause::Bucket { .. }),
                    _ => false,
                };
                assert!(other, "{fit}: {cause}");
            }
            proposed += 1;
        }
    }
    println!(
        "alone {alone}, split {split}, on a broker with others {shared}; refused {causes:?}; proposals {proposed}"
    );
    assert!([alone, split, shared, proposed].into_iter().chain(causes).all(|count| count > 15));
}

/// No broker fewer could carry it, and one token less is not enough.
fn least(topics: &[Topic], plan: &Plan) {
    for (index, (topic, found)) in topics.iter().zip(&plan.topics).enumerate() {
        let shallowest = if topic.limit == TopicLimit::Delivery { 2 } else { 1 } * found.brokers.len() as u64;
        if topic.bucket.is_none() && found.bucket.depth > Tokens::whole(shallowest) {
            let depth = Tokens::whole(found.bucket.depth.at_once() - 1);
            let mut fewer = topics[..=index].to_vec();
            fewer[index].bucket = Some(Bucket { depth, ..found.bucket });
            assert!(planned(fewer).is_err(), "{found:?}");
        }
        let Some(measured) = &topic.measured else { continue };
        let (Some(fewer), messages) =
            (found.brokers.len().checked_sub(1).filter(|n| *n > 0), topic.messages().unwrap())
        else {
            continue;
        };
        let load = |broker: &String| -> f64 {
            let before =
                topics.iter().zip(&plan.topics).take(index).filter(|(_, other)| other.brokers.contains(broker));
            before.map(|(other, plan)| other.messages().unwrap().per_second() / plan.brokers.len() as f64).sum()
        };
        let part = messages.per_second() / fewer as f64;
        let room =
            topic.brokers.iter().filter(|broker| load(broker) + part <= measured.capacity.per_second() * (1.0 - 1e-9));
        // Those on which another topic's measurement leaves less are not counted: this one's is looked at only.
        let others = topics[..index].iter().filter_map(|other| other.measured.as_ref()).map(|m| m.capacity).min();
        let bound = others.is_some_and(|least| least < measured.capacity);
        assert!(bound || room.count() < fewer, "{found:?}");
    }
}
