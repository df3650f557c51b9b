use giusto_model::{Bandwidth, Duration};

/// What a plan has to know about the machine; `compute` probes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The kernel's tick: budgets of SCHED_DEADLINE are enforced no finer. 0 where a timer enforces them exactly.
    pub tick: Duration,
    /// `sched_deadline_period_max_us`.
    pub deadline_period_max: Duration,
    /// `sched_deadline_period_min_us`.
    pub deadline_period_min: Duration,
    /// What the kernel admits of a core.
    pub deadline_bandwidth_cap: Bandwidth,
    /// Cores that are online, ascending.
    pub cores: Vec<u32>,
}

impl Facts {
    /// A stock Linux machine with these `cores`, for planning without one: 250 Hz, periods from 100 us to 4.194304 s,
    /// 95 % of a core.
    pub fn typical(cores: Vec<u32>) -> Self {
        Facts {
            tick: Duration::from_ms(4),
            deadline_period_max: Duration::from_us(4_194_304),
            deadline_period_min: Duration::from_us(100),
            deadline_bandwidth_cap: Bandwidth::new(19, 20).unwrap_or(Bandwidth::ONE),
            cores,
        }
    }
}
