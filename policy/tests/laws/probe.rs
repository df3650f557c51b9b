use crate::oracle::Spec;
use crate::pair::{Call, Pair};
use giusto_policy::{Kind, Order};
#[test]
fn probe() {
    let s = Spec { kind: Kind::ConstantBandwidth, budget: 2, period: 10, priority: 2, first: 0 };
    let h = Spec { kind: Kind::Unlimited, budget: 2, period: 10, priority: 1, first: 0 };
    for calls in [
        vec![Call::Ready(0, true, 0), Call::Ready(1, true, 0), Call::Decide(0), Call::Ready(0, false, 12), Call::Decide(12), Call::Ready(1,false,14), Call::Decide(14), Call::Decide(25)],
    ] {
        let mut p = Pair::new(Order::FixedPriority, 1);
        p.call(Call::Add(h, 0)).unwrap();
        p.call(Call::Add(s, 0)).unwrap();
        for c in &calls {
            if let Err(e) = p.call(*c) {
                println!("{calls:?}\n {c:?} {e}");
            }
        }
    }
}
