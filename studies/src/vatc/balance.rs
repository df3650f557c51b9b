//! Eight guests with loads of 1 to 8 on two cores: [LiC20, § 3.4.3, Fig. 3.11].

use crate::tables::Csv;
use crate::vatc::cells::{percentile_ms, quiet};
use crate::vatc::host::{steal, Host, OTHERS};
use crate::Error;
use giusto_measure::packets::{ping, Flood, Flow, Ping, Pings, Place};
use giusto_measure::Generator;
use giusto_model::Duration;
use giusto_network::rebalance::least_number_first;

pub(crate) const COLUMNS: [&str; 6] = ["set", "order", "arm", "imbalance", "p99_first_ms", "p99_second_ms"];
/// The order in which guests of load 1 to 8 come: the worst for least number first, and the best.
const ORDERS: [(&str, [u64; 8]); 2] = [("worst", [8, 1, 7, 2, 6, 3, 5, 4]), ("best", [8, 7, 1, 2, 6, 5, 3, 4])];
pub(crate) const CELLS: u64 = ORDERS.len() as u64;
/// All loads together take this much of a core of the host: guests and remote machine share the second one, and must not be late for it.
const LOAD: f64 = 0.3;
const EVERY: Duration = Duration::from_ms(4);

/// The rows of a set; a core processes so many packets a second.
pub(crate) fn set(set: u64, core: f64, length: Duration, table: &mut Csv, played: &dyn Fn()) -> Result<(), Error> {
    for (name, loads) in ORDERS {
        let found = quiet(|| cell(loads, core, length))?;
        for (arm, (imbalance, [first, second])) in ["lnf", "giusto"].into_iter().zip(found) {
            let ms = |pings: &Pings| format!("{:.3}", percentile_ms(pings, 99.0));
            let row = [set.to_string(), name.into(), arm.into(), format!("{imbalance:.3}"), ms(&first), ms(&second)];
            table.row(&row);
        }
        played();
    }
    Ok(())
}

type Found = (f64, [Pings; 2]);

/// As least number first has placed the guests, and then rebalanced: how much more the busier core has than the mean, and pings by two more
/// guests, one on each core, whose packets come after all others.
fn cell(loads: [u64; 8], core: f64, length: Duration) -> Result<(Vec<Found>, u64), Error> {
    let cores = [0, OTHERS];
    let mut places: Vec<(u8, u32)> =
        least_number_first(2, 8).into_iter().zip(20..).map(|(at, rank)| (rank, cores[at])).collect();
    places.extend(cores.map(|core| (10, core)));
    let mut host = Host::spread(&places)?;
    let unit = core * LOAD / loads.iter().sum::<u64>() as f64;
    let flow = |(from, load): (usize, &u64)| Flow {
        from: Place::Guest(from),
        to: Place::Remote,
        rate: Some((*load as f64 * unit) as u64),
        core: OTHERS,
    };
    let flows: Vec<Flow> = loads.iter().enumerate().map(flow).collect();
    let mut at: Vec<u32> = places.iter().map(|place| place.1).collect();
    let (flood, noise) = (Flood::start(&host.stage, &flows)?, steal()?);
    let mut found = Vec::new();
    for arm in 0..2 {
        if arm == 1 {
            at = host.rebalanced()?;
        }
        let before = taken(&host)?;
        let mut trips = Vec::new();
        for from in [8, 9] {
            let generator = Generator { cpu: Some(OTHERS), fifo_priority: Some(50) };
            trips.push(ping(
                &host.stage,
                &Ping { from, every: EVERY, count: (length.ns() / EVERY.ns()) as u32, generator },
            )?);
        }
        let after = taken(&host)?;
        let on = |core: u32| -> u64 {
            (0..8).filter(|&guest| at[guest] == core).map(|guest| after[guest] - before[guest]).sum()
        };
        let (first, second) = (on(cores[0]), on(cores[1]));
        let imbalance = first.max(second) as f64 * 2.0 / (first + second).max(1) as f64;
        let trips: [Pings; 2] = trips.try_into().map_err(|_| Error::machine("two pings"))?;
        found.push((imbalance, trips));
    }
    flood.end()?;
    host.proven()?;
    let stolen = (steal()? - noise) * 1000 / (8 * length.ns());
    Ok((found, stolen))
}

fn taken(host: &Host) -> Result<Vec<u64>, Error> {
    (0..8).map(|guest| host.taken([guest])).collect()
}
