#[path="../tests/common/mod.rs"] mod common;
use common::*; use giusto_verify::*; use rand::Rng;
fn main(){
 let n: usize=std::env::args().nth(1).unwrap().parse().unwrap();
 let mut r=rng(1);
 let mut arm=|extra:f64,mean:f64,k:usize|->Vec<Sample>{(0..k).map(|_|{let base=bursty(n,mean,6.0,&mut r);let f=base.finished().to_vec();let f:Vec<u64>=(0..n).map(|i|f[(i*7919)%n]).collect();
   sample(f.iter().map(|&x| x+ if r.random::<f64>()<extra {r.random_range(0..20_000_000)} else {0}).collect::<Vec<_>>())}).collect()};
 let whole=arm(0.001,50.,3);let un=arm(0.3,70.,3);let gi=arm(0.0012,52.,3); let pred=arm(0.0,50.,1).remove(0);
 let arms=Arms{whole,unprotected:un,giusto:gi,predicted:Some(Predicted::Sample(pred)),voided:vec!["round 3: steal 4 % > 1 %".into()]};
 let t=std::time::Instant::now();
 let c=compare(&arms,42).unwrap(); eprintln!("compare {:?}",t.elapsed());
 let t=std::time::Instant::now();
 let m=ReportMeta{title:"cache <on> a share of a core".into(),outcome:"60 % of the core left for others (5 % kept free)".into(),lines:vec![("command".into(),"giusto run sites/cache.yaml --trial 3 --seed 42".into()),("kernel".into(),"6.1.0-18-amd64 PREEMPT_DYNAMIC".into()),("steal".into(),"0.3 % & 12 ms worst hole".into())]};
 let h=report_html(&m,&c,&arms);eprintln!("html {:?} {} bytes",t.elapsed(),h.len());
 print!("{}",table(&c,&m.outcome)); println!("{}",c.why);
 std::fs::write("/tmp/verify-look.html",h).unwrap();
 let two=compare_two(&arms.whole[0],&arms.unprotected[0],1).unwrap(); print!("{}",table_two(&two,["a.csv","b.csv"]));
 if n<2000 {println!("{}",serde_json::to_string_pretty(&c).unwrap());}
}
