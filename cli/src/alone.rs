//! `giusto export systemd`, `docker`, `podman`, `libvirt`, `kubevirt`: what holds without Giusto.

use crate::args::AloneArgs;
use crate::coordination::written;
use crate::failure::Failure;
use crate::plan::Planned;
use crate::table::json;
use giusto_model::{Adopt, HostPlan, Origin, Plan};
use giusto_planner::{unit_of, AloneFile, Engine};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

/// The unit of the package, which reads one site a machine.
const UNIT: &str = include_str!("../../packaging/giusto.service");

/// For which program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Systemd,
    Containers(Engine),
    Libvirt,
    Kubevirt,
}

/// Plans the site, plans it again for the target, and writes its files.
pub(crate) fn export(target: Target, args: &AloneArgs) -> Result<ExitCode, Failure> {
    let read = crate::plan::read(&args.site)?;
    if let Some(host) = read.site.hosts.iter().find(|host| host.xen.is_some()) {
        let site = args.site.display();
        return Err(Failure::input(format!(
            "host '{}' of {site} runs Xen; expected giusto export xen {site}",
            host.name
        )));
    }
    let has = |origin: &Origin| match target {
        Target::Libvirt => matches!(origin, Origin::Adopt(Adopt::Libvirt(_))),
        Target::Kubevirt => origin.has_vcpus(),
        Target::Systemd | Target::Containers(_) => true,
    };
    if !read.site.services.iter().any(|service| has(&service.origin)) {
        return Err(Failure::input(format!(
            "no service of {} is a virtual machine of libvirt; expected one, such as adopt: {{libvirt: NAME}} in \
             sites/machines.yaml",
            args.site.display()
        )));
    }
    let Planned { site, facts, plan } = crate::plan::whole(&read, &args.site, &args.known.asked())?;
    let (name, mut files) = match target {
        Target::Systemd => ("systemd", giusto_planner::systemd(&site, &facts, &plan)),
        Target::Containers(engine) => (engine.name(), giusto_planner::containers(engine, &site, &facts, &plan)),
        Target::Libvirt => ("libvirt", giusto_planner::libvirt(&site, &facts, &plan)),
        Target::Kubevirt => ("kubevirt", giusto_planner::kubevirt(&site, &facts, &plan)),
    };
    if matches!(target, Target::Systemd | Target::Libvirt) {
        let text = giusto_site::text(&args.site)?;
        let of_host = |host: &HostPlan| with_giusto(target, &args.site.display().to_string(), &text, &plan, host);
        for host in &plan.hosts {
            files.extend(of_host(host)?);
        }
    }
    if args.json {
        return json(&files);
    }
    let folder = args.folder(name);
    for host in &plan.hosts {
        let its: Vec<&AloneFile> = files.iter().filter(|file| file.host == host.name).collect();
        no_others(&folder.join(&host.name), &its)?;
    }
    for AloneFile { host, path, text, executable } in &files {
        let path = folder.join(host).join(path);
        written(&path, text)?;
        if *executable {
            let cannot = |why| Failure::running(format!("cannot make {} a program: {why}", path.display()));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(cannot)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Files of an older export would be taken for some of this one, and what is applied could not be taken back with other scripts.
fn no_others(folder: &Path, files: &[&AloneFile]) -> Result<(), Failure> {
    let shown = folder.display();
    if folder.join("found").exists() {
        return Err(Failure::input(format!(
            "the export in {shown} is applied (found/ has how it was before); expected it to be undone first: {shown}/undo.sh; \
             or another folder: --out DIR"
        )));
    }
    let mut others = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&at) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_its = |file: &&AloneFile| folder.join(&file.path) == path;
            match path.is_dir() && !path.is_symlink() {
                true => folders.push(path),
                false if files.iter().any(is_its) => {}
                false => others.push(path.display().to_string()),
            }
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    others.sort_unstable();
    Err(Failure::input(format!(
        "{shown} has files that this export does not write: {}; expected none: remove them, or take another folder: --out DIR",
        others.join(", ")
    )))
}

/// The site in which Giusto adopts what systemd starts, and the unit that enforces it on one host.
fn with_giusto(
    target: Target,
    file: &str,
    text: &str,
    plan: &Plan,
    host: &HostPlan,
) -> Result<Vec<AloneFile>, Failure> {
    let name = &host.name;
    let services = plan.services.iter().map(|one| (&one.name, &one.origin, &one.on));
    let leftovers = plan.leftovers.iter().map(|one| (&one.name, &one.origin, &one.on));
    let all: Vec<(&String, &Origin, &String)> = services.chain(leftovers).collect();
    // 'export systemd' makes units of what the site starts; beside other exports Giusto starts it.
    let of_unit = |origin: &Origin| target == Target::Systemd || !matches!(origin, Origin::Start(_));
    let started = all.iter().filter(|(_, origin, _)| target == Target::Systemd && matches!(origin, Origin::Start(_)));
    let adopted: Vec<(String, Adopt)> = started
        .filter_map(|(service, origin, _)| Some(((*service).clone(), Adopt::Systemd(unit_of(service, origin)?))))
        .collect();
    let site = giusto_site::adopting(file, text, &adopted)?;
    let what = if target == Target::Systemd { ": what it started is adopted" } else { "" };
    let site = format!("# By 'giusto export' from {}{what}.\n{site}", file.replace(char::is_control, " "));
    let here = all.iter().filter(|(_, origin, on)| *on == name && of_unit(origin));
    let mut units: Vec<String> = here.filter_map(|(service, origin, _)| unit_of(service, origin)).collect();
    units.sort_unstable();
    units.dedup();
    let unit = UNIT
        .replace("/etc/giusto/site.yaml", "/etc/giusto/%i.yaml")
        .replace("giusto run /etc/giusto/%i.yaml", "giusto run /etc/giusto/%i.yaml --host %i")
        .replace("[Service]\n", "# One giusto a machine.\nConflicts=giusto.service\n\n[Service]\n");
    let after = format!(
        "# The units that it adopts run before it, by 'giusto export'.\n[Unit]\nWants={0}\nAfter={0}\n",
        units.join(" ")
    );
    let first = match target {
        Target::Systemd => {
            "it adopts the units and keeps the whole plan.\n\n./undo.sh beside this folder first, if it is applied; then units/ \
             to /etc/systemd/system, which are started as any.\n"
        }
        _ => {
            "it adopts the virtual machines and keeps the whole plan.\n\n./undo.sh beside this folder first, if it is applied; \
             then hooks/qemu to /etc/libvirt/hooks/qemu. What the site starts, Giusto starts.\n"
        }
    };
    let readme = format!(
        "{name} with Giusto, by 'giusto export': {first}  \
         cp {name}.yaml /etc/giusto/ && cp -r giusto@.service giusto@{name}.service.d /etc/systemd/system/\n  \
         systemctl daemon-reload && systemctl enable --now giusto@{name}.service\n\n\
         Files that the site names (histograms, profiles, keys) are looked for beside /etc/giusto/{name}.yaml.\n"
    );
    let file = |path: String, text: String| AloneFile { host: name.clone(), path, text, executable: false };
    let mut files = vec![
        file(format!("giusto/{name}.yaml"), site),
        file("giusto/giusto@.service".into(), unit),
        file("giusto/README".into(), readme),
    ];
    if !units.is_empty() {
        files.push(file(format!("giusto/giusto@{name}.service.d/50-units.conf"), after));
    }
    Ok(files)
}
