//! The published experiments, repeated: random task sets or arrivals in, tables out.
//!
//! Called by the command line (`giusto study`) and by tests; calls `analysis` for interfaces, `simulator` for schedules, `measure`
//! where a study is about this machine, and `verify` for what the tables say. One module an experiment; each has a folder beside `src` with its `study.toml` (sizes
//! and claims) and a README (what the paper says, what comes out here). It decides nothing that a host would use.

mod akita;
mod csa;
pub mod interfaces;
mod m2;
mod mdds1;
mod measured;
pub mod play;
mod rtzk;
mod runner;
pub mod sets;
mod srtm;
mod tables;
mod vatc;
mod vm_latency;

pub use runner::{play, read, Played};

use giusto_model::Duration;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A study whose experiment is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// [Lee11, § IV-B, Figs 5 to 12].
    CsaPeriod,
    /// [Lee11, § IV-B, Figs 13 and 14].
    CsaEtf,
    /// [Lee11, § IV-C, Table I, Figs 15 and 16].
    CsaArinc,
    /// [LiH21, § 2.5.2, Fig. 2.4].
    M2StaticCost,
    /// [LiH21, § 4.3, Fig. 4.10].
    Mdds1Sweep,
    /// [LiH21, § 4.3, Fig. 4.11].
    Mdds1Select,
    /// [LiH21, § 4.4, Figs 4.13 and 4.14].
    Mdds1Synthetic,
    /// The same, measured on this machine.
    Mdds1Measured,
    /// [LiH21, § 4.4, Figs 4.15 and 4.16], measured on this machine.
    Mdds1Redis,
    /// [LiH21, § 5.4, Figs 5.8 to 5.10], on real ensembles.
    RtzkRecovery,
    /// [LiH21, § 5.5.1, Fig. 5.12]: a Kafka broker comes back.
    RtzkKafkaReconnect,
    /// [LiH21, § 5.5.2, Fig. 5.13]: a topic is made meanwhile.
    RtzkKafkaTopic,
    /// [LiH21, § 5.5.3, Figs 5.14 and 5.16]: messages on their way meanwhile.
    RtzkKafkaE2e,
    /// [LiC20, § 2.6.1, Fig. 2.6], in virtual time and with real brokers.
    SrtmPenalty,
    /// [LiC20, § 2.6.2, Fig. 2.7].
    SrtmConcentration,
    /// [LiC20, § 2.6.3, Fig. 2.8].
    SrtmMaxmin,
    /// [LiC20, § 2.6.4, Figs 2.9 to 2.11].
    SrtmCorrelation,
    /// [LiC20, § 2.6.5, Table 2.1].
    SrtmConvergence,
    /// [LiC20, § 2.6.2], with real brokers and a real distributor.
    SrtmReal,
    /// [LiC20, § 3.3.2, Fig. 3.4].
    VatcPacketrate,
    /// [LiC20, § 3.4.1, Figs 3.6 to 3.9].
    VatcInterference,
    /// [LiC20, § 3.4.2, Fig. 3.10].
    VatcBucket,
    /// [LiC20, § 3.4.3, Fig. 3.11].
    VatcRebalance,
    /// [LiC20, § 3.4, Figs 3.6 to 3.11], measured on this machine.
    VatcMeasured,
    /// [LiH21, § 2.5.4, Figs 2.7 and 2.8].
    M2Latency,
    /// [LiH21, § 2.5.2, Fig. 2.4].
    M2DeadlineMisses,
    /// [Asy20, § 4.1, Fig. 4].
    AkitaQuality,
    /// [Asy20, § 4.2, Fig. 5].
    AkitaMemcached,
    /// [Asy20, § 4.2, Fig. 6].
    AkitaMulti,
    /// [Asy20, § 4.4, Fig. 7].
    AkitaShares,
    /// [Asy20, § 4.3, Figs 8 and 9].
    AkitaScale,
    /// Abe22, latencies of hosts and guests, measured on this machine.
    VmLatency,
}

impl Name {
    /// All that are played in virtual time.
    pub const VIRTUAL: [Name; 18] = [
        Name::CsaPeriod,
        Name::CsaEtf,
        Name::CsaArinc,
        Name::M2StaticCost,
        Name::Mdds1Sweep,
        Name::Mdds1Select,
        Name::Mdds1Synthetic,
        Name::VatcPacketrate,
        Name::VatcInterference,
        Name::VatcBucket,
        Name::VatcRebalance,
        Name::M2Latency,
        Name::M2DeadlineMisses,
        Name::AkitaQuality,
        Name::AkitaMemcached,
        Name::AkitaMulti,
        Name::AkitaShares,
        Name::AkitaScale,
    ];

