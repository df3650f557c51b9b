//! Exports that stand alone: whatever is planned is said to be kept or lost, and settings are what the words beside them say.

use giusto_model::{Plan, Site};
use giusto_planner::{containers, kubevirt, libvirt, plan, systemd, AloneFile, Engine, Facts};
use std::path::Path;

fn read(text: &str) -> (Site, Facts, Plan) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites/site.yaml");
    let site = giusto_site::parse(&folder.display().to_string(), text).unwrap_or_else(|error| panic!("{error}"));
    let facts = Facts::typical(site.hosts[0].cores.clone());
    let planned = plan(&site, &facts).unwrap_or_else(|refusal| panic!("{refusal}"));
    (site, facts, planned)
}

fn all(site: &Site, facts: &Facts, plan: &Plan) -> Vec<Vec<AloneFile>> {
    vec![
        systemd(site, facts, plan),
        containers(Engine::Docker, site, facts, plan),
        containers(Engine::Podman, site, facts, plan),
        libvirt(site, facts, plan),
        kubevirt(site, facts, plan),
    ]
}

/// The words of a file's comments, in one line.
fn words(text: &str) -> String {
    text.replace('#', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_service_of_every_example_is_kept_lost_or_not_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Ok(site) = giusto_site::parse(&path.display().to_string(), &text) else { continue };
        let site = site.with_placeholders();
        let facts = Facts::typical(site.hosts[0].cores.clone());
        let Ok(planned) = plan(&site, &facts) else { continue };
        for files in all(&site, &facts, &planned) {
            for host in &planned.hosts {
                let readme = files.iter().find(|file| file.host == host.name && file.path == "README");
                let readme = readme.unwrap_or_else(|| panic!("{}: no README of {}", path.display(), host.name));
                for service in planned.services.iter().filter(|one| one.on == host.name) {
                    let own = readme.text.split("What holds:").nth(1).unwrap();
                    assert!(
                        own.contains(&format!("{}: ", service.name)) || own.contains(&format!("{}, ", service.name))
                    );
                    seen += 1;
                }
                let says = ["KEPT", "LOST", "NOT HERE"].iter().any(|word| readme.text.contains(word));
                assert!(
                    says || planned.services.iter().all(|one| one.on != host.name),
                    "{}: {}",
                    path.display(),
                    readme.text
                );
            }
            for file in files.iter().filter(|file| file.path.ends_with(".conf") || file.path.ends_with(".service")) {
                let is_line = |line: &str| {
                    let setting =
                        line.split_once('=').is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_alphanumeric()));
                    line.is_empty() || line.starts_with('#') || line.starts_with('[') || setting
                };
                assert!(file.text.lines().all(is_line), "{}", file.text);
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn services_on_one_core_share_it_and_what_that_loses_is_said() {
    let (site, facts, plan) = read(include_str!("../../sites/supply.yaml"));
    let files = systemd(&site, &facts, &plan);
    let text = |path: &str| &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text;
    let alpha = text("drop-ins/giusto-alpha.service.d/50-giusto.conf");
    for setting in [
        "CPUAffinity=1\n",
        "AllowedCPUs=1\n",
        "Slice=promises.slice\n",
        "CPUQuota=30.00%\n",
        "CPUQuotaPeriodSec=10000us\n",
        "CPUWeight=3000\n",
    ] {
        assert!(alpha.contains(setting), "{setting}{alpha}");
    }
    let said = words(alpha);
    for part in [
        "KEPT: 30 % of core 1 over time",
        "at-least: 30%",
        "KEPT: its cap: at most 3 ms in every 10 ms",
        "LOST: 3 ms of processor time in every 10 ms ('giusto plan --backend quota': backend quota cannot serve it: it is a cap, \
         never a guarantee)",
        "2 cores more for edge-1",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(text("drop-ins/system.slice.d/50-giusto.conf").contains("\nAllowedCPUs=0\n"));
    assert!(words(text("drop-ins/giusto-batch.service.d/50-giusto.conf")).contains("KEPT: at least 20 % over time"));
    assert!(text("units/giusto-alpha.service").contains("\nExecStart=sh \"-c\" \"while :; do :; done\"\n"));
}

#[test]
fn with_a_core_for_each_the_promises_hold_and_the_caps_do_not() {
    let text = include_str!("../../sites/flight.yaml").replace("cores: 1}", "cores: 1-3}");
    let (site, facts, plan) = read(&text);
    let files = systemd(&site, &facts, &plan);
    for name in ["control", "logger"] {
        let path = format!("drop-ins/giusto-{name}.service.d/50-giusto.conf");
        let text = &files.iter().find(|file| file.path == path).unwrap().text;
        assert!(text.contains("CPUSchedulingPolicy=fifo\n") && !text.contains("CPUQuota"), "{text}");
        let said = words(text);
        assert!(said.contains("KEPT: no job late") && said.contains("LOST: its cap of"), "{said}");
    }
    assert!(!files.iter().any(|file| file.path.contains("system.slice")), "nothing is shared");
}

#[test]
fn the_strictest_promise_gets_the_free_core() {
    let text = "giusto: 1\nhosts: {h: {cores: 1-2}}\nservices:\n  a: {start: a, promise: {supply: 30ms/100ms}}\n  \
                b: {start: b, promise: {supply: 30ms/100ms}}\n  \
                c: {start: c, tasks: [{wcet: 1ms, period: 50ms}], promise: every-deadline}\n";
    let (site, facts, plan) = read(text);
    let files = containers(Engine::Podman, &site, &facts, &plan);
    let flags = |name: &str| &files.iter().find(|file| file.path == format!("{name}.flags")).unwrap().text;
    assert!(flags("c").contains("--cap-add=SYS_NICE") && !flags("c").contains("--cpu-quota"), "{}", flags("c"));
    assert!(flags("a").contains("--cpu-quota=30000") && flags("b").contains("--cpu-quota=30000"));
    assert!(words(flags("a")).contains("1 core more for h"));
}
