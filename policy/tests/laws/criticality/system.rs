//! Random systems of mixed criticality that pass the test of EDF-VD, which is written here once more, from the paper by
//! Baruah et al. (2012), in whole numbers.

use giusto_policy::Mixed;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Periods are multiples of 12 that divide 720, and x is a twelfth: so virtual deadlines are whole ns, and utilisations whole
/// 720ths.
const PERIODS: [u64; 5] = [12, 24, 36, 48, 60];
const ONE: u64 = 720;

#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) vms: Vec<Mixed>,
    /// x in twelfths.
    pub(crate) x: u64,
    /// Whether one of the conditions on x holds with equality, or the one of plain EDF.
    pub(crate) at_the_bound: bool,
    /// In 12 · 720ths: how much of the core the tighter of the two conditions takes.
    pub(crate) tightness: u64,
}

/// (U1(1), U2(1), U2(2)) in 720ths.
fn utilisations(vms: &[Mixed]) -> (u64, u64, u64) {
    let sum = |high: bool, budget: fn(&Mixed) -> u64| -> u64 {
        vms.iter().filter(|vm| vm.worst.is_some() == high).map(|vm| budget(vm) * ONE / vm.period).sum()
    };
    (sum(false, |vm| vm.optimistic), sum(true, |vm| vm.optimistic), sum(true, |vm| vm.worst.unwrap_or(0)))
}

/// Each x, in twelfths, with which the set passes; only 1 where plain EDF does.
fn passes(vms: &[Mixed]) -> Vec<System> {
    let (low, optimistic, worst) = utilisations(vms);
    let system = |x: u64, a: u64, b: u64| System {
        vms: vms
            .iter()
            .map(|vm| Mixed { virtual_deadline: vm.worst.map_or(vm.period, |_| vm.period * x / 12), ..*vm })
            .collect(),
        x,
        at_the_bound: a == 12 * ONE || b == 12 * ONE,
        tightness: a.max(b),
    };
    if low + worst <= ONE {
        return vec![system(12, 12 * (low + worst), 0)];
    }
    // U1(1) + U2(1) / x <= 1 and x U1(1) + U2(2) <= 1.
    let both = |x: u64| (12 * low + (12 * 12 * optimistic).div_ceil(x), x * low + 12 * worst);
    (1..=12)
        .map(|x| (x, both(x)))
        .filter(|&(_, (a, b))| a <= 12 * ONE && b <= 12 * ONE)
        .map(|(x, (a, b))| system(x, a, b))
        .collect()
}

fn vm(random: &mut ChaCha8Rng, high: bool) -> Mixed {
    let period = PERIODS[random.random_range(0..PERIODS.len())];
    let most = if high { period / 3 } else { period * 2 / 3 };
    let optimistic = random.random_range(1..=most);
    let most = if random.random_bool(0.3) { optimistic + 1 } else { period * 2 / 3 };
    let worst = random.random_range(optimistic..=most.max(optimistic));
    Mixed { optimistic, worst: high.then_some(worst), period, virtual_deadline: period }
}

/// Makes budgets larger as long as it passes, as plain EDF or not; whether it passes.
fn fills(vms: &mut [Mixed], plain: bool) -> bool {
    let good = |vms: &[Mixed]| passes(vms).first().is_some_and(|system| (system.x == 12) == plain);
    if !good(vms) {
        return false;
    }
    for i in 0..vms.len() {
        loop {
            let before = vms[i];
            let budget = vms[i].worst.unwrap_or(before.optimistic) + 1;
            vms[i] = match before.worst {
                Some(_) => Mixed { worst: Some(budget), ..before },
                None => Mixed { optimistic: budget, ..before },
            };
            if budget > before.period || !good(vms) {
                vms[i] = before;
                break;
            }
        }
    }
    true
}

/// The tightest of some that pass; `plain`: as plain EDF does.
pub(crate) fn random_system(random: &mut ChaCha8Rng, plain: bool) -> System {
    let mut best: Option<System> = None;
    let mut found = 0;
    while found < 3 {
        let highs = random.random_range(1..=3);
        let lows = random.random_range(0..=3);
        let mut vms: Vec<Mixed> = (0..highs + lows).map(|i| vm(random, i < highs)).collect();
        for i in (1..vms.len()).rev() {
            vms.swap(i, random.random_range(0..=i)); // ties go to the lower index
        }
        if (random.random_bool(0.5) && !fills(&mut vms, plain))
            || passes(&vms).first().is_none_or(|s| (s.x == 12) != plain)
        {
            continue;
        }
        let mut all = passes(&vms);
        found += 1;
        let one = all.swap_remove(random.random_range(0..all.len()));
        if best.as_ref().is_none_or(|best| one.tightness > best.tightness) {
            best = Some(one);
        }
    }
    best.expect("it was found")
}

#[test]
fn the_test_of_edf_vd_is_that_of_the_paper() {
    let high = |optimistic, worst, period| Mixed { optimistic, worst: Some(worst), period, virtual_deadline: period };
    let low = |optimistic, period| Mixed { optimistic, worst: None, period, virtual_deadline: period };
    let xs = |vms: &[Mixed]| passes(vms).iter().map(|system| system.x).collect::<Vec<_>>();
    assert_eq!(xs(&[low(6, 12), high(2, 6, 12)]), [12], "0.5 + 0.5 <= 1: plain EDF");
    // U1(1) = 1/2, U2(1) = 1/6, U2(2) = 2/3: x from (1/6) / (1/2) = 1/3 to (1/3) / (1/2) = 2/3.
    assert_eq!(xs(&[low(6, 12), high(2, 8, 12)]), [4, 5, 6, 7, 8]);
    assert_eq!(passes(&[low(6, 12), high(2, 8, 12)]).iter().filter(|system| system.at_the_bound).count(), 2);
    assert!(xs(&[low(18, 12), high(1, 1, 12)]).is_empty(), "U1(1) = 1.5 is nonsense");
    assert!(xs(&[low(6, 12), high(5, 8, 12)]).is_empty(), "(5/12) / (1/2) > 2/3");
}