    /// What a machine must have on which it is played; `None` where all of it happens in virtual time.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            Name::Mdds1Measured | Name::Mdds1Redis => Some("root, a second core, a quiet machine"),
            Name::VatcMeasured => Some("root, two cores, a quiet machine"),
            Name::VmLatency => Some("root, QEMU, a quiet machine"),
            Name::RtzkRecovery => Some("Java, Python, a built server, a quiet machine"),
            Name::RtzkKafkaReconnect | Name::RtzkKafkaTopic | Name::RtzkKafkaE2e => {
                Some("Java, Python, a built server and Kafka (Maven), a quiet machine")
            }
            Name::SrtmPenalty
            | Name::SrtmConcentration
            | Name::SrtmMaxmin
            | Name::SrtmCorrelation
            | Name::SrtmConvergence => Some("Go"),
            Name::SrtmReal => Some("Go, Java, a built giusto-zookeeper, a quiet machine"),
            _ => None,
        }
    }

    /// As its folder is called.
    pub fn folder(self) -> &'static str {
        match self {
            Name::CsaPeriod => "csa-period",
            Name::CsaEtf => "csa-etf",
            Name::CsaArinc => "csa-arinc",
            Name::M2StaticCost => "m2-static-cost",
            Name::Mdds1Sweep => "mdds1-sweep",
            Name::Mdds1Select => "mdds1-select",
            Name::Mdds1Synthetic => "mdds1-synthetic",
            Name::Mdds1Measured => "mdds1-measured",
            Name::Mdds1Redis => "mdds1-redis",
            Name::RtzkRecovery => "rtzk-recovery",
            Name::RtzkKafkaReconnect => "rtzk-kafka-reconnect",
            Name::RtzkKafkaTopic => "rtzk-kafka-topic",
            Name::RtzkKafkaE2e => "rtzk-kafka-e2e",
            Name::SrtmPenalty => "srtm-penalty",
            Name::SrtmConcentration => "srtm-concentration",
            Name::SrtmMaxmin => "srtm-maxmin",
            Name::SrtmCorrelation => "srtm-correlation",
            Name::SrtmConvergence => "srtm-convergence",
            Name::SrtmReal => "srtm-real",
            Name::VatcMeasured => "vatc-measured",
            Name::VatcPacketrate => "vatc-packetrate",
            Name::VatcInterference => "vatc-interference",
            Name::VatcBucket => "vatc-bucket",
            Name::VatcRebalance => "vatc-rebalance",
            Name::M2Latency => "m2-latency",
            Name::M2DeadlineMisses => "m2-deadline-misses",
            Name::AkitaQuality => "akita-quality",
            Name::AkitaMemcached => "akita-memcached",
            Name::AkitaMulti => "akita-multi",
            Name::AkitaShares => "akita-shares",
            Name::AkitaScale => "akita-scale",
            Name::VmLatency => "vm-latency",
        }
    }
}

/// How much is played.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Random sets in each case.
    pub sets: u64,
    /// Simulated time of each.
    pub length: Duration,
    /// Of all randomness.
    pub seed: u64,
    /// How many of the study's cases, from the first on; `None`: all.
    pub cases: Option<u64>,
}

impl Size {
    /// From a size of a `study.toml`: `sets`, `seconds` and, if not all, `cases`. Errors: another key, or one that lacks.
    pub fn read(numbers: &BTreeMap<String, u64>, seed: u64) -> Result<Size, Error> {
        if let Some(unknown) = numbers.keys().find(|key| !["sets", "seconds", "cases"].contains(&key.as_str())) {
            return Err(Error::Size(format!("unknown key '{unknown}'")));
        }
        let number = |key: &str| match numbers.get(key) {
            Some(&number) if number > 0 && number < 1 << 30 => Ok(number),
            _ => Err(Error::Size(format!("'{key}' must be there, more than 0 and less than {}", 1u64 << 30))),
        };
        let cases = numbers.contains_key("cases").then(|| number("cases")).transpose()?;
        Ok(Size { sets: number("sets")?, length: Duration::from_ms(number("seconds")? * 1000), seed, cases })
    }

