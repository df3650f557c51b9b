//! `giusto export kubernetes`.

use crate::args::KubernetesArgs;
use crate::coordination::written;
use crate::failure::{apart, Failure};
use crate::plan::Planned;
use giusto_planner::PodText;
use std::process::ExitCode;

/// Plans the site, so that one that does not fit is refused, and writes its promises.
pub(crate) fn export(args: &KubernetesArgs) -> Result<ExitCode, Failure> {
    apart(&[("--out", args.out.as_deref())], &[&args.site])?;
    let read = crate::plan::read(&args.site)?;
    if read.site.services.iter().all(|service| service.origin.has_vcpus()) {
        let site = args.site.display();
        return Err(Failure::input(format!(
            "every service of {site} is a virtual machine; expected one that pods can run"
        )));
    }
    let Planned { site, plan, .. } = crate::plan::whole(&read, &args.site, &args.known.asked())?;
    let name = args.site.display().to_string();
    let keys = giusto_site::pod_keys(&name, &giusto_site::text(&args.site)?)?;
    let texts: Vec<PodText<'_>> =
        keys.iter().map(|one| PodText { service: &one.service, keys: &one.keys, left_out: &one.left_out }).collect();
    let text = giusto_planner::kubernetes(&site, &plan, &name, &texts);
    match &args.out {
        Some(file) => written(file, &text)?,
        None => crate::table::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
