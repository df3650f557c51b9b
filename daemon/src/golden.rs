//! A host for tests of what only asks: its status is the golden file's, and nothing changes it.

use crate::{Change, ChangeStatus, Host, Refused, Status, Wish};
use giusto_model::Plan;
use std::path::Path;
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub(crate) struct Golden {
    pub(crate) plan: Option<Arc<Plan>>,
}

impl Host for Golden {
    fn status(&self) -> Status {
        serde_json::from_str(include_str!("../../formats/goldens/status.json")).unwrap()
    }
    fn reload(&self, _: Option<&Path>) -> Result<Change, Refused> {
        unreachable!("what only asks changes nothing")
    }
    fn change_mode(&self, _: &Wish) -> Result<Option<ChangeStatus>, Refused> {
        unreachable!("what only asks changes nothing")
    }
    fn stop(&self) {
        unreachable!("what only asks changes nothing")
    }
    fn plan(&self) -> Option<Arc<Plan>> {
        self.plan.clone()
    }
}