    /// The random stream of a set: sets of a case do not depend on how many there are.
    fn stream(&self, case: usize, set: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((case as u64) << 32 | set);
        rng
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sets a case, {} each, seed {}", self.sets, self.length, self.seed)
    }
}

/// Plays a study and returns its tables as CSV, by name. `played` is called after each set, with how many there are in all.
/// The same size gives the same bytes, whatever the machine, of those that are played in virtual time. The others measure this
/// machine and write what they need to `folder`.
pub fn run(
    name: Name,
    size: Size,
    folder: &Path,
    played: &(dyn Fn(u64) + Sync),
) -> Result<BTreeMap<String, String>, Error> {
    match name {
        Name::CsaPeriod => csa::period::run(size, played),
        Name::CsaEtf => csa::etf::run(size, played),
        Name::CsaArinc => csa::arinc::run(size, played),
        Name::M2StaticCost => m2::static_cost::run(size, played),
        Name::Mdds1Sweep => mdds1::sweep::run(size, played),
        Name::Mdds1Select => mdds1::select::run(size, played),
        Name::Mdds1Synthetic => mdds1::synthetic::run(size, played),
        Name::Mdds1Measured => mdds1::measured::run(size, folder, played),
        Name::Mdds1Redis => mdds1::redis::run(size, folder, played),
        Name::RtzkRecovery => rtzk::recovery::run(size, played),
        Name::RtzkKafkaReconnect => rtzk::kafka::reconnect(size, played),
        Name::RtzkKafkaTopic => rtzk::kafka::topic(size, played),
        Name::RtzkKafkaE2e => rtzk::kafka::e2e(size, played),
        Name::SrtmPenalty => srtm::penalty::run(size, folder, played),
        Name::SrtmConcentration => srtm::concentration::run(size, folder, played),
        Name::SrtmMaxmin => srtm::maxmin::run(size, folder, played),
        Name::SrtmCorrelation => srtm::correlation::run(size, folder, played),
        Name::SrtmConvergence => srtm::convergence::run(size, folder, played),
        Name::SrtmReal => srtm::real::run(size, folder, played),
        Name::VatcMeasured => vatc::measured::run(size, played),
        Name::VatcPacketrate => vatc::packetrate::run(size, played),
        Name::VatcInterference => vatc::interference::run(size, played),
        Name::VatcBucket => vatc::bucket::run(size, played),
        Name::VatcRebalance => vatc::rebalance::run(size, played),
        Name::M2Latency => m2::latency::run(size, played),
        Name::M2DeadlineMisses => m2::deadline_misses::run(size, played),
        Name::AkitaQuality => akita::quality::run(size, played),
        Name::AkitaMemcached => akita::memcached::run(size, played),
        Name::AkitaMulti => akita::multi::run(size, played),
        Name::AkitaShares => akita::shares::run(size, played),
        Name::AkitaScale => akita::scale::run(size, played),
        Name::VmLatency => vm_latency::run(size, played),
    }
}

/// Why a study cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A size of a `study.toml`.
    #[error("size: {0}; expected sets and seconds")]
    Size(String),
    /// A `study.toml`.
    #[error("{}: {why}", file.display())]
    File {
        /// Its path.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A domain that not even a whole core can serve.
    #[error("no interface serves a generated domain: it needs more than a core")]
    NoInterface,
    /// This machine cannot be measured.
    #[error("nothing was measured; this machine lacks: {0}")]
    Lacks(String),
    /// Something failed while it was.
    #[error("while this machine was measured: {0}")]
    Machine(String),
    /// A table or a figure.
    #[error("cannot write {}: {why}", file.display())]
    Write {
        /// Its path.
        file: PathBuf,
        /// Why not.
        why: std::io::Error,
    },
    /// A measurement.
    #[error(transparent)]
    Measure(#[from] giusto_measure::Error),
    /// Real servers, or the harness that kills them.
    #[error("the ensembles cannot be measured: {0}; expected java, python3 and a built server (mvn -f coordination/pom.xml -pl server package)")]
    Ensemble(String),
    /// The mathematics refuses.
    #[error(transparent)]
    Analysis(#[from] giusto_analysis::Error),
    /// The simulator refuses.
    #[error(transparent)]
    Simulator(#[from] giusto_simulator::Error),
    /// Claims or tables.
    #[error(transparent)]
    Claims(#[from] giusto_verify::study::Error),
}

impl Error {
    fn machine(why: impl std::fmt::Display) -> Error {
        Error::Machine(why.to_string())
    }
}
