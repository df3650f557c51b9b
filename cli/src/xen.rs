//! `giusto export xen`.

use crate::args::XenArgs;
use crate::coordination::written;
use crate::failure::Failure;
use crate::plan::{of, Asked};
use crate::table::json;
use giusto_planner::XenFiles;
use std::process::ExitCode;

/// `giusto export xen`
pub(crate) fn xen(args: &XenArgs) -> Result<ExitCode, Failure> {
    let all = giusto_planner::xen(&of(&args.site, &Asked::default())?);
    if all.is_empty() {
        return Err(Failure::input(format!(
            "{} has no host that runs Xen; expected, for example, hosts: {{x1: {{hypervisor: xen, cores: 0-3, dom0: {{cores: 0, \
             reserve: 2ms/10ms}}}}}}",
            args.site.display()
        )));
    }
    if args.json {
        return json(&all);
    }
    for XenFiles { host, apply, servers, domains } in &all {
        let folder = args.out.join(host);
        written(&folder.join("apply.sh"), apply)?;
        written(&folder.join("servers.txt"), servers)?;
        for (name, lines) in domains {
            written(&folder.join(format!("{name}.cfg")), lines)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
