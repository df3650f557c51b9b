use crate::oracle::Spec;
use crate::pair::{Call, Pair};
use giusto_policy::{Kind, Order, When};
#[test]
fn probe() {
    let s = Spec { kind: Kind::Sporadic, budget: 5, period: 16, priority: 0, first: 0 };
    for calls in [
        vec![Call::Ready(0, true, 0), Call::Decide(0), Call::Decide(5), Call::Set(0,5,8,3,When::NextPeriod,5), Call::Decide(5)],
        vec![Call::Ready(0, true, 0), Call::Decide(0), Call::Decide(6), Call::Set(0,5,8,3,When::NextPeriod,15), Call::Decide(15)],
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
