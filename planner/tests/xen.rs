//! Hosts that run Xen: domains are planned for RTDS, the control domain among them, or refused.

mod common;

use common::plan;
use giusto_model::{Adopt, Backend, Cap, Duration, Origin, Plan, ServerKind, Xen};
use giusto_planner::{xen, Facts, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn planned(text: &str) -> Result<Plan, Refusal> {
    plan(&giusto_site::parse("site.yaml", text).unwrap(), &Facts::typical(vec![0, 1, 2, 3]))
}

fn site(cores: &str, dom0: &str, services: &str) -> String {
    format!("giusto: 1\nhosts:\n  x1: {{hypervisor: xen, cores: {cores}, dom0: {{{dom0}}}}}\nservices:\n{services}")
}

#[test]
fn what_fits_is_exported_in_whole_microseconds_with_the_control_domain_on_its_cores() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut fit, mut refused, mut lines) = (0, 0, 0);
    for _ in 0..60 {
        let cores = rng.random_range(1..=4);
        let dom0 = rng.random_range(0..cores);
        let mut services = String::new();
        for number in 0..rng.random_range(1..=4) {
            let ms = [5, 10, 20, 50][rng.random_range(0..4)];
            let us = rng.random_range(100..ms * 500);
            let promise = match rng.random_range(0..8) {
                0 => format!("promise: as-if-alone, tasks: [{{name: t, wcet: {us}us, period: {ms}ms}}]"),
                1 => format!("promise: every-deadline, tasks: [{{name: t, wcet: {us}us, period: {ms}ms}}]"),
                2 => {
                    format!("promise: {{p90: {}ms}}, arrivals: {{poisson: {}/s}}, execution: {us}us", 20 * ms, 200 / ms)
                }
                _ => format!("promise: {{supply: [{us}us/{ms}ms, 1ms/20ms]}}"),
            };
            services += &format!("  d{number}: {{adopt: {{xen: d{number}}}, {promise}}}\n");
        }
        services += "  rest: {adopt: {xen: rest}, promise: leftovers}\n";
        let text = site(&format!("0-{}", cores - 1), &format!("cores: {dom0}, reserve: 1ms/20ms"), &services);
        let plan = match planned(&text) {
            Ok(plan) => plan,
            Err(refusal) => {
                assert!(matches!(refusal, Refusal::DoesNotFit(_) | Refusal::Asked { .. }), "{refusal}\n{text}");
                refused += 1;
                continue;
            }
        };
        fit += 1;
        for one in &plan.services {
            assert_eq!((one.backend, one.server.kind), (Backend::Rtds, ServerKind::Deferrable));
            for time in [one.server.budget, one.server.period] {
                assert!(time.ns().is_multiple_of(1000) && time >= Duration::from_us(10), "{time}\n{text}");
            }
        }
        let own = plan.services.iter().find(|one| one.name == "x1-dom0").unwrap();
        assert_eq!((own.core, own.cap), (dom0, Cap::Soft), "{text}");
        assert_eq!(own.origin, Origin::Adopt(Adopt::Xen(Xen::DOM0.into())));
        let files = xen(&plan);
        let file = &files[0].servers;
        assert_eq!(file.lines().filter(|line| !line.starts_with('#')).count(), plan.services.len() + 1);
        for one in &plan.services {
            let name = one.name.replace("x1-dom0", "Domain-0");
            let us = |time: Duration| time.ns() / 1000;
            let (vcpu, core) = (one.vcpu.unwrap(), one.core);
            let extra = u8::from(one.cap == Cap::Soft);
            let line = format!("\n{name} {vcpu} {core} {} {} {extra}\n", us(one.server.period), us(one.server.budget));
            assert!(file.contains(&line), "{line}{file}");
            lines += 1;
        }
    }
    assert!(fit > 20 && refused > 5 && lines > 60, "{fit} {refused} {lines}");
}

