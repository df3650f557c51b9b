use crate::oracle::Spec;
use crate::pair::{Call, Pair};
use giusto_policy::{Kind, Order};
#[test]
fn probe() {
    let s = Spec { kind: Kind::Polling, budget: 2, period: 4, priority: 0, first: 0 };
    for calls in [
        vec![Call::Ready(0, true, 0), Call::Decide(0), Call::Ready(0, false, 4), Call::Ready(0, true, 4), Call::Decide(4)],
        vec![Call::Ready(0, true, 0), Call::Decide(0), Call::Charge(0, 1, 4), Call::Ready(0, false, 4), Call::Ready(0, true, 4), Call::Decide(4)],
        vec![Call::Ready(0, true, 0), Call::Decide(0), Call::Ready(0, false, 4), Call::Decide(4), Call::Ready(0, true, 4), Call::Decide(4)],
        vec![Call::Decide(0), Call::Ready(0, true, 4), Call::Decide(4)],
        vec![Call::Decide(4), Call::Ready(0, true, 4), Call::Decide(4)],
    ] {
        let mut p = Pair::new(Order::FixedPriority, 1);
        p.call(Call::Add(s, 0)).unwrap();
        for c in &calls {
            if let Err(e) = p.call(*c) {
                println!("{calls:?}\n {c:?} {e}");
            }
        }
    }
}
