//! The exchange format of CARTS: what is read, that nothing is lost on the way out and in, and that no text does harm.

use giusto_model::{Duration, Interface, Release, Task};
use giusto_site::carts::{parse, read, write, Component, Period, Scheduler, Unit, SYSTEM};
use giusto_site::{SiteError, LARGEST_FILE};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use roxmltree::{Document, Node};
use std::collections::BTreeMap;
use std::fmt::Write;

const UNITS: [Unit; 4] = [Unit::Ns, Unit::Us, Unit::Ms, Unit::S];

fn of(text: &str) -> Component {
    parse("system.xml", text, Unit::Ms).unwrap_or_else(|error| panic!("{error}"))
}

/// In the words of the tool's own editor, with what its users write by hand.
const EXAMPLE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- two partitions -->
<system os_scheduler="DM"	min_period="1"	max_period="1">
<component name="C1"	scheduler="EDF"	min_period="3"	max_period="11"	vmips="17.76" criticality="A"	subtype="tasks">
<task name="T1" p="25" d="25" e="1.4" cs="0" jitter="0" offset="2"></task>
<task p="50" d="40" e="3.9" delta_rel="0" delta_sch="0.0" delta_cxs="0" delta_crpmd="0" > </task>
</component>
<Component name="C &amp; D" scheduler="pRM" period="2.5"><Task name="" p="10.0" d="10" e="0.5"/></Component>
<component name="C3" min_period="0" max_period="0">
  <resource><model period="9" bandwidth="0.25" deadline="9"> </model></resource>
  <processed_task><model period="9" execution_time="2.25" deadline="9"> </model></processed_task>
  <component name="C3 inner"><task name="only" p="7" d="7" e="2"/></component>
</component>
</system>
"#;

#[test]
fn a_file_means_what_carts_makes_of_it() {
    let system = of(EXAMPLE);
    assert_eq!((system.name.as_str(), system.scheduler), (SYSTEM, Scheduler::Dm));
    assert_eq!(system.period, Period::Exactly(Duration::from_ms(1)));
    let [first, second, third] = system.components.as_slice() else { panic!("{system:?}") };
    assert_eq!((first.name.as_str(), first.scheduler), ("C1", Scheduler::Edf));
    assert_eq!(first.period, Period::Between(Duration::from_ms(3), Duration::from_ms(11)));
    assert_eq!(first.notes, ["A", "17.76", "tasks"].map(|note| Some(note.to_string())));
    let (one, two) = (&first.tasks[0], &first.tasks[1]);
    assert_eq!((one.name.as_str(), one.wcet, one.period), ("T1", Duration::from_us(1400), Duration::from_ms(25)));
    assert_eq!((one.offset, one.release), (Duration::from_ms(2), Release::KeptOffset));
    assert_eq!((two.name.as_str(), two.deadline, two.release), ("task2", Duration::from_ms(40), Release::Sporadic));
    assert_eq!((second.name.as_str(), second.scheduler), ("C & D", Scheduler::Rm));
    assert_eq!(second.period, Period::Exactly(Duration::from_us(2500)));
    assert_eq!((second.tasks[0].name.as_str(), second.tasks[0].wcet), ("task1", Duration::from_us(500)));
    assert_eq!((third.period, third.scheduler, third.tasks.len()), (Period::Free, Scheduler::Edf, 0));
    assert_eq!((third.components[0].name.as_str(), third.components[0].tasks.len()), ("C3 inner", 1));
}

#[test]
fn numbers_are_of_the_unit_that_the_caller_states() {
    let text = r#"<system os_scheduler="edf" period="3"><task name="a" p="10" d="9.5" e="2"/></system>"#;
    for (unit, ns) in [(Unit::Us, 1_000), (Unit::Ms, 1_000_000), (Unit::S, 1_000_000_000u64)] {
        let system = parse("a.xml", text, unit).unwrap();
        assert_eq!(system.period, Period::Exactly(Duration::from_ns(3 * ns)));
        assert_eq!(system.tasks[0].deadline, Duration::from_ns(19 * ns / 2));
    }
    assert!(parse("a.xml", text, Unit::Ns).unwrap_err().to_string().contains("whole number of nanoseconds"));
    for unit in UNITS {
        assert_eq!(unit.to_string().parse(), Ok(unit));
    }
    assert!("min".parse::<Unit>().unwrap_err().contains("ns, us, ms, s"));
}

