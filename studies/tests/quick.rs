//! Every study in its quick size: it can be played, and no claim fails. A third of them every day; all with `GIUSTO_SOAK`.

use giusto_studies::{run, Name, Size};
use giusto_verify::study::{failures, findings, judge, Finding, Rule, Study, Table};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

fn study(name: Name) -> Study {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(name.folder()).join("study.toml");
    Study::read(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn of_today() -> impl Iterator<Item = Name> {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let parts = if std::env::var_os("GIUSTO_SOAK").is_some() { 1 } else { 3 };
    Name::VIRTUAL.into_iter().skip((day % parts) as usize).step_by(parts as usize)
}

#[test]
fn no_claim_fails_in_the_quick_size() {
    for name in of_today() {
        let study = study(name);
        let size = Size::read(&study.size["quick"], study.seed).unwrap();
        let csv = run(name, size, Path::new(""), &|_| ()).unwrap();
        let tables: BTreeMap<String, Table> =
            csv.iter().map(|(name, text)| (name.clone(), Table::read(name, text).unwrap())).collect();
        let judgements = judge(&study, &tables).unwrap();
        let text = findings(&study, &judgements);
        assert!(failures(&study, &judgements).is_empty(), "{text}");
        // What is known to differ is not meant to hold, and `spans` is not told from so few.
        let meant = judgements.iter().filter(|judgement| {
            let claim = &study.claim[judgement.claim];
            claim.differs.is_none() && !matches!(claim.rule, Rule::Spans(_))
        });
        let held = meant.clone().filter(|judgement| judgement.finding == Finding::Holds).count();
        println!("{}: {}", study.title, text.lines().last().unwrap());
        // So few sets cannot tell everything, but much.
        assert!(held * 10 >= meant.count() * 7, "{text}");
    }
}

#[test]
fn the_same_seed_plays_the_same_and_another_does_not() {
    for name in of_today() {
        // Packets are many, and so are replenishments.
        let many = ["vatc", "m2"].iter().any(|of| name.folder().starts_with(of));
        let seconds = if many { 1 } else { 4 };
        let size = |seed| Size::read(&BTreeMap::from([("sets".into(), 1), ("seconds".into(), seconds)]), seed).unwrap();
        let play = |seed| run(name, size(seed), Path::new(""), &|_| ()).unwrap();
        assert_eq!(play(1), play(1));
        // What is computed and nothing else does not depend on a seed.
        assert_eq!(play(1) == play(2), name == Name::Mdds1Select, "{name:?}");
    }
}

#[test]
fn sizes_are_sets_and_seconds_and_each_study_says_how_it_is_run() {
    let kafka = [Name::RtzkKafkaReconnect, Name::RtzkKafkaTopic, Name::RtzkKafkaE2e];
    let measured =
        [Name::Mdds1Measured, Name::Mdds1Redis, Name::RtzkRecovery, Name::VmLatency, Name::VasRedis, Name::VasSpark];
    for name in Name::VIRTUAL.into_iter().chain(measured).chain(kafka) {
        let study = study(name);
        assert_eq!(study.run, format!("giusto study run {}", name.folder()));
        let sets = Size::read(&study.size["full"], 0).unwrap().sets;
        let virtual_time = Name::VIRTUAL.contains(&name);
        assert!(sets >= if virtual_time { 30 } else { 10 } || name == Name::Mdds1Select, "intervals need sets");
    }
    let read = |numbers: &[(&str, u64)]| Size::read(&numbers.iter().map(|&(k, n)| (k.into(), n)).collect(), 0);
    for (numbers, word) in [
        (&[("sets", 1)][..], "'seconds'"),
        (&[("sets", 0), ("seconds", 1)], "'sets'"),
        (&[("sets", 1), ("seconds", 1), ("minutes", 1)], "'minutes'"),
    ] {
        let error = read(numbers).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("expected"), "{error}");
    }
}
