//! The order of changes against one who tries every order.

#[path = "explore/scene.rs"]
mod scene;

use giusto_model::Instant;
use giusto_modes::{Action, Event, Manager, Outcome, Policy, Refusal, Requests, Settings, Target};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use scene::{in_us, passes, scene, Scene};

/// Whether members that change one after the other, in some order, each with what grows first and what shrinks last, pass everywhere.
fn some_order(scene: &Scene, from: &[usize], to: &[usize], done: &mut Vec<usize>) -> bool {
    let members = scene.table.members();
    if done.len() == members.len() {
        return true;
    }
    (0..members.len()).any(|next| {
        if done.contains(&next) || !passes_with(scene, from, to, done, Some(next)) {
            return false;
        }
        done.push(next);
        let found = passes_with(scene, from, to, done, None) && some_order(scene, from, to, done);
        done.pop();
        found
    })
}

/// Whether every place passes when those are done, and this one has the larger of both for each part.
fn passes_with(scene: &Scene, from: &[usize], to: &[usize], done: &[usize], on_the_way: Option<usize>) -> bool {
    (0..scene.tests.len()).all(|place| {
        let mut servers = Vec::new();
        for (m, member) in scene.table.members().iter().enumerate() {
            for p in (0..member.parts.len()).filter(|&p| member.parts[p] == place) {
                let server = |local: usize| member.locals[local].servers.get(p).map(in_us);
                let (old, new) = (server(from[m]), server(to[m]));
                servers.extend(match on_the_way {
                    Some(this) if this == m => old.max(new),
                    _ if done.contains(&m) => new,
                    _ => old,
                });
            }
        }
        passes(scene.tests[place], &servers)
    })
}

#[test]
fn a_change_is_refused_only_if_no_order_passes() {
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let (mut ordered, mut none, mut unfit) = (0, 0, 0);
    while ordered + none < 3_000 {
        let scene = scene(&mut rng);
        // One period: then one of two servers is always the larger.
        let periods: Vec<u64> = scene
            .table
            .members()
            .iter()
            .flat_map(|member| member.locals.iter().flat_map(|local| local.servers.iter().map(|s| s.period.ns())))
            .collect();
        if periods.iter().any(|period| *period != periods[0]) {
            continue;
        }
        let members = scene.table.members().len();
        let modes = scene.table.modes().len();
        let to: Vec<usize> = if rng.random_bool(0.5) {
            vec![1; members]
        } else {
            (0..members).map(|_| rng.random_range(0..modes)).collect()
        };
        let from = vec![0; members];
        let settings = Settings { policy: Policy::Greedy, requests: Requests::Reject, ..scene.settings };
        let tests = scene.tests.clone();
        let fits = move |place: usize, servers: &[giusto_model::Server]| {
            passes(tests[place], &servers.iter().map(in_us).collect::<Vec<_>>())
        };
        let mut manager = Manager::new(scene.table.clone(), settings, fits, &from).unwrap();
        let mut out = Vec::new();
        let request = Event::Request { request: 1, target: Target::Locals(to.clone()) };
        manager.handle(Instant::ZERO, request, &mut out);
        let refusal = out.iter().find_map(|action| match action {
            Action::Answer { outcome: Outcome::Refused(why), .. } => Some(why.clone()),
            _ => None,
        });
        let fits = passes_with(&scene, &from, &to, &(0..members).collect::<Vec<_>>(), None);
        let found = fits && some_order(&scene, &from, &to, &mut Vec::new());
        match refusal {
            None => {
                assert!(found, "{to:?} was begun and no order passes");
                ordered += 1;
            }
            Some(Refusal::NoOrder { .. }) => {
                assert!(fits && !found, "{to:?} was refused and an order passes");
                none += 1;
            }
            Some(Refusal::DoesNotFit { .. }) => {
                assert!(!fits);
                unfit += 1;
            }
            Some(other) => panic!("{other:?}"),
        }
    }
    println!("{ordered} with an order, {none} without, {unfit} that do not fit");
    assert!(ordered > 500 && none > 300 && unfit > 100, "the interesting cases must occur");
}
