//! Which studies there are.

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
    /// [LiH21, § 3.4.1, Figs 3.6 to 3.11].
    VasSynthetic,
    /// [LiH21, § 3.4.2, Figs 3.12 and 3.13], measured on this machine.
    VasRedis,
    /// [LiH21, § 3.4.3, Figs 3.15 to 3.17], with a real Spark.
    VasSpark,
    /// Ours: servers on cores.
    Placement,
    /// Ours: servers of a path.
    PathsSplit,
    /// Ours: what is proven of a path beside what its messages take.
    PathsTightness,
    /// Abe22, latencies of hosts and guests, measured on this machine.
    VmLatency,
}

impl Name {
    /// All that are played in virtual time.
    pub const VIRTUAL: [Name; 22] = [
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
        Name::VasSynthetic,
        Name::Placement,
        Name::PathsSplit,
        Name::PathsTightness,
    ];

    /// What a machine must have on which it is played; `None` where all of it happens in virtual time.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            Name::Mdds1Measured | Name::Mdds1Redis | Name::VasRedis => Some("root, a second core, a quiet machine"),
            Name::VasSpark => Some("root, two cores, Java and Spark (Maven), a quiet machine"),
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
            Name::VasSynthetic => "vas-synthetic",
            Name::VasRedis => "vas-redis",
            Name::VasSpark => "vas-spark",
            Name::Placement => "placement",
            Name::PathsSplit => "paths-split",
            Name::PathsTightness => "paths-tightness",
            Name::VmLatency => "vm-latency",
        }
    }
}
