//! `giusto place`: what it admits is what `giusto plan` would.

use giusto_answers::place::Places;
use giusto_model::Backend;
use giusto_planner::Facts;
use serde_json::{json, Value};

fn machine() -> Facts {
    Facts::typical(vec![0, 1])
}

fn ask(places: &mut Places, question: Value) -> Value {
    serde_json::from_str(&places.answer(&question.to_string())).unwrap()
}

fn with_nodes<'a>(names: &[&str], machine: &'a dyn Fn() -> Facts) -> Places<'a> {
    let mut places = Places::new(machine);
    let facts = ask(&mut places, json!({"do": "facts"}))["facts"].clone();
    for node in names {
        let told = ask(&mut places, json!({"do": "node", "node": node, "cores": "0-1", "facts": facts}));
        assert_eq!(told["thousandths"], 1860, "{told}"); // 95 % − 2 % of two cores
    }
    places
}

fn supply(text: &str) -> Value {
    json!({"promise": {"supply": text}})
}

/// Σ of what is in force never goes beyond what the planner admits, and each refusal is one of `giusto plan` of the same site.
#[test]
fn services_fit_until_the_plan_of_the_same_site_is_refused() {
    let mut places = with_nodes(&["a"], &machine);
    let mut taken = 0;
    for turn in 0.. {
        let name = format!("s{turn}");
        let put = ask(&mut places, json!({"do": "put", "node": "a", "name": name, "keys": supply("3ms/10ms")}));
        let services: Vec<String> =
            (0..=taken).map(|n| format!("s{n}: {{adopt: {{pid: 9}}, promise: {{supply: 3ms/10ms}}}}")).collect();
        let text = format!("giusto: 1\nhosts: {{node: {{cores: 0-1}}}}\nservices: {{{}}}", services.join(", "));
        let whole = giusto_planner::plan(&giusto_site::parse("s", &text).unwrap(), &machine());
        if put["left"].is_u64() {
            assert!(whole.is_ok());
            taken += 1;
            continue;
        }
        let (text, whole) = (put["refused"]["text"].as_str().unwrap(), whole.unwrap_err().to_string());
        assert!(whole.starts_with(&format!("{text}; it fits with ")), "{text}\n{whole}");
        let nearest = |told: &Value| told["refused"]["nearest"].as_array().is_some_and(|all| !all.is_empty());
        assert!(!nearest(&put), "who puts does not wait for the search of what would fit: {put}");
        let why = ask(&mut places, json!({"do": "why", "node": "a", "name": name, "keys": supply("3ms/10ms")}));
        assert!(why["refused"]["text"] == whole && nearest(&why), "{why}");
        break;
    }
    assert_eq!(taken, 6); // three a core: with the manager's work for each period a fourth has no place
    let plan = ask(&mut places, json!({"do": "plan", "node": "a"}));
    assert_eq!(plan["services"].as_array().unwrap().len(), taken);
}

#[test]
fn hosts_are_asked_at_once_and_a_removed_service_leaves_its_room() {
    let mut places = with_nodes(&["a", "b"], &machine);
    let whole = json!({"promise": "as-if-alone", "tasks": [{"wcet": "1ms", "period": "10ms"}]});
    for name in ["one", "two"] {
        assert!(ask(&mut places, json!({"do": "put", "node": "a", "name": name, "keys": whole}))["left"].is_u64());
    }
    let question = json!({"do": "fits", "keys": whole, "nodes": ["a", "b", "c"]});
    let fits = ask(&mut places, question.clone());
    assert!(fits["left"]["b"].is_u64() && fits["left"].get("a").is_none(), "{fits}");
    assert!(fits["refused"]["a"].as_str().unwrap().contains("a core to itself"), "{fits}");
    assert!(fits["refused"]["c"].as_str().unwrap().contains("agent"));
    let without = json!({"do": "fits", "keys": whole, "nodes": ["a"], "without": ["one"]});
    assert!(ask(&mut places, without)["left"]["a"].is_u64());
    ask(&mut places, json!({"do": "remove", "node": "a", "name": "one"}));
    assert!(ask(&mut places, question)["left"]["a"].is_u64());
}

