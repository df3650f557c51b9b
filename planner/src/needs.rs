//! What services need of cores: a server for each virtual CPU, and what it rests on.

use crate::backend::Chosen;
use crate::critical;
use giusto_analysis::criticality::Vm;
use giusto_model::{Bandwidth, Certificate, Duration, Interface, LocalProof, Reason, Server, Task};

/// Who else is on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Company {
    /// No other with a reservation: it has the highest priority.
    Alone,
    /// Others, under EDF.
    Beside,
}

/// Budget and period in one local mode, and what they rest on.
#[derive(Clone)]
pub(crate) struct Need {
    pub(crate) interface: Interface,
    pub(crate) tasks: Vec<Task>,
    pub(crate) utilization: Bandwidth,
    /// Of the server's bandwidth, what is counted on, and what may be lost.
    pub(crate) required: Bandwidth,
    pub(crate) margin: Bandwidth,
    pub(crate) certificate: Certificate,
    pub(crate) reasons: Vec<Reason>,
}

/// The server of one virtual CPU, or of a whole service.
#[derive(Clone)]
pub(crate) struct Vcpu {
    /// `None`: all threads of the service.
    pub(crate) vcpu: Option<u32>,
    pub(crate) chosen: Chosen,
    /// Of its service's local modes, in their order; one if it always does the same. All have one period.
    pub(crate) locals: Vec<Need>,
    /// Of a service of high criticality: at its worst.
    pub(crate) worst: Option<Need>,
    /// Whether it is under the mixed order; else its promise holds in any case, and so does that of all others of its core.
    pub(crate) critical: bool,
    /// Whether what it rests on asks for a core without others.
    pub(crate) alone: bool,
}

impl Need {
    /// What was promised is the interface itself.
    pub(crate) fn promised(interface: Interface, reasons: Vec<Reason>) -> Self {
        Need {
            interface,
            tasks: Vec::new(),
            utilization: Bandwidth::ZERO,
            required: interface.bandwidth(),
            margin: Bandwidth::ZERO,
            certificate: Certificate::Supply,
            reasons,
        }
    }

    /// As a plan of several modes has it; `hold` is how long the server runs without a break.
    pub(crate) fn proof(&self, hold: giusto_model::Hold) -> LocalProof {
        LocalProof {
            tasks: self.tasks.clone(),
            utilization: self.utilization,
            required: self.required,
            margin: self.margin,
            hold,
            certificate: self.certificate.clone(),
        }
    }
}

impl Vcpu {
    pub(crate) fn server(&self, interface: Interface) -> Server {
        Server { kind: self.chosen.kind, budget: interface.budget, period: interface.period }
    }

    /// What EDF-VD has to know of it, if it has criticality.
    pub(crate) fn vm(&self) -> Vm {
        let worst: Option<Duration> = self.worst.as_ref().map(|worst| worst.interface.budget);
        critical::vm(self.locals[0].interface, worst)
    }
}
