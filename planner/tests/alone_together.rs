//! Exports of one site beside each other, and what several on a core get of it where the kernel compares weights.

use giusto_model::{Plan, Site};
use giusto_planner::{containers, libvirt, plan, systemd, AloneFile, Engine, Facts};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;
use std::path::Path;

fn read(text: &str) -> Option<(Site, Facts, Plan)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites/site.yaml");
    let site =
        giusto_site::parse(&folder.display().to_string(), text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let facts = Facts::typical(site.hosts[0].cores.clone());
    let planned = plan(&site, &facts).ok()?;
    Some((site, facts, planned))
}

fn text<'a>(files: &'a [AloneFile], path: &str) -> &'a str {
    let all = || files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>();
    &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path} in {:?}", all())).text
}

/// The words of a file's comments, in one line.
fn words(text: &str) -> String {
    text.replace('#', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The value of a line that begins so.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))
}

fn cores(list: &str) -> Vec<u32> {
    list.split(',').map(|core| core.parse().unwrap()).collect()
}

/// Pins of a domain's virtual CPUs.
fn pinned(xml: &str) -> Vec<u32> {
    xml.lines()
        .filter(|line| line.contains("<vcpupin"))
        .map(|line| line.split("cpuset='").nth(1).unwrap().split('\'').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn what_systemd_keeps_off_shared_cores_leaves_virtual_machines_and_containers_theirs() {
    let site = "giusto: 1\nhosts: {h: {cores: 1-3}}\nservices:\n  \
                a: {adopt: {systemd: a.service}, promise: {supply: 30ms/100ms}}\n  \
                b: {adopt: {systemd: b.service}, promise: {supply: 30ms/100ms}}\n  \
                v: {adopt: {libvirt: v}, promise: {supply: [30ms/100ms]}}\n  \
                w: {adopt: {libvirt: w}, promise: {supply: [20ms/100ms]}}\n  \
                c: {adopt: {container: c}, promise: {supply: 30ms/100ms}}\n  \
                d: {adopt: {container: d}, promise: {supply: 20ms/100ms}}\n  \
                l: {adopt: {systemd: l.service}, promise: leftovers, at-least: 10%}\n";
    let (site, facts, plan) = read(site).unwrap();
    let units = systemd(&site, &facts, &plan);
    let machines = libvirt(&site, &facts, &plan);
    let engine = containers(Engine::Podman, &site, &facts, &plan);
    let of_unit = |name: &str| {
        cores(value(text(&units, &format!("drop-ins/{name}.service.d/50-giusto.conf")), "AllowedCPUs=").unwrap())
    };
    let of_container = |name: &str| cores(value(text(&engine, &format!("{name}.flags")), "--cpuset-cpus=").unwrap());
    let its_units: Vec<u32> = [of_unit("a"), of_unit("b")].concat();
    let its_machines = [pinned(text(&machines, "v.cputune.xml")), pinned(text(&machines, "w.cputune.xml"))].concat();
    let its_containers = [of_container("c"), of_container("d")].concat();
    for core in &its_units {
        assert!(!its_machines.contains(core) && !its_containers.contains(core), "core {core} has two masters");
    }
    assert!(its_machines.iter().all(|core| !its_containers.contains(core)), "{its_machines:?} {its_containers:?}");
    let open = |slice: &str| {
        cores(value(text(&units, &format!("drop-ins/{slice}.slice.d/50-giusto.conf")), "AllowedCPUs=").unwrap())
    };
    let machine = open("machine");
    assert!(its_machines.iter().chain(&its_containers).all(|core| machine.contains(core)), "{machine:?}");
    // Docker's are in system.slice, Podman's in machine.slice.
    assert!(its_containers.iter().all(|core| open("system").contains(core)));
    assert!(its_machines.iter().all(|core| !open("system").contains(core)), "a core of virtual machines alone");
    // What all share is told of the cores that it may run on alone.
    let rest = words(text(&units, "drop-ins/l.service.d/50-giusto.conf"));
    assert!(rest.contains("KEPT: at least 10 % over time, of 95 % that all share here"), "{rest}");
    for core in &its_units {
        assert!(["machine", "system", "user"].iter().all(|slice| !open(slice).contains(core)), "core {core}");
    }
}

#[test]
fn a_core_of_two_masters_has_no_share_that_both_keep() {
    let site = "giusto: 1\nhosts: {h: {cores: 1}}\nservices:\n  \
                a: {adopt: {systemd: a.service}, promise: {supply: 30ms/100ms}}\n  \
                v: {adopt: {libvirt: v}, promise: {supply: [30ms/100ms]}}\n  \
                c: {adopt: {container: c}, promise: {supply: 20ms/100ms}}\n";
    let (site, facts, plan) = read(site).unwrap();
    let machine = words(text(&libvirt(&site, &facts, &plan), "v.cputune.xml"));
    let container = words(text(&containers(Engine::Podman, &site, &facts, &plan), "c.flags"));
    for said in [&machine, &container] {
        assert!(!said.contains("% of core 1 over time, while"), "{said}");
        assert!(said.contains("LOST: even a share over time") && said.contains("core 1 is shared with a"), "{said}");
    }
    // Its slice has a hundred times the weight of the others.
    let units = systemd(&site, &facts, &plan);
    let unit = words(text(&units, "drop-ins/a.service.d/50-giusto.conf"));
    assert!(unit.contains("KEPT: 30 % of core 1 over time"), "{unit}");
    for slice in ["machine", "system"] {
        let drop_in = text(&units, &format!("drop-ins/{slice}.slice.d/50-giusto.conf"));
        assert!(value(drop_in, "AllowedCPUs=").is_some_and(|list| cores(list).contains(&1)), "{drop_in}");
    }
}

/// A unit as the files have it.
struct Unit {
    name: String,
    weight: f64,
    cores: Vec<u32>,
    said: String,
}

fn units(files: &[AloneFile]) -> Vec<Unit> {
    let of = |file: &AloneFile| {
        let name = file.path.strip_prefix("drop-ins/")?.strip_suffix(".service.d/50-giusto.conf")?;
        let weight = value(&file.text, "CPUWeight=").map_or(100.0, |weight| weight.parse().unwrap());
        let its_cores = cores(value(&file.text, "AllowedCPUs=").unwrap());
        file.text.contains("Slice=").then(|| Unit {
            name: name.into(),
            weight,
            cores: its_cores,
            said: words(&file.text),
        })
    };
    files.iter().filter_map(of).collect()
}

/// The number before `%` that follows `after`.
fn percent(said: &str, after: &str) -> Option<f64> {
    let rest = said.split(after).nth(1)?;
    rest.split('%').next()?.trim().parse().ok()
}

/// The kernel divides a unit's weight among its cores by where it is busy, so all of it may be on any one of them.
#[test]
fn a_share_that_is_kept_is_what_the_kernel_gives_wherever_others_are_busy() {
    let mut rng = ChaCha8Rng::seed_from_u64(370);
    let (mut kept, mut lost, mut spread) = (0, 0, 0);
    for round in 0..400 {
        let last: u32 = rng.random_range(1..4);
        let mut site = format!("giusto: 1\nhosts: {{h: {{cores: 1-{last}}}}}\nservices:\n");
        for number in 0..rng.random_range(2..9) {
            let budget = rng.random_range(5..60);
            let cap = if rng.random_bool(0.5) { ", cap: soft" } else { "" };
            let _ = writeln!(site, "  s{number}: {{start: [a], promise: {{supply: {budget}ms/100ms}}{cap}}}");
        }
        for number in 0..rng.random_range(0..3) {
            let _ = writeln!(
                site,
                "  l{number}: {{start: [a], promise: leftovers, at-least: {}%}}",
                rng.random_range(0..40)
            );
        }
        let Some((site_read, facts, planned)) = read(&site) else { continue };
        let files = systemd(&site_read, &facts, &planned);
        let all = units(&files);
        for unit in &all {
            spread += usize::from(unit.cores.len() > 1);
            let least = unit
                .cores
                .iter()
                .map(|core| {
                    let beside: f64 = all.iter().filter(|one| one.cores.contains(core)).map(|one| one.weight).sum();
                    95.0 * unit.weight / beside
                })
                .fold(f64::INFINITY, f64::min);
            let claimed = match unit.name.starts_with("giusto-l") {
                true => percent(&unit.said, "KEPT: at least"),
                false => percent(&unit.said, "KEPT: ").filter(|_| unit.said.contains("over time, while")),
            };
            lost += usize::from(unit.said.contains("over time: "));
            let Some(claimed) = claimed else { continue };
            kept += 1;
            assert!(claimed <= least + 0.2, "round {round}: {} claims {claimed} and has {least}\n{site}", unit.name);
        }
    }
    assert!(kept > 300 && spread > 30, "{kept} {spread}");
    println!("{kept} shares kept, {lost} lost, {spread} units on several cores");
}

#[test]
fn leftovers_on_several_cores_leave_each_reservation_its_share() {
    let site = "giusto: 1\nhosts: {h: {cores: 1-2}}\nservices:\n  \
                a: {start: [a], promise: {supply: 40ms/100ms}, cap: soft}\n  \
                b: {start: [a], promise: {supply: 40ms/100ms}, cap: soft}\n  \
                c: {start: [a], promise: {supply: 20ms/100ms}, cap: soft}\n  \
                d: {start: [a], promise: {supply: 20ms/100ms}, cap: soft}\n  \
                rest: {start: [a], promise: leftovers, at-least: 50%}\n";
    let (site, facts, plan) = read(site).unwrap();
    let files = systemd(&site, &facts, &plan);
    for name in ["a", "b"] {
        let unit = words(text(&files, &format!("drop-ins/giusto-{name}.service.d/50-giusto.conf")));
        assert!(unit.contains("KEPT: 40 % of core"), "{unit}");
    }
    // On one core alone there is not so much left: as much as is there is kept, the rest is not.
    let rest = words(text(&files, "drop-ins/giusto-rest.service.d/50-giusto.conf"));
    assert!(!rest.contains("KEPT: at least 50 %") && rest.contains("LOST: at least 50 %"), "{rest}");
    assert!(percent(&rest, "KEPT: at least").is_some_and(|kept| kept >= 15.0), "{rest}");
}

#[test]
fn a_quota_of_libvirt_is_for_each_virtual_cpu_and_caps_none_below_what_it_was_promised() {
    let site = |vcpus: &str| {
        format!(
            "giusto: 1\nhosts: {{h: {{cores: 1-2}}}}\nservices:\n  \
             v: {{adopt: {{libvirt: v}}, promise: {{supply: [{vcpus}]}}}}\n  \
             w: {{adopt: {{libvirt: w}}, promise: {{supply: [30ms/100ms]}}}}\n"
        )
    };
    // One has a core to itself: a quota would take that away.
    let (read_site, facts, plan) = read(&site("85ms/100ms, 30ms/100ms")).unwrap();
    let files = libvirt(&read_site, &facts, &plan);
    let xml = text(&files, "v.cputune.xml");
    assert!(!xml.contains("<quota>"), "{xml}");
    let said = words(xml);
    assert!(said.contains("LOST: its cap of 30 %") && !said.contains("KEPT: its cap"), "{said}");
    assert!(words(text(&files, "w.cputune.xml")).contains("KEPT: its cap: at most 30 ms in every 100 ms"));
    assert!(!words(text(&files, "apply.sh")).contains("--set vcpu_quota=85000"));
    // They differ: the largest for both, so that is no cap of the smaller.
    let three = "giusto: 1\nhosts: {h: {cores: 1}}\nservices:\n  \
                 v: {adopt: {libvirt: v}, promise: {supply: [30ms/100ms, 20ms/100ms]}}\n  \
                 w: {adopt: {libvirt: w}, promise: {supply: [30ms/100ms]}}\n";
    let (read_site, facts, plan) = read(three).unwrap();
    let xml = text(&libvirt(&read_site, &facts, &plan), "v.cputune.xml").to_string();
    assert!(xml.contains("<quota>30000</quota>"), "{xml}");
    let said = words(&xml);
    assert!(said.contains("KEPT: its cap: at most 30 ms in every 100 ms"), "{said}");
    assert!(!said.contains("KEPT: its cap: at most 20 ms"), "{said}");
    assert!(said.contains("LOST: its cap of 20 %: the quota"), "{said}");
    assert!(xml.contains("<shares>5000</shares>"), "domains are weighed: {xml}");
}

#[test]
fn the_slice_is_none_that_giusto_could_make() {
    let (site, facts, plan) = read(include_str!("../../sites/supply.yaml")).unwrap();
    for file in systemd(&site, &facts, &plan) {
        let names = file.path.split('/').chain(value(&file.text, "Slice="));
        assert!(names.clone().all(|name| !name.starts_with("giusto.")), "{:?}", names.collect::<Vec<_>>());
    }
}

#[test]
fn leftovers_in_containers_say_what_has_to_be_so_and_are_weighed() {
    let site = "giusto: 1\nhosts: {h: {cores: 1}}\nservices:\n  \
                a: {adopt: {container: a}, promise: {supply: 40ms/100ms}}\n  \
                b: {adopt: {container: b}, promise: {supply: 20ms/100ms}}\n  \
                floor: {adopt: {container: floor}, promise: leftovers, at-least: 20%}\n  \
                none: {adopt: {container: none}, promise: leftovers}\n";
    let (site, facts, plan) = read(site).unwrap();
    let files = containers(Engine::Podman, &site, &facts, &plan);
    let said = words(text(&files, "floor.flags"));
    assert!(said.contains("provided that nothing else than the containers of these files runs there"), "{said}");
    let shares: u64 = value(text(&files, "none.flags"), "--cpu-shares=").unwrap().parse().unwrap();
    assert!(shares < 1024, "less than one that says nothing: {shares}");
}

#[test]
fn virtual_machines_with_leftovers_are_pinned_capped_and_awaited() {
    let site = "giusto: 1\nhosts: {h: {cores: 1-2}}\nservices:\n  \
                v: {adopt: {libvirt: v}, promise: {supply: [30ms/100ms]}}\n  \
                rest: {adopt: {libvirt: other}, promise: leftovers, at-least: 10%, at-most: 50%}\n";
    let (site, facts, plan) = read(site).unwrap();
    let files = libvirt(&site, &facts, &plan);
    let xml = text(&files, "rest.cputune.xml");
    assert!(xml.contains("<global_period>100000</global_period>\n  <global_quota>50000</global_quota>"), "{xml}");
    assert!(words(xml).contains("KEPT: at most 50 % of a core"), "{xml}");
    assert!(text(&files, "hooks/qemu").contains("v/started | other/started"), "the hook waits for both");
    assert!(text(&files, "apply.sh").contains("--set global_quota=50000"));
}
