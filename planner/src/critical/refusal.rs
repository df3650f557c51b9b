//! Why servers with criticality do not go together on a core.

use giusto_analysis::criticality::Unfit;
use std::fmt;

/// Why servers with criticality do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discord {
    /// The virtual CPU that has no place.
    pub vcpu: Option<u32>,
    /// Who is on the core with most room for it already.
    pub beside: Vec<String>,
    /// What is too much there with it.
    pub unfit: Unfit,
    /// Cores that no as-if-alone service has to itself.
    pub cores: usize,
}

impl fmt::Display for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Discord { vcpu, beside, unfit, cores } = self;
        let subject = vcpu.map_or("it".into(), |vcpu| format!("its virtual CPU {vcpu}"));
        match (cores, &beside[..]) {
            (1, []) => write!(f, "{subject} does not go on the one core for it by itself: {unfit}"),
            (1, _) => {
                write!(f, "{subject} does not go together with {} on the one core for it: {unfit}", beside.join(", "))
            }
            (_, []) => write!(f, "{subject} goes on none of {cores} cores; by itself on one: {unfit}"),
            _ => write!(f, "{subject} goes on none of {cores} cores; beside {}: {unfit}", beside.join(", ")),
        }?;
        match unfit.less_strict {
            true => f.write_str(
                "; usual budgets alone would fit (EDF, the less strict test, which promises nothing in HI mode)",
            ),
            false => Ok(()),
        }
    }
}
