use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

fn vifs(all: &[(usize, u64)]) -> Vec<Vif> {
    all.iter().enumerate().map(|(n, &(at, load))| Vif { name: format!("v{n:02}"), at, load }).collect()
}

/// The paper's own case (chapter 3, figure 3.11): loads 1 to 8, the two ways in which they can come.
#[test]
fn least_load_first_is_even_where_least_number_first_depends_on_the_order() {
    let sum = |places: &[usize], loads: &[u64], core| -> u64 {
        places.iter().zip(loads).filter(|(at, _)| **at == core).map(|(_, load)| load).sum()
    };
    let worst = [8, 4, 7, 3, 6, 2, 5, 1]; // the heavy ones come first, third, …
    let number = least_number_first(2, 8);
    assert_eq!((sum(&number, &worst, 0), sum(&number, &worst, 1)), (26, 10));
    let all: Vec<(usize, u64)> = worst.iter().zip(&number).map(|(&load, &at)| (at, load)).collect();
    let load = worthwhile(&[0, 0], &vifs(&all), &[]);
    assert_eq!((sum(&load, &worst, 0), sum(&load, &worst, 1)), (18, 18));
}

#[test]
fn what_was_promised_something_stays() {
    assert!(!may_move(PacketClass::High, true));
    assert!(
        may_move(PacketClass::High, false) && may_move(PacketClass::Low, false) && may_move(PacketClass::Low, true)
    );
}

/// Every order of places, by hand: the least that the busiest core can have.
fn best(base: &[u64], vifs: &[Vif]) -> u64 {
    let all = base.len().pow(vifs.len() as u32);
    (0..all)
        .map(|mut code| {
            let mut load = base.to_vec();
            for vif in vifs {
                load[code % base.len()] += vif.load;
                code /= base.len();
            }
            *load.iter().max().unwrap()
        })
        .min()
        .unwrap()
}

static MOVED: AtomicU32 = AtomicU32::new(0);
static STAYED: AtomicU32 = AtomicU32::new(0);
static LOWERED: AtomicU32 = AtomicU32::new(0);
static SHARED: AtomicU32 = AtomicU32::new(0);
static FULL: AtomicU32 = AtomicU32::new(0);

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Graham's bound for longest first on equal machines: at most 4/3 of the best; with something on them beforehand at most twice.
    #[test]
    fn the_greedy_is_never_far_from_the_best(
        cores in 1usize..4,
        loads in prop::collection::vec(0u64..100, 0..7),
        base in prop::collection::vec(0u64..50, 3),
    ) {
        let all = vifs(&loads.iter().map(|&load| (0, load)).collect::<Vec<_>>());
        let even = vec![0; cores];
        let greedy = busiest(&even, &all, &least_load_first(&even, &all));
        prop_assert!(greedy * 3 <= best(&even, &all) * 4, "{greedy}");
        let base = &base[..cores];
        prop_assert!(busiest(base, &all, &least_load_first(base, &all)) <= best(base, &all) * 2);
    }

    /// Moving never makes the busiest core busier, gains a fifth at least, and is over at once: the next look with the
    /// same loads moves no thread.
    #[test]
    fn moving_pays_or_does_not_happen(
        base in prop::collection::vec(0u64..50, 1..5),
        places in prop::collection::vec((0usize..5, 0u64..1000), 0..12),
        closed in prop::collection::vec(0usize..5, 0..3),
    ) {
        let all = vifs(&places.iter().map(|&(at, load)| (at % base.len(), load)).collect::<Vec<_>>());
        let stay: Vec<usize> = all.iter().map(|vif| vif.at).collect();
        let go = worthwhile(&base, &all, &closed);
        prop_assert!(go.iter().zip(&stay).all(|(to, at)| to == at || !closed.contains(to)));
        if go == stay {
            STAYED.fetch_add(1, Ordering::Relaxed);
        } else {
            MOVED.fetch_add(1, Ordering::Relaxed);
            prop_assert!(busiest(&base, &all, &go) * 5 <= busiest(&base, &all, &stay) * 4);
        }
        let then: Vec<Vif> = all.iter().zip(&go).map(|(vif, &at)| Vif { at, ..vif.clone() }).collect();
        // Where none may move in, one that has moved may make room for another.
        if closed.is_empty() {
            prop_assert_eq!(worthwhile(&base, &then, &[]), go);
        }
    }

    /// Above 0, never above the plan's; with a promise the plan's own; without one below all of those and in the plan's order,
    /// and different except for the last.
    #[test]
    fn priorities_of_a_core_keep_promises_and_are_in_order(planned in prop::collection::vec((1u8..9, any::<bool>()), 0..8)) {
        let named = |(n, &(planned, promised)): (usize, &(u8, bool))| Ranked { name: format!("v{n}"), planned, promised };
        let all: Vec<Ranked> = planned.iter().enumerate().map(named).collect();
        let promised = |vif: &&Ranked| vif.promised;
        let Some(given) = priorities(&all) else {
            FULL.fetch_add(1, Ordering::Relaxed);
            prop_assert!(all.iter().filter(promised).any(|vif| vif.planned == 1) && !all.iter().all(|vif| vif.promised));
            return Ok(());
        };
        for (a, p) in all.iter().zip(&given) {
            prop_assert!(*p > 0 && *p <= a.planned && (!a.promised || *p == a.planned));
            LOWERED.fetch_add(u32::from(*p < a.planned), Ordering::Relaxed);
            for (b, q) in all.iter().zip(&given).filter(|(b, _)| *b != a) {
                SHARED.fetch_add(u32::from(p == q && !a.promised), Ordering::Relaxed);
                prop_assert!(a.promised || !b.promised || p < q);
                prop_assert!(a.promised || b.promised || p != q || *p == 1);
                prop_assert!((a.promised, a.planned) <= (b.promised, b.planned) || p >= q);
            }
        }
        // An interface that has none of its number or above before it keeps its number.
        if let Some((first, p)) = all.iter().zip(&given).max_by_key(|(vif, p)| (vif.promised, **p)) {
            prop_assert_eq!(first.planned, *p);
        }
    }
}

/// The interesting cases occur: run again here, as tests run in any order.
#[test]
fn the_cases_that_matter_occur() {
    moving_pays_or_does_not_happen();
    priorities_of_a_core_keep_promises_and_are_in_order();
    let counts = [&MOVED, &STAYED, &LOWERED, &SHARED, &FULL].map(|count| count.load(Ordering::Relaxed));
    println!("moved, stayed, lowered, shared, full: {counts:?}");
    assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
}