#[test]
fn a_certificate_with_another_backend_or_kind_is_refused() {
    let text = site("0-1", "cores: 0, reserve: 1ms/20ms", "  a: {adopt: {xen: a}, promise: {supply: 2ms/10ms}}\n");
    let good = planned(&text).unwrap();
    let mut bad = good.clone();
    bad.services[0].server.kind = ServerKind::ConstantBandwidth;
    check_plan(&bad).unwrap_err();
    let mut bad = good;
    bad.services[0].server.budget = Duration::from_ms(9);
    check_plan(&bad).unwrap_err();
}

#[test]
fn what_rtds_cannot_do_is_refused_with_what_to_do() {
    let dom0 = "cores: 0, reserve: 1ms/20ms";
    for (service, told) in [
        ("promise: {supply: 1ms/10ms}, server: sporadic", "it is a deferrable server and cannot be sporadic"),
        ("promise: {supply: 1500ns/10ms}", "it keeps whole multiples of 1 us, and 1.500 us was promised"),
        ("promise: {supply: 2us/10ms}", "10 us is the least budget that RTDS accepts, and 2 us was promised"),
        ("promise: {supply: 100us/500us}", "it keeps periods from 1 ms to 4 s, and 500 us was promised"),
        ("promise: as-if-alone, tasks: [{name: t, wcet: 1ms, period: 10000001ns}]", "keeps whole microseconds"),
    ] {
        let text = site("0-1", dom0, &format!("  a: {{adopt: {{xen: a}}, {service}}}\n"));
        let refusal = planned(&text).unwrap_err();
        assert!(matches!(&refusal, Refusal::Asked { .. }), "{refusal:?}");
        assert!(refusal.to_string().contains(told), "{refusal}");
        assert!(!refusal.to_string().contains("--backend"), "{refusal}");
    }
    let text = site("0", "cores: 0, reserve: 5ms/10ms", "  a: {adopt: {xen: a}, promise: {supply: 5ms/10ms}}\n");
    assert!(matches!(planned(&text).unwrap_err(), Refusal::DoesNotFit(_)));
}

#[test]
fn a_backend_of_linux_cannot_be_had_there_nor_rtds_elsewhere() {
    let text = site("0-1", "cores: 0, reserve: 1ms/20ms", "  a: {adopt: {xen: a}, promise: {supply: 2ms/10ms}}\n");
    let with = |text: &str, backend| {
        let facts = Facts { insist: Some(backend), ..Facts::typical(vec![0, 1]) };
        plan(&giusto_site::parse("site.yaml", text).unwrap(), &facts)
    };
    let told = with(&text, Backend::Manager).unwrap_err().to_string();
    assert!(told.contains("the host runs Xen, whose domains RTDS serves"), "{told}");
    assert!(with(&text, Backend::Rtds).is_ok());
    let linux = "giusto: 1\nhosts: {h: {cores: 0-1}}\nservices: {a: {start: work, promise: {supply: 2ms/10ms}}}";
    let told = with(linux, Backend::Rtds).unwrap_err().to_string();
    assert!(told.contains("needs a host with hypervisor: xen"), "{told}");
}

#[test]
fn beside_hosts_with_linux_each_has_its_own() {
    let text = "giusto: 1\nhosts:\n  x1: {hypervisor: xen, cores: 0-1, dom0: {cores: 1, reserve: 1ms/20ms}}\n  \
                edge-1: {cores: 0-1}\nservices:\n  a: {on: x1, adopt: {xen: a}, promise: {supply: 2ms/10ms}}\n  \
                b: {on: edge-1, start: work, promise: {supply: 2ms/10ms}}\n";
    let plan = planned(text).unwrap();
    let of = |name: &str| plan.services.iter().find(|one| one.name == name).unwrap();
    assert_eq!((of("a").backend, of("x1-dom0").core, of("x1-dom0").on.as_str()), (Backend::Rtds, 1, "x1"));
    assert_ne!(of("b").backend, Backend::Rtds);
    assert_eq!(xen(&plan).len(), 1);
}
