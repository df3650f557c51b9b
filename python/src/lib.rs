//! The native part of `import giusto`: values of Python in, rooms called without the GIL, answers and arrays out.
//!
//! Called by the Python sources in `giusto/` only, which are what people see: names, defaults, documentation. It decides nothing;
//! calculators are those of `answers`, so that Python and the command line say the same to the bit.

mod answer;
mod array;
mod arrow;
mod columns;
mod error;
mod field;
mod plan;
mod pool;
mod question;
mod readers;
mod recorder;
mod run;
mod simulate;
mod system;
mod value;
mod verify;
mod words;
mod worker;

/// The module.
#[pyo3::pymodule]
mod _giusto {
    #[pymodule_export]
    use crate::answer::{answer, answers};
    #[pymodule_export]
    use crate::columns::{JobRecords, SliceRecords};
    #[pymodule_export]
    use crate::plan::{plan, profile, PlanData, SiteData};
    #[pymodule_export]
    use crate::pool::{kinds, PoolData};
    #[pymodule_export]
    use crate::question::Question;
    #[pymodule_export]
    use crate::readers::{job_records, read_carts, read_rtapp_config, read_rtapp_log, read_sched, write_carts};
    #[pymodule_export]
    use crate::simulate::simulate_plan;
    #[pymodule_export]
    use crate::system::SystemData;
    #[pymodule_export]
    use crate::value::{rate, task, time};
    #[pymodule_export]
    use crate::verify::{check_plan, compare_two, judge_claims, kept, kolmogorov_smirnov, wasserstein};
    #[pymodule_export]
    use crate::worker::settle;

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // as modules of Python name it
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