/// A tree whose times need every digit, with names that need every escape.
fn random(rng: &mut ChaCha8Rng, depth: usize, count: &mut usize) -> Component {
    const CHARACTERS: [char; 12] = ['a', 'Z', '7', ' ', '&', '<', '>', '"', '\'', 'é', '名', ';'];
    fn name(rng: &mut ChaCha8Rng) -> String {
        (0..rng.random_range(1..20)).map(|_| CHARACTERS[rng.random_range(0..CHARACTERS.len())]).collect()
    }
    fn time(rng: &mut ChaCha8Rng, least: u64) -> u64 {
        let step = 10u64.pow(rng.random_range(0..10));
        let bits = rng.random_range(1..33);
        least.saturating_add(rng.random_range(1..1u64 << bits).saturating_mul(step))
    }
    *count += 1;
    let mut task = || {
        let wcet = time(rng, 0);
        let deadline = if rng.random_bool(0.3) { wcet } else { time(rng, wcet) };
        let period = if rng.random_bool(0.5) { deadline } else { time(rng, deadline) };
        let offset = if rng.random_bool(0.3) { time(rng, 0) } else { 0 };
        Task {
            name: name(rng),
            wcet: Duration::from_ns(wcet),
            period: Duration::from_ns(period),
            deadline: Duration::from_ns(deadline),
            offset: Duration::from_ns(offset),
            release: if offset > 0 { Release::KeptOffset } else { Release::Sporadic },
            copies: 1,
        }
    };
    let tasks: Vec<Task> = (0..3).map(|_| task()).collect();
    let deeper = if depth < 4 { rng.random_range(0..3) } else { 0 };
    let fewest = usize::from(deeper == 0);
    let (least, wider) = (time(rng, 0), time(rng, 0));
    let period = match rng.random_range(0..3) {
        0 => Period::Free,
        1 => Period::Exactly(Duration::from_ns(least)),
        _ => Period::Between(Duration::from_ns(least), Duration::from_ns(least.saturating_add(wider).max(least + 1))),
    };
    Component {
        name: if depth == 0 { SYSTEM.into() } else { format!("{}{count}", name(rng)) },
        scheduler: [Scheduler::Edf, Scheduler::Rm, Scheduler::Dm][rng.random_range(0..3)],
        period,
        notes: std::array::from_fn(|_| rng.random_bool(0.3).then(|| name(rng))),
        tasks: tasks[..rng.random_range(fewest..=3)].to_vec(),
        components: (0..deeper).map(|_| random(rng, depth + 1, count)).collect(),
    }
}

/// Every component of a tree, and how deep it is.
fn all(component: &Component, depth: usize) -> Vec<(&Component, usize)> {
    let below = component.components.iter().flat_map(|part| all(part, depth + 1));
    std::iter::once((component, depth)).chain(below).collect()
}

#[test]
fn what_is_written_is_read_again_in_every_unit_with_results_and_without() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (mut deep, mut ranges, mut free, mut offsets, mut notes, mut escapes, mut fractions) = (0, 0, 0, 0, 0, 0, 0);
    for round in 0..600 {
        let system = random(&mut rng, 0, &mut 0);
        let parts = all(&system, 0);
        let mut found = BTreeMap::new();
        for (part, _) in &parts {
            let period = rng.random_range(1..1u64 << 40);
            let budget = Duration::from_ns(rng.random_range(1..=period));
            if rng.random_bool(0.7) {
                found.insert(part.name.clone(), Interface { period: Duration::from_ns(period), budget });
            }
        }
        let unit = UNITS[round % 4];
        let plain = write(&system, unit, &|_| None);
        let filled = write(&system, unit, &|part| found.get(&part.name).copied());
        for text in [&plain, &filled] {
            let again = parse("out.xml", text, unit).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(again, system, "{text}");
        }
        results_are_those(&filled, unit, &found);
        deep += usize::from(parts.iter().any(|(_, depth)| *depth == 4));
        let tasks = || parts.iter().flat_map(|(part, _)| &part.tasks);
        offsets += usize::from(tasks().any(|task| !task.offset.is_zero()));
        ranges += usize::from(parts.iter().any(|(part, _)| matches!(part.period, Period::Between(..))));
        free += usize::from(parts.iter().any(|(part, _)| part.period == Period::Free));
        notes += usize::from(parts.iter().any(|(part, _)| part.notes.iter().any(Option::is_some)));
        escapes += usize::from(parts.iter().any(|(part, _)| part.name.contains(['&', '<', '>', '"'])));
        fractions += usize::from(plain.contains('.'));
    }
    println!("deep {deep}, ranges {ranges}, free {free}, offsets {offsets}, notes {notes}, escapes {escapes}, fractions {fractions}");
    assert!(deep > 50 && ranges > 200 && free > 200 && offsets > 200 && notes > 200 && escapes > 200);
    assert!(fractions > 250);
}

