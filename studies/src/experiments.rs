//! The experiment of each study.

use crate::{akita, csa, m2, mdds1, paths, placement, rtzk, srtm, vas, vatc, vm_latency};
use crate::{Error, Name, Size};
use std::collections::BTreeMap;
use std::path::Path;

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
        Name::VasSynthetic => vas::synthetic::run(size, played),
        Name::VasRedis => vas::redis::run(size, folder, played),
        Name::VasSpark => vas::spark::run(size, folder, played),
        Name::Placement => placement::run(size, played),
        Name::PathsSplit => paths::split::run(size, played),
        Name::PathsTightness => paths::tightness::run(size, played),
        Name::VmLatency => vm_latency::run(size, played),
    }
}