/// Who starts again tells what runs, in any order and whatever became of the host meanwhile: it counts.
#[test]
fn what_runs_counts_whether_it_would_be_admitted_or_not() {
    let mut places = with_nodes(&["a"], &machine);
    let whole = json!({"promise": "as-if-alone", "tasks": [{"wcet": "1ms", "period": "10ms"}]});
    for name in ["one", "two", "three"] {
        let told = ask(&mut places, json!({"do": "put", "node": "a", "name": name, "keys": whole, "runs": true}));
        assert_eq!(told, json!({"giusto": 1}));
    }
    let fits = ask(&mut places, json!({"do": "fits", "keys": supply("1ms/10ms"), "nodes": ["a"]}));
    assert!(fits["refused"]["a"].is_string(), "{fits}");
    ask(&mut places, json!({"do": "remove", "node": "a", "name": "three"}));
    ask(&mut places, json!({"do": "remove", "node": "a", "name": "two"}));
    let fits = ask(&mut places, json!({"do": "fits", "keys": supply("1ms/10ms"), "nodes": ["a"]}));
    assert!(fits["left"]["a"].is_u64(), "{fits}");
    let told = ask(&mut places, json!({"do": "put", "node": "z", "name": "one", "keys": whole, "runs": true}));
    assert!(told["error"]["reason"].as_str().unwrap().contains("no host 'z'"), "{told}");
}

#[test]
fn what_makes_no_sense_is_told_and_changes_nothing() {
    let mut places = with_nodes(&["a"], &machine);
    for (question, expected) in [
        (json!({"do": "put", "node": "a", "name": "s", "keys": {"promise": "always"}}), "always"),
        (json!({"do": "put", "node": "a", "name": "s", "keys": {"promise": "leftovers", "start": "x"}}), "'start'"),
        (json!({"do": "put", "node": "z", "name": "s", "keys": {"promise": "leftovers"}}), "no host 'z'"),
        (json!({"do": "dance"}), "dance"),
        (json!({"do": "needs", "name": "s", "keys": {"promise": "as-if-alone"}}), "tasks"),
    ] {
        let told = ask(&mut places, question);
        assert_eq!(told["error"]["exit"], 2, "{told}");
        assert!(told["error"]["reason"].as_str().unwrap().contains(expected), "{told}");
    }
    let load = json!({"redis": "127.0.0.1:7001", "fields": 1, "value": 8});
    let measured = json!({"promise": "as-if-alone", "tasks": [{"wcet": "measured", "period": "10ms"}], "load": load});
    let told = ask(&mut places, json!({"do": "put", "node": "a", "name": "s", "keys": measured}));
    assert!(told["refused"]["exit"] == 2 || told["error"]["exit"] == 2, "{told}");
    assert_eq!(ask(&mut places, json!({"do": "plan", "node": "a"}))["services"], json!([]));
}

/// A machine that tells its facts elsewhere is planned for as at home.
#[test]
fn facts_come_back_as_they_were_told() {
    let facts = Facts { insist: Some(Backend::Manager), ..machine() };
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
}

#[test]
fn each_question_of_the_golden_has_an_answer() {
    let mut places = Places::new(&machine);
    let golden = include_str!("../../formats/goldens/place.jsonl");
    let answers: Vec<Value> = golden.lines().map(|line| serde_json::from_str(&places.answer(line)).unwrap()).collect();
    assert!(answers.iter().all(|answer| answer["giusto"] == 1 && answer.get("error").is_none()), "{answers:#?}");
    assert_eq!(answers.iter().filter(|answer| answer["refused"]["exit"] == 1).count(), 1, "{answers:#?}");
}