/// `text`, taken apart without the reader, holds `found` in the elements of CARTS' results, exactly, and no others.
fn results_are_those(text: &str, unit: Unit, found: &BTreeMap<String, Interface>) {
    let document = Document::parse(text).unwrap();
    let components =
        || document.descendants().filter(|node| node.has_tag_name("system") || node.has_tag_name("component"));
    let exact = |node: Node<'_, '_>, key: &str| {
        let number = node.attribute(key).unwrap_or_else(|| panic!("{key} in {text}"));
        format!("{number}{unit}").parse::<Duration>().unwrap()
    };
    let mut seen = 0;
    for component in components() {
        let models: Vec<_> = ["resource", "processed_task"]
            .into_iter()
            .flat_map(|tag| component.children().filter(move |child| child.has_tag_name(tag)))
            .flat_map(|results| results.children().filter(|child| child.has_tag_name("model")))
            .collect();
        let Some(Interface { period, budget }) = found.get(component.attribute("name").unwrap_or(SYSTEM)).copied()
        else {
            assert!(models.is_empty());
            continue;
        };
        seen += 1;
        let [resource, task] = models.as_slice() else { panic!("{text}") };
        for model in [resource, task] {
            assert_eq!((exact(*model, "period"), exact(*model, "deadline")), (period, period));
        }
        assert_eq!(exact(*task, "execution_time"), budget);
        // Never less than the budget, and by less than a billionth more.
        let share = resource.attribute("bandwidth").unwrap();
        let (whole, part) = share.split_once('.').unwrap_or((share, ""));
        let share: u128 = format!("{whole}{part:0<9}").parse().unwrap();
        let (wanted, period) = (u128::from(budget.ns()) * 1_000_000_000, u128::from(period.ns()));
        assert!(share * period >= wanted && (share - 1) * period < wanted, "{budget} in {period}: {share}");
        // Where those look who count children: first the resource, then the tasks for the scheduler above.
        let first: Vec<_> = component.children().filter(Node::is_element).map(|node| node.tag_name().name()).collect();
        assert_eq!(first[..2], ["resource", "processed_task"]);
    }
    assert_eq!(seen, found.len());
}

#[test]
fn a_tree_with_results_looks_as_expected() {
    let text = r#"<system os_scheduler="EDF"><component name="VM1" scheduler="RM"><task p="7" d="7" e="2.5"/></component></system>"#;
    let interface = |part: &Component| {
        let found = Interface { period: Duration::from_ms(3), budget: Duration::from_ms(2) };
        (part.name == "VM1").then_some(found)
    };
    let expected = "\
<system os_scheduler=\"EDF\">
	<component name=\"VM1\" scheduler=\"RM\">
		<resource>
			<model period=\"3\" bandwidth=\"0.666666667\" deadline=\"3\"/>
		</resource>
		<processed_task>
			<model period=\"3\" execution_time=\"2\" deadline=\"3\"/>
		</processed_task>
		<task name=\"task1\" p=\"7\" d=\"7\" e=\"2.5\"/>
	</component>
</system>
";
    assert_eq!(write(&of(text), Unit::Ms, &interface), expected);
}

