//! What was played, as tables.

use crate::interfaces::utilization;
use crate::play::{Counts, Served, STEPS};
use std::collections::BTreeMap;

/// One set and how it fared.
pub(crate) struct Played {
    /// Values of the study's case columns.
    pub(crate) case: Vec<String>,
    /// Number of the set within its case.
    pub(crate) set: u64,
    pub(crate) served: Served,
    /// Whether its interfaces fit together on the core.
    pub(crate) admitted: bool,
    /// Values of the study's arm columns, the first being the server's kind, and counts by domain.
    pub(crate) arms: Vec<(Vec<String>, Vec<Counts>)>,
}

/// The tables of a study, by name:
///
/// * `sets`: a row a set: its utilization, the bandwidth of its interfaces, the difference;
/// * `domains`: a row an arm of a set and domain (`rank` 1 is the highest priority): interface, jobs, misses, sums of clipped
///   response times (ms) and of response / deadline, how often it was switched to, and how many jobs were within 25, 50 and 75 % of their deadline;
/// * `distribution`: share of the pooled jobs of a case and arm within a part of the deadline, for all domains and for the
///   lowest.
pub(crate) fn tables(case: &[&str], arm: &[&str], played: &[Played]) -> BTreeMap<String, String> {
    let mut sets = Csv::new([case, &["set", "utilization", "bandwidth", "overhead", "admitted"]].concat());
    let mut domains = Csv::new(
        [
            case,
            &["set", "admitted"],
            arm,
            &["rank", "lowest", "period_ms", "budget_ms", "utilization", "overhead"],
            &["jobs", "misses", "response_ms", "ratio", "switches", "within_25", "within_50", "within_75"],
        ]
        .concat(),
    );
    let mut pooled: BTreeMap<Vec<String>, Vec<u64>> = BTreeMap::new();
    for one in played {
        let set = [one.case.clone(), vec![one.set.to_string()]].concat();
        let admitted = u8::from(one.admitted).to_string();
        let shares: Vec<(f64, f64)> = one
            .served
            .domains
            .iter()
            .zip(&one.served.interfaces)
            .map(|(tasks, interface)| (utilization(tasks), interface.bandwidth().as_f64()))
            .collect();
        let (needed, given) = shares.iter().fold((0.0, 0.0), |(u, b), share| (u + share.0, b + share.1));
        let numbers = [needed, given, given - needed].map(|share| format!("{share:.6}"));
        sets.row(set.iter().chain(&numbers).chain([&admitted]));
        for (arm, counts) in &one.arms {
            for (rank, counts) in counts.iter().enumerate() {
                let interface = one.served.interfaces[rank];
                let lowest = rank + 1 == one.served.domains.len();
                let (needed, given) = shares[rank];
                let ms = |ns: u128| format!("{:.6}", ns as f64 / 1e6);
                let numbers = [
                    (rank + 1).to_string(),
                    u8::from(lowest).to_string(),
                    ms(u128::from(interface.period.ns())),
                    ms(u128::from(interface.budget.ns())),
                    format!("{needed:.6}"),
                    format!("{:.6}", given - needed),
                    counts.jobs.to_string(),
                    counts.misses.to_string(),
                    ms(counts.response_ns),
                    ms(counts.ratio_ppm),
                    counts.switches.to_string(),
                ];
                let within = [25, 50, 75].map(|percent| counts.within(percent).to_string());
                domains.row(set.iter().chain([&admitted]).chain(arm).chain(&numbers).chain(&within));
                for whose in [Some("all"), Some("lowest").filter(|_| lowest)].into_iter().flatten() {
                    let key = [one.case.clone(), arm.clone(), vec![whose.to_string()]].concat();
                    let steps = pooled.entry(key).or_insert_with(|| vec![0; counts.steps.len()]);
                    steps.iter_mut().zip(&counts.steps).for_each(|(all, one)| *all += one);
                }
            }
        }
    }
    let mut distribution = Csv::new([case, arm, &["domains", "ratio", "share"]].concat());
    for (key, steps) in &pooled {
        let (jobs, mut within) = (steps.iter().sum::<u64>(), 0);
        for (step, jobs_here) in steps.iter().enumerate() {
            within += jobs_here;
            let point = [step as f64 / STEPS as f64, within as f64 / jobs as f64];
            distribution.row(key.iter().chain(&point.map(|x| format!("{x:.6}"))));
        }
    }
    let named = [("sets", sets), ("domains", domains), ("distribution", distribution)];
    named.into_iter().map(|(name, table)| (name.to_string(), table.text())).collect()
}

/// A table that is being written.
pub(crate) struct Csv(csv::Writer<Vec<u8>>);

impl Csv {
    pub(crate) fn new(columns: Vec<&str>) -> Csv {
        let mut csv = Csv(csv::Writer::from_writer(Vec::new()));
        csv.0.write_record(columns).expect("memory takes everything");
        csv
    }

    pub(crate) fn row<'a>(&mut self, fields: impl IntoIterator<Item = &'a String>) {
        self.0.write_record(fields).expect("as many fields as columns");
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8(self.0.into_inner().expect("memory takes everything")).expect("texts went in")
    }
}
