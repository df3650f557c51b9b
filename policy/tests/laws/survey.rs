use crate::driver::{play, Driver};
use crate::{reservation, ALL};
use giusto_policy::Order;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
#[test]
fn survey() {
    std::panic::set_hook(Box::new(|_| {}));
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let lateness: f64 = std::env::var("LATE").ok().and_then(|n| n.parse().ok()).unwrap_or(0.2);
    let mut found: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for seed in 0..n {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let order = if seed % 2 == 0 { Order::FixedPriority } else { Order::Edf };
        let cores = [1, 1, 2, 3, 4][random.random_range(0..5)];
        let specs: Vec<_> = (0..random.random_range(1..=6)).map(|_| reservation(&mut random, &ALL)).collect();
        let driver = Driver {
            cores,
            late: if seed % 3 == 0 { 0.0 } else { lateness },
            steal: if seed % 5 == 0 { 0.2 } else { 0.0 },
            change: if seed % 7 == 0 { 0.0 } else { 0.3 },
            calm: random.random_range(1..30),
            always_ready: usize::from(seed % 4 == 0),
            length: 400,
        };
        if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(order, &specs, driver, &mut random))) {
            let text = e.downcast_ref::<String>().cloned().unwrap_or_default();
            let mut key: String = text.split(" at ").next().unwrap().replace(|c: char| c.is_ascii_digit(), "");
            for k in ["Sporadic", "ConstantBandwidth", "Polling", "Deferrable", "Periodic", "NextPeriod", "Boost", "Now", "Charge", "Edf"] {
                if text.split("The least").nth(1).unwrap_or("").contains(k) { key += " "; key += k; }
            }
            let e = found.entry(key).or_insert((0, text.clone()));
            e.0 += 1;
            if text.len() < e.1.len() { e.1 = text.clone(); }
        }
    }
    let mut all: Vec<_> = found.into_iter().collect();
    all.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
    for (k, (n, text)) in all { println!("=== {n} x {k}\n{text}"); }
}