#[test]
fn files_that_cannot_be_read_are_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("system.xml");
    let error = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read(&path, Unit::Ms).unwrap_err().to_string()
    };
    let large = format!("<system><task p=\"7\" d=\"7\" e=\"2\"/>{}</system>", " ".repeat(LARGEST_FILE));
    for (found, expected) in [
        (error(large.as_bytes()), "larger than 1 MiB"),
        (error(b"<system>\n<task name=\"\xff\"/></system>"), "system.xml:2:13: this is not UTF-8 text"),
        (
            read(&folder.path().join("none.xml"), Unit::Ms).unwrap_err().to_string(),
            "such as avionics.xml; check its spelling",
        ),
        (read(folder.path(), Unit::Ms).unwrap_err().to_string(), "a file of CARTS in this directory"),
        (parse("large.xml", &large, Unit::Ms).unwrap_err().to_string(), "larger than 1 MiB"),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    std::fs::write(&path, format!("\u{feff}{}", EXAMPLE.replace('\n', "\r\n"))).unwrap();
    assert_eq!(read(&path, Unit::Ms).unwrap(), of(EXAMPLE));
}

/// The last start of a character up to `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[test]
fn damaged_files_never_panic_and_every_error_has_a_place_that_exists() {
    const PIECES: [&str; 20] = [
        "<",
        ">",
        "/>",
        "</",
        "\"",
        "'",
        "&",
        "&amp;",
        "&#0;",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?x ?>",
        "<!DOCTYPE a>",
        "xmlns=\"a\" ",
        "\0",
        "é",
        "99999999999999999999",
        "<task p=\"7\" d=\"7\" e=\"2\"/>",
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut text = EXAMPLE.to_string();
        for _ in 0..rng.random_range(1..4) {
            let from = boundary(&text, rng.random_range(0..=text.len()));
            let to = boundary(&text, text.len().min(from + rng.random_range(0..30))).max(from);
            match rng.random_range(0..3) {
                0 => text.insert_str(from, PIECES[rng.random_range(0..PIECES.len())]),
                1 => drop(text.drain(from..to)),
                _ => {
                    let part = text[from..to].to_owned();
                    text.insert_str(from, &part);
                }
            }
        }
        match parse("damaged.xml", &text, Unit::Ms) {
            Ok(system) => {
                accepted += 1;
                assert!(all(&system, 0).iter().all(|(part, _)| part.tasks.iter().all(|task| task.validate().is_ok())));
            }
            Err(SiteError::Text(error)) => {
                refused += 1;
                let line =
                    text.trim_start_matches('\u{feff}').split('\n').nth(error.line - 1).expect("the line exists");
                assert!(error.column <= line.chars().count() + 1, "{error}\n{text}");
            }
            Err(error) => panic!("{error}\n{text}"),
        }
    }
    println!("accepted {accepted}, refused {refused}");
    assert!(accepted > 500 && refused > 5_000);
}

#[test]
fn large_deep_and_wide_texts_are_answered_without_exhausting_stack_or_patience() {
    let nested = |open: &str, close: &str| {
        let times = (LARGEST_FILE - 100) / (open.len() + close.len());
        format!("<system>{}{}</system>", open.repeat(times), close.repeat(times))
    };
    let mut names = String::new();
    for number in 0.. {
        let more = format!("<component name=\"{number}\"><task p=\"7\" d=\"7\" e=\"2\"/></component>");
        if names.len() + more.len() > LARGEST_FILE - 100 {
            break;
        }
        names += &more;
    }
    assert_eq!(of(&format!("<system>{names}</system>")).components.len(), names.matches("<component").count());
    let mut attributes = String::new();
    for number in 0..100_000 {
        let _ = write!(attributes, "a{number}=\"\" ");
    }
    let names = attributes[..attributes.len().min(LARGEST_FILE - 100)].rsplit_once(' ').unwrap().0;
    for (text, found) in [
        (nested("<component name=\"a\">", "</component>"), "another component is named 'a'"),
        (nested("<a>", "</a>"), "<a> is not known in a system"),
        (format!("<system>{}", "<a>".repeat(LARGEST_FILE / 3 - 10)), "never closed"),
        (format!("<system>{}</system>", "&amp;".repeat(LARGEST_FILE / 5 - 10)), "a text stands between"),
        (format!("<system {names}/>"), "more than 1000 attributes"),
        ("<!--".repeat(LARGEST_FILE / 4), "this is not XML"),
    ] {
        let error = parse("large.xml", &text, Unit::Ms).unwrap_err().to_string();
        assert!(error.contains(found), "{}", error.lines().next().unwrap());
    }
}
