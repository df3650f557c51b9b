//! plan.json, read for checking.

use giusto_model::{Plan, PLAN_VERSION};
use serde::Deserialize;

/// Why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Not JSON, or not of this form.
    #[error("it is not a plan: {0}; make one with 'giusto plan SITE --out FILE'")]
    Form(String),
    /// Of another release.
    #[error("it is a plan of version {0}, expected {PLAN_VERSION}; make it anew with 'giusto plan SITE --out FILE'")]
    Version(u64),
}

/// Reads a plan from the text of a plan.json. O(n).
///
/// # Errors
/// A text that is no plan of this version.
pub fn read_plan(text: &str) -> Result<Plan, NoPlan> {
    // The version first: a newer plan has fields that this one would only call unknown.
    #[derive(Deserialize)]
    struct Version {
        giusto_plan: u64,
    }
    let form = |error: serde_json::Error| NoPlan::Form(error.to_string());
    let Version { giusto_plan } = serde_json::from_str(text).map_err(form)?;
    if giusto_plan != u64::from(PLAN_VERSION) {
        return Err(NoPlan::Version(giusto_plan));
    }
    serde_json::from_str(text).map_err(form)
}
