//! Packets: cores and priorities within all promises, proven by another way than the planner's, or refused with what would fit.

mod common;

use common::{leftovers, plan, site, sites};
use giusto_analysis::packets::{delay_bound, Flow, Poll};
use giusto_model::{
    Bucket, Duration, HostNetwork, NetworkPlan, PacketClass, PacketUnit, Plan, Rate, Site, Tokens, Uplink, Vif,
    VifPlan, Within,
};
use giusto_planner::{explain, plan_on, Facts, PacketCause, PacketFit, PacketRefusal, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn rate(per_second: u64) -> Rate {
    Rate::of(per_second, Duration::from_ms(1000)).unwrap()
}

fn bucket(per_second: u64, burst: u64) -> Bucket {
    Bucket { rate: rate(per_second), depth: Tokens::whole(burst) }
}

fn p99(us: u64) -> Vec<Within> {
    vec![Within { percentile: "p99".parse().unwrap(), within: Duration::from_us(us) }]
}

fn high(name: &str, per_second: u64, burst: u64, us: Option<u64>) -> Vif {
    let promise = us.map_or(Vec::new(), p99);
    Vif {
        name: name.into(),
        class: PacketClass::High,
        bucket: Some(bucket(per_second, burst).into()),
        received: None,
        promise,
    }
}

fn low(name: &str, per_second: Option<u64>) -> Vif {
    let bucket = per_second.map(|packets| bucket(packets, 10).into());
    Vif { name: name.into(), class: PacketClass::Low, bucket, received: None, promise: Vec::new() }
}

/// Cores that process 50,000 packets each: 20 us a packet, 1.28 ms a poll.
fn network(cores: u32, uplinks: &[(u64, u64)]) -> HostNetwork {
    let uplink = |(nth, (packets, burst)): (usize, &(u64, u64))| Uplink {
        name: format!("eth{nth}"),
        bucket: bucket(*packets, *burst),
    };
    HostNetwork {
        cores: (1..=cores).collect(),
        uplinks: uplinks.iter().enumerate().map(uplink).collect(),
        capacity: rate(50_000),
        poll: 64,
        count: PacketUnit::Skb,
    }
}

fn of(network: HostNetwork, vifs: Vec<Vif>) -> Site {
    let mut site = site(&[0], vec![leftovers("batch", "0%")]);
    site.hosts[0].network = Some(network);
    site.services[0].network = vifs;
    site
}

fn planned(site: &Site) -> Result<NetworkPlan, Box<PacketRefusal>> {
    match plan(site, &Facts::typical(vec![0])) {
        Ok(mut plan) => Ok(plan.network.remove(0)),
        Err(Refusal::Packets(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

fn bound(plan: &NetworkPlan, name: &str) -> u64 {
    let vif = plan.vifs.iter().find(|vif| vif.name == name).unwrap();
    vif.bound.unwrap().ns() / 1000
}

#[test]
fn bounds_are_a_poll_and_what_is_above_by_hand() {
    let vifs = vec![high("a", 5_000, 10, Some(3_500)), high("b", 1_000, 5, Some(2_500)), low("c", None)];
    let plan = planned(&of(network(1, &[(10_000, 20)]), vifs)).unwrap();
    let [a, b, c] = &plan.vifs[..] else { panic!("{plan:?}") };
    // The uplink is above both, b above a, and c has no priority.
    assert_eq!((plan.uplinks[0].priority, b.priority, a.priority, c.priority), (90, Some(49), Some(48), None));
    // b: (64 + 20 + 5 + 5) x 20 us, of which 11,000 of 50,000 packets take their part: those of the uplink, and b's own the other
    // way; a: twice 10 more, and 17,000.
    assert_eq!((bound(&plan, "b"), bound(&plan, "a")), (2_410, 3_454));
}

#[test]
fn the_soonest_is_not_always_the_first() {
    // Above a, b's many packets would make it wait for longer than they themselves wait for a's few.
    let vifs = vec![high("a", 500, 10, Some(2_700)), high("b", 10_000, 1, Some(2_300))];
    let plan = planned(&of(network(1, &[]), vifs)).unwrap();
    assert_eq!((plan.vifs[0].priority, plan.vifs[1].priority), (Some(49), Some(48)));
    // (64 + 20 + 2) x 20 us, of which b's 10,000 each way and a's 500 leave 59 %: 2.9 ms, if b were above.
    assert_eq!((bound(&plan, "a"), bound(&plan, "b")), (1_696, 2_205));
}

#[test]
fn the_highest_rates_go_where_least_comes_and_else_where_promises_are_kept() {
    // [LiC20, section 3.4.3]: a fair assignment whatever the order; a tenth of its rates.
    for order in [[1, 2, 3, 4, 5, 6, 7, 8], [5, 1, 6, 2, 7, 3, 8, 4], [8, 7, 6, 5, 4, 3, 2, 1]] {
        let vifs = order.map(|dom| high(&format!("dom-{dom}"), dom * 1_000, 1, None)).to_vec();
        let plan = planned(&of(network(2, &[]), vifs)).unwrap();
        let load = |core| -> f64 {
            let here = plan.vifs.iter().filter(|vif| vif.core == core);
            here.map(|vif| vif.bucket.unwrap().rate.per_second()).sum()
        };
        assert_eq!((load(1), load(2)), (18_000.0, 18_000.0));
    }
    // The two with short promises and large bursts must not be on one core, which the least load would do.
    let vifs = vec![
        high("a", 9_000, 1, None),
        high("b", 8_000, 1, None),
        high("c", 100, 15, Some(2_000)),
        high("d", 8_950, 1, None),
        high("e", 50, 15, Some(2_000)),
    ];
    let plan = planned(&of(network(2, &[]), vifs)).unwrap();
    let core = |name: &str| plan.vifs.iter().find(|vif| vif.name == name).unwrap().core;
    assert_ne!(core("c"), core("e"), "{plan:?}");
    // The low class: known rates where least comes, the others one by one.
    let vifs = vec![high("a", 9_000, 1, None), low("b", Some(5_000)), low("c", None), low("d", None), low("e", None)];
    let plan = planned(&of(network(2, &[]), vifs)).unwrap();
    let cores: Vec<u32> = plan.vifs.iter().map(|vif| vif.core).collect();
    assert_eq!(cores, [1, 2, 1, 2, 1]);
}

#[test]
fn refusals_say_who_why_and_what_would_fit() {
    let told = |site: &Site| planned(site).unwrap_err().to_string();
    let late = of(network(1, &[]), vec![high("a", 1_000, 10, Some(1_400)), low("b", None)]);
    assert_eq!(
        told(&late),
        "interface 'a' on edge-1: with it an interface of core 1 is late: even 'a', if it is last there, waits for up to 1.714 \
         ms, and 1.4 ms is promised; it would fit with burst: 2, or with a promise of 1714.286us, or with 2 cores for packets"
    );
    let busy = of(network(1, &[]), vec![high("a", 10_000, 10, None), high("b", 15_000, 10, None)]);
    assert_eq!(
        told(&busy),
        "interface 'b' on edge-1: with it core 1 would process packets of uplinks and the high class for 1002.08 ms of a \
         second, and 900 ms are allowed; it would fit with rate: 12448/s, or with 2 cores for packets"
    );
    let told_of = told(&of(network(1, &[]), tight(50)));
    assert!(told_of.contains("'v49'") && told_of.contains("core 1 has 49 priorities for its kind"), "{told_of}");
    // Many that do not fit are refused in reasonable time, too.
    let crowd = (0..40).map(|nth| high(&format!("v{nth}"), 900, 30, Some(6_000))).collect();
    assert!(told(&of(network(4, &[]), crowd)).contains("is late"));
    let flood = of(network(1, &[(49_000, 10)]), vec![]);
    assert!(told(&flood).starts_with("interface 'eth0' on edge-1: with it core 1 would"));
}

#[test]
fn a_promise_shorter_than_a_poll_of_the_low_class_has_a_core_without_it() {
    let vifs = |us| vec![high("a", 1_000, 5, Some(us)), high("b", 500, 2, None), low("c", None), low("d", None)];
    let told = planned(&of(network(1, &[]), vifs(700))).unwrap_err().to_string();
    assert!(told.contains("'a'") && told.contains("2 cores for packets"), "{told}");
    // Nothing is changed for a promise that is kept without.
    let cores = |plan: &NetworkPlan| plan.vifs.iter().map(|vif| vif.core).collect::<Vec<u32>>();
    assert_eq!(cores(&planned(&of(network(2, &[]), vifs(2_000))).unwrap()), [1, 2, 2, 1]);
    let plan = planned(&of(network(2, &[]), vifs(700))).unwrap();
    assert_eq!(cores(&plan), [1, 2, 2, 2]);
    // (5 + 5) x 20 us, of which 1,000 packets the other way take a fiftieth.
    assert_eq!((bound(&plan, "a"), bound(&plan, "b")), (204, 1_373));
    let quiet = plan.reasons.iter().find(|reason| reason.what == "quiet").map(|reason| reason.value.as_str());
    assert_eq!(quiet, Some("1"));
    // Of several there the one above waits for as much as can wait of the one below: 2 and a share of 1.7 ms.
    let vifs = vec![high("a", 1_000, 5, Some(400)), high("b", 500, 2, Some(500)), low("c", None)];
    let plan = planned(&of(network(2, &[]), vifs)).unwrap();
    assert_eq!((cores(&plan), plan.vifs[0].priority), (vec![1, 1, 2], Some(49)));
    assert!((264..=285).contains(&bound(&plan, "a")), "{plan:?}");
    // The uplink stays where the low class is.
    let vifs = vec![high("a", 1_000, 5, Some(400)), low("c", None)];
    let plan = planned(&of(network(2, &[(2_000, 10)]), vifs)).unwrap();
    assert_eq!((cores(&plan), plan.uplinks[0].core), (vec![1, 2], 2));
    // What is proven of it does not hold beside the low class, nor beside an uplink.
    let site = of(network(2, &[(2_000, 10)]), vec![high("a", 1_000, 5, Some(400)), low("c", None)]);
    let good = self::plan(&site, &Facts::typical(vec![0])).unwrap();
    for change in [|plan: &mut NetworkPlan| plan.vifs[1].core = 1, |plan: &mut NetworkPlan| plan.uplinks[0].core = 1] {
        let mut bad = good.clone();
        change(&mut bad.network[0]);
        let told = check_plan(&bad).unwrap_err().to_string();
        assert!(told.contains("waits any more"), "{told}");
    }
}

/// Each is in time only with no more ahead than those before it.
fn tight(count: usize) -> Vec<Vif> {
    let capacity = rate(50_000);
    let flow = Flow { bucket: bucket(10, 1), capacity };
    let poll = Poll { packets: 64, capacity, late: Duration::ZERO };
    let bound = |above: usize| delay_bound(&vec![flow; 2 * above + 1], flow, poll).unwrap().unwrap();
    let within = |nth: usize| bound(nth).ns().div_ceil(1_000);
    (0..count).map(|nth| high(&format!("v{nth}"), 10, 1, Some(within(nth)))).chain([low("low", None)]).collect()
}

#[test]
fn more_interfaces_than_priorities_share_the_last_ones_and_count_each_other() {
    let distinct = |plan: &NetworkPlan| {
        let mut all: Vec<u8> = plan.vifs.iter().filter_map(|vif| vif.priority).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    // As many as there are priorities, then twice as many, of which half have no time to spare: `plan` has them proven.
    assert_eq!(distinct(&planned(&of(network(1, &[]), tight(49))).unwrap()), 49);
    let mut vifs = tight(48);
    vifs.extend((48..100).map(|nth| high(&format!("v{nth}"), 10, 1, (nth % 2 == 0).then_some(20_000))));
    let plan = planned(&of(network(1, &[(1_000, 4)]), vifs)).err();
    assert!(plan.is_some_and(|refusal| refusal.interface == "v0"), "the uplink is above all of them");
    let mut vifs = tight(48);
    vifs.extend((48..100).map(|nth| high(&format!("v{nth}"), 10, 1, (nth % 2 == 0).then_some(20_000))));
    let plan = planned(&of(network(1, &[]), vifs)).unwrap();
    assert_eq!(distinct(&plan), 49);
    let last: Vec<&VifPlan> = plan.vifs.iter().filter(|vif| vif.priority == Some(1)).collect();
    assert_eq!((last.len(), last.iter().all(|vif| vif.bound == last[0].bound)), (52, true));
    // (64 + 2 x 100) x 20 us, of which 10 packets a second of 199 others take their part.
    assert_eq!(bound(&plan, "v99"), 5_498);
    assert!(last[0].reasons.iter().any(|reason| reason.why.contains("shared with 51")), "{:?}", last[0].reasons);
    // Where a share would be too long, it is not given: here only the last two have time for it.
    let mut vifs = tight(48);
    vifs.extend([high("x", 10, 1, Some(4_000)), high("y", 10, 1, Some(4_000))]);
    let plan = planned(&of(network(1, &[]), vifs)).unwrap();
    let shared: Vec<&str> =
        plan.vifs.iter().filter(|vif| vif.priority == Some(1)).map(|vif| vif.name.as_str()).collect();
    assert_eq!(shared, ["x", "y"]);
}

#[test]
fn a_host_gets_its_own_packets_and_every_name_is_explained() {
    let mut site = sites(&[&[0], &[0], &[0]], vec![leftovers("batch", "0%"), leftovers("other", "0%")]);
    for (index, name) in [(0, "edge-1"), (1, "edge-3")] {
        site.services[index].on = Some(name.into());
        site.services[index].network = vec![high("vnet0", 1_000, 4, Some(5_000)), low("vnet1", None)];
    }
    site.hosts[0].network = Some(network(1, &[(1_000, 2)]));
    site.hosts[2].network = Some(network(2, &[]));
    let all = plan(&site, &Facts::typical(vec![0])).unwrap();
    let names = |plan: &Plan| plan.network.iter().map(|network| network.on.clone()).collect::<Vec<_>>();
    assert_eq!(names(&all), ["edge-1", "edge-3"]);
    for (host, services) in [("edge-1", 2), ("edge-2", 0), ("edge-3", 2)] {
        let part = plan_on(&site, &Facts::typical(vec![0]), host).unwrap();
        assert_eq!(part.network, all.on(host).unwrap().network);
        assert_eq!(part.network.iter().map(|network| network.vifs.len()).sum::<usize>(), services);
    }
    let text = ["batch", "vnet1", "network"].map(|name| explain(&all, name).unwrap());
    assert!(text[0].contains("interface vnet0 of batch") && text[0].contains("D_i"), "{}", text[0]);
    assert!(text[1].contains("SCHED_OTHER"), "{}", text[1]);
    assert!(text[2].contains("uplink eth0") && text[2].contains("packets on edge-3"), "{}", text[2]);
    assert!(explain(&all, "vnet2").unwrap_err().to_string().contains("vnet0, vnet1, vnet0, vnet1, network"));
}

#[test]
fn what_a_plan_claims_of_packets_is_refuted_if_it_is_too_good() {
    let vifs = vec![high("a", 5_000, 10, Some(2_600)), high("b", 1_000, 5, Some(2_300)), low("c", Some(10))];
    let site = of(network(2, &[(10_000, 20), (1_000, 1)]), vifs);
    let mut good = plan(&site, &Facts::typical(vec![0])).unwrap();
    // All on one core, to have something above.
    let mut one = site.clone();
    one.hosts[0].network.as_mut().unwrap().cores = vec![1];
    good.network = plan(&one, &Facts::typical(vec![0])).map(|plan| plan.network).unwrap_or(good.network);
    let broken = |change: &dyn Fn(&mut NetworkPlan), what: &str| {
        let mut bad = good.clone();
        change(&mut bad.network[0]);
        let told = check_plan(&bad).unwrap_err().to_string();
        assert!(told.contains("packets on edge-") && told.contains(what), "{what}: {told}");
    };
    let less = |vif: &mut VifPlan| vif.bound = vif.bound.and_then(|bound| bound.checked_sub(Duration::from_ns(1)));
    broken(&|plan| less(&mut plan.vifs[0]), "waits any more");
    broken(&|plan| less(&mut plan.vifs[1]), "waits any more");
    broken(&|plan| plan.vifs[1].promise[0].within = Duration::from_us(1_000), "the promise of 'b'");
    // Who shares its priority counts as above.
    broken(&|plan| plan.vifs[0].priority = plan.vifs[1].priority, "waits any more");
    broken(&|plan| (plan.uplinks[1].core, plan.uplinks[1].priority) = (plan.uplinks[0].core, 90), "distinct");
    broken(&|plan| plan.vifs[1].priority = Some(95), "less than");
    broken(&|plan| plan.vifs[0].bucket = None, "all three");
    broken(&|plan| plan.vifs[2].priority = Some(3), "none in the low class");
    broken(&|plan| plan.vifs[2].name = "a".into(), "each once");
    broken(&|plan| plan.vifs[0].core = 9, "a core for packets");
    broken(&|plan| plan.cores = vec![0, 1, 2], "for packets alone");
    broken(&|plan| plan.on = "edge-2".into(), "");
    broken(&|plan| plan.uplinks[0].uplink.bucket.rate = rate(48_000), "lets real-time threads");
    broken(&|plan| plan.poll = 128, "waits any more");
    broken(&|plan| plan.capacity = rate(40_000), "waits any more");
}

fn drawn(rng: &mut StdRng) -> Site {
    let often = rng.random_bool(0.4);
    let vif = |rng: &mut StdRng, nth: usize| {
        let name = format!("vnet{nth}");
        match rng.random_bool(0.25) {
            true => low(&name, rng.random_bool(0.5).then_some(100)),
            false => {
                let us = rng.random_bool(if often { 0.2 } else { 0.7 }).then(|| rng.random_range(1_200..6_000));
                high(&name, rng.random_range(10..if often { 30_000 } else { 8_000 }), rng.random_range(1..40), us)
            }
        }
    };
    let many = rng.random_range(1..10);
    let vifs = (0..many).map(|nth| vif(rng, nth)).collect();
    let uplinks = (0..rng.random_range(0..3)).map(|_| (rng.random_range(100..8_000), rng.random_range(1..40)));
    let uplinks: Vec<(u64, u64)> = uplinks.collect();
    of(network(rng.random_range(1..4), &uplinks), vifs)
}

/// The site as far as the interface that was refused, and with the low class, changed as proposed.
fn changed(site: &Site, interface: &str, fit: PacketFit) -> Site {
    let mut site = site.clone();
    let network = site.hosts[0].network.as_mut().unwrap();
    let change = |bucket: &mut Bucket| match fit {
        PacketFit::Rate(rate, _) => bucket.rate = rate,
        PacketFit::Burst(burst) => bucket.depth = Tokens::whole(burst),
        PacketFit::Within(_) | PacketFit::Cores(_) => {}
    };
    match network.uplinks.iter().position(|uplink| uplink.name == interface) {
        Some(at) => {
            network.uplinks.truncate(at + 1);
            site.services[0].network.retain(|vif| vif.class == PacketClass::Low);
            change(&mut network.uplinks[at].bucket);
        }
        None => {
            let vifs = &mut site.services[0].network;
            let at = vifs.iter().position(|vif| vif.name == interface).unwrap();
            let later: Vec<Vif> = vifs.drain(at + 1..).filter(|vif| vif.class == PacketClass::Low).collect();
            vifs.extend(later);
            if let PacketFit::Within(within) = fit {
                vifs[at].promise[0].within = within;
            }
            let mut sent = vifs[at].bucket.unwrap().packets();
            change(&mut sent);
            vifs[at].bucket = Some(sent.into());
        }
    }
    if let PacketFit::Cores(cores) = fit {
        network.cores = (1..=cores as u32).collect();
    }
    site
}

#[test]
fn plans_are_proven_and_what_a_refusal_proposes_fits_and_no_more() {
    let mut rng = StdRng::seed_from_u64(47);
    let [mut fits, mut shared, mut searched, mut beyond] = [0; 4];
    let (mut causes, mut proposed) = ([0; 2], [0; 4]);
    for _ in 0..300 {
        let site = drawn(&mut rng);
        match planned(&site) {
            // `plan` has had it proven.
            Ok(plan) => {
                fits += 1;
                let high = |core| plan.vifs.iter().filter(|vif| vif.core == core && vif.priority.is_some()).count();
                shared += u32::from(plan.cores.iter().any(|core| high(*core) > 1));
                searched += u32::from(plan.reasons.iter().any(|reason| reason.value.contains("all promises are kept")));
            }
            Err(refusal) => {
                let PacketRefusal { interface, cause, nearest, .. } = *refusal;
                causes[match cause {
                    PacketCause::Busy { demand, supply, .. } => {
                        assert!(demand > supply);
                        0
                    }
                    PacketCause::Late { promised, bound, .. } => {
                        assert!(bound.is_none_or(|bound| bound > promised));
                        1
                    }
                    other => panic!("{other:?}"),
                }] += 1;
                for fit in nearest {
                    assert!(planned(&changed(&site, &interface, fit)).is_ok(), "{fit}");
                    let more = match fit {
                        PacketFit::Rate(rate, bits) => Some(PacketFit::Rate(
                            rate.plus(Rate::of(1, Duration::from_ms(1000)).unwrap()).unwrap(),
                            bits,
                        )),
                        PacketFit::Burst(burst) => Some(PacketFit::Burst(burst + 1)),
                        PacketFit::Within(_) | PacketFit::Cores(_) => None,
                    };
                    if let Some(more) = more {
                        assert!(planned(&changed(&site, &interface, more)).is_err(), "{more}");
                        beyond += 1;
                    }
                    proposed[match fit {
                        PacketFit::Rate(..) => 0,
                        PacketFit::Burst(_) => 1,
                        PacketFit::Within(_) => 2,
                        PacketFit::Cores(_) => 3,
                    }] += 1;
                }
            }
        }
    }
    println!("fits {fits}, several on a core {shared}, searched {searched}; refused {causes:?}; proposed {proposed:?}, a step beyond {beyond}");
    assert!([fits, shared, searched, beyond].into_iter().chain(causes).chain(proposed).all(|count| count > 6));
}
