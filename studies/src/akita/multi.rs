//! Several Memcached machines on one core, one of low criticality and more and more of high. [Asy20, § 4.2, Fig. 6]. And what the
//! paper's rule for going back to LO mode costs: guarantees missed.

use crate::akita::back;
use crate::akita::{each, memcached, percentiles, play, How, Under, Vm, TYPE_1, TYPE_2};
use crate::vatc::{named, table, us};
use crate::{Error, Size};
use giusto_model::Duration;
use rand::RngExt;
use std::collections::BTreeMap;

/// Connections of each machine, and requests a second of each: 11 % of a core.
const CONNECTIONS: u32 = 4;
const RATE: u64 = 600;
/// Machines of high criticality; three fill the core with their worst cases, beside the one of low.
const HIGH: [u32; 4] = [0, 1, 2, 3];

/// Tables `rtt`, a row for each set and kind of machine; `back`, see [`back`].
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let cases: Vec<(u32, Under)> =
        [Under::Akita, Under::Fair].into_iter().flat_map(|under| HIGH.map(|high| (high, under))).collect();
    let rows = each(&Size { cases: None, ..size }, played, &cases, |&(high, under), set| one(&size, high, under, set))?;
    let columns =
        ["high", "under", "vm", "set", "requests", "mean_us", "p50_us", "p99_us", "p999_us", "max_us", "late"];
    Ok(named(vec![("rtt", table(columns.to_vec(), &rows.concat())), ("back", back::table(&size)?)]))
}

fn one(size: &Size, high: u32, under: Under, set: u64) -> Result<Vec<Vec<String>>, Error> {
    let seed = size.stream(0, set).random();
    let second = Duration::from_ms(1000);
    let how = How { cores: 1, under, length: size.length, from: second, window: second, seed };
    let machine = |of| Vm { of, core: 0, runs: Some(memcached(CONNECTIONS, RATE)) };
    let vms: Vec<Vm> = std::iter::once(machine(TYPE_2)).chain((0..high).map(|_| machine(TYPE_1))).collect();
    let seen = play(&vms, how)?;
    let mut rows = Vec::new();
    for (vm, name) in [(0, "low"), (1, "high")].into_iter().take(1 + usize::from(high > 0)) {
        let responses = seen.watch.responses(vm);
        let late = u8::from(responses.max() > Duration::from_us(vms[vm].of.period));
        rows.push(
            [
                vec![high.to_string(), under.name().into(), name.into(), set.to_string()],
                vec![responses.jobs().to_string(), us(responses.mean_ns() as u64)],
                percentiles(&seen, vm, &[50.0, 99.0, 99.9, 100.0]),
                vec![late.to_string()],
            ]
            .concat(),
        );
    }
    Ok(rows)
}
