use crate::oracle::Spec;
use crate::pair::{Call, Pair};
use giusto_policy::{Kind, Order,When};
#[test]
fn probe() {
    let s = Spec { kind: Kind::ConstantBandwidth, budget: 11, period: 16, priority: 2, first: 6 };
    let h = Spec { kind: Kind::PeriodicReclaiming, budget: 6, period: 17, priority: 1, first: 0 };
    for calls in [
        vec![Call::Decide(20), Call::Ready(1, true, 28), Call::Decide(28), Call::Ready(0, true, 80), Call::Decide(80), Call::Decide(268), Call::Ready(0,false,275), Call::Set(0,1,5,1,When::Now,275), Call::Decide(275), Call::Decide(280)],
    ] {
        let mut p = Pair::new(Order::Edf, 1);
        p.call(Call::Add(s, 0)).unwrap();
        p.call(Call::Add(h, 0)).unwrap();
        for c in &calls {
            let e = p.call(*c);
            println!("{c:?}: {:?} {:?} {} {} {e:?}", p.oracle.look(0), p.oracle.running(0), p.pool.left_ns(p.ids[0]), p.pool.deadline_ns(p.ids[0]));
        }
    }
}
