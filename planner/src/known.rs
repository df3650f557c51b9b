//! What services need, computed once for all hosts that are alike.

use crate::facts::Facts;
use crate::needs::{Company, Vcpu};
use crate::refusal::Refusal;
use giusto_model::Bandwidth;
use std::cell::RefCell;
use std::collections::HashMap;

/// The needs of services on hosts that are alike but for their cores and for what is kept free of them: nothing else of a host
/// matters.
#[derive(Default)]
pub(crate) struct Known(RefCell<HashMap<String, Vec<(Asked, Needs)>>>);

/// Of all hosts of which nothing is known: they are stock machines, for the choice of hosts and, unless a backend is insisted on,
/// for their plans.
#[derive(Default)]
pub(crate) struct Alike {
    pub(crate) stock: Known,
    insisted: Known,
}

impl Alike {
    /// For the plans of hosts of which nothing else than `facts` is known.
    pub(crate) fn planned(&self, facts: &Facts) -> &Known {
        if facts.insist.is_none() {
            &self.stock
        } else {
            &self.insisted
        }
    }

    /// A service of this name is no longer what it was.
    pub(crate) fn forget(&mut self, service: &str) {
        for Known(known) in [&mut self.stock, &mut self.insisted] {
            known.get_mut().remove(service);
        }
    }
}

/// Beside whom a service is, and what is kept free.
type Asked = (Company, Bandwidth);
type Needs = Result<Vec<Vcpu>, Refusal>;

impl Known {
    /// What is known of a service, by its name, or what `compute` finds.
    pub(crate) fn needs(&self, service: &str, asked: Asked, compute: &mut dyn FnMut() -> Needs) -> Needs {
        if let Some((_, known)) = self.0.borrow().get(service).and_then(|all| all.iter().find(|(own, _)| *own == asked))
        {
            return known.clone();
        }
        let needs = compute();
        self.0.borrow_mut().entry(service.to_string()).or_default().push((asked, needs.clone()));
        needs
    }
}
