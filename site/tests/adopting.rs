//! Sites in which what was started is adopted say the same of all else.

use giusto_model::{Adopt, Origin, Process, Restart, Site};
use giusto_site::{adopting, parse};

/// The same site, but for where these services come from.
fn expected(name: &str, text: &str, services: &[(String, Adopt)]) -> Site {
    let mut site = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
    for service in &mut site.services {
        if let Some((_, adopt)) = services.iter().find(|(name, _)| *name == service.name) {
            let essential = service.process.essential;
            let restart = if essential { Restart::Never } else { Restart::default() };
            let process = Process { essential, restart, ..Process::default() };
            (service.origin, service.process) = (Origin::Adopt(adopt.clone()), process);
        }
    }
    site
}

#[test]
fn a_site_that_adopts_differs_in_nothing_else() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sites");
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.display().to_string();
        let Ok(site) = parse(&name, &text) else { continue };
        let started = site.services.iter().filter(|one| matches!(one.origin, Origin::Start(_)));
        let services: Vec<(String, Adopt)> =
            started.map(|one| (one.name.clone(), Adopt::Systemd(format!("giusto-{}.service", one.name)))).collect();
        let adopted = adopting(&name, &text, &services).unwrap();
        let again = parse(&name, &adopted).unwrap_or_else(|error| panic!("{error}\n{adopted}"));
        assert_eq!(again, expected(&name, &text, &services), "{name}");
        seen += services.len();
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn what_only_a_started_one_can_have_goes_and_quotes_stay() {
    let text = "giusto: 1\nhosts: {h: {cores: 1}}\nservices:\n  a:\n    start: [sh, -c, 'echo \"%s\" $1 # x']\n    \
                user: daemon\n    environment: {A: 'b: c'}\n    essential: yes\n    promise: {supply: 3ms/10ms}\n  \
                b: {adopt: {cgroup: 'x.slice/a b'}, promise: leftovers, at-least: 1.5%}\n";
    let services = [("a".to_string(), Adopt::Systemd("giusto-a.service".into()))];
    let adopted = adopting("site.yaml", text, &services).unwrap();
    assert_eq!(parse("site.yaml", &adopted).unwrap(), expected("site.yaml", text, &services), "{adopted}");
}
