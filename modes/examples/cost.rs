//! Processor time of the manager for a change of 12 members with 3 parts each, without sockets: the time of each
//! policy is printed.
//!
//! cargo run --release --locked -p giusto-modes --example cost

use giusto_model::{Bandwidth, Duration, Instant, Server, ServerKind};
use giusto_modes::*;

const CHANGES: u64 = 2_000;

fn main() {
    for policy in [Policy::Sequential, Policy::Batch, Policy::Greedy, Policy::Boost] {
        let mut times: Vec<f64> = (0..CHANGES).map(|_| 0.0).collect();
        let mut manager = manager(policy);
        let (mut now, mut out) = (0u64, Vec::new());
        for (change, time) in times.iter_mut().enumerate() {
            now += 10_000_000;
            let start = std::time::Instant::now();
            let mode = (change + 1) % 2;
            let mut events = std::collections::VecDeque::from([Event::Request {
                request: change as u64,
                target: Target::Mode(mode),
            }]);
            while let Some(event) = events.pop_front() {
                now += 1_000;
                let at = Instant::from_ns(now);
                manager.handle(at, event, &mut out);
                events.extend(out.drain(..).filter_map(|action| match action {
                    Action::Set { set, .. } => Some(Event::SetDone { set, in_force: at }),
                    Action::Send { member, message: ToAgent::Command { change, local } } => {
                        let message = FromAgent::Done { change, local, received_ns: 0, switched_ns: 0 };
                        Some(Event::Message { member, message })
                    }
                    _ => None,
                }));
            }
            *time = start.elapsed().as_secs_f64() * 1e6;
            assert_eq!(manager.mode(), Some(mode));
        }
        times.sort_by(f64::total_cmp);
        let at = |p: f64| times[(p * (CHANGES - 1) as f64) as usize];
        println!("{policy:?}: median {:.1} us, p99 {:.1} us", at(0.5), at(0.99));
    }
}

fn manager(policy: Policy) -> Manager<impl Admission> {
    let server = |tenths| Server {
        kind: ServerKind::Deferrable,
        budget: Duration::from_us(100 * tenths),
        period: Duration::from_ms(5),
    };
    let local = |name: &str, tenths| Local {
        name: name.into(),
        utilization: Bandwidth::ZERO,
        servers: vec![server(tenths); 3],
    };
    let member = |index: u64| {
        let (first, second) = if index.is_multiple_of(2) { (10 + index, 5 + index) } else { (5 + index, 10 + index) };
        let locals = vec![local("first", first), local("second", second)];
        Member { name: format!("vm{index}"), agent: true, parts: vec![0; 3], locals, asks: Vec::new() }
    };
    let members: Vec<Member> = (0..12).map(member).collect();
    let mode = |name: &str, local| Mode { name: name.into(), locals: vec![local; 12], urgent: false };
    let place = Place { name: "pool".into(), boosts: 15 };
    let table = Table::new(vec![place], members, vec![mode("first", 0), mode("second", 1)]).expect("a table");
    let settings = Settings {
        policy,
        requests: Requests::Reject,
        on_timeout: OnTimeout::RollBack,
        transition: Transition::Fast,
        timeout: Duration::from_ms(20),
        spacing: Duration::from_ms(10),
        boost: Duration::from_us(400),
    };
    let fits = |_: usize, servers: &[Server]| {
        let share = |server: &Server| server.budget.ns() * 1_000_000 / server.period.ns();
        servers.iter().map(share).sum::<u64>() <= 15_000_000
    };
    let hellos: Vec<FromAgent> = table
        .members()
        .iter()
        .map(|member| FromAgent::Hello { local: Some(0), change: 0, digest: member.digest() })
        .collect();
    let mut manager = Manager::new(table, settings, fits, &[0; 12]).expect("settings");
    for (member, message) in hellos.into_iter().enumerate() {
        manager.handle(Instant::ZERO, Event::Message { member, message }, &mut Vec::new());
    }
    manager
}
