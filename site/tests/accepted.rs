//! Sites that are read, and what they mean.

use giusto_model::{
    Adopt, Bandwidth, Bucket, Cap, Copies, Duration, GuestScheduler, Interface, Load, Measured, Observe, Origin,
    PacketBucket, PacketClass, PacketUnit, PathLoad, PathObserve, PathSource, Promise, Release, Reported, Scheduler,
    ServerKind, Service, ServiceTime, Site, SiteCriticality, TaskError, Through, Tokens, Unused,
};
use giusto_site::{parse, read, SiteError, LARGEST_SITE};
use std::path::Path;

fn example(name: &str) -> Site {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../sites").join(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn site(host: &str, service: &str) -> Site {
    let text = format!("giusto: 1\nhosts: {{edge-1: {host}}}\nservices:\n  only:\n    {service}\n");
    parse("site.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn share(text: &str) -> Bandwidth {
    text.parse().unwrap()
}

fn words(words: &[&str]) -> Origin {
    Origin::Start(words.iter().map(|word| word.to_string()).collect())
}

#[test]
fn the_walk_means_what_its_comments_say() {
    let Site { hosts, services, .. } = example("walk.yaml");
    let [host] = hosts.as_slice() else { panic!("{hosts:?}") };
    assert_eq!((host.name.as_str(), &host.cores, host.keep_free), ("edge-1", &vec![1], share("5%")));
    let [cache, batch] = services.as_slice() else { panic!("{services:?}") };
    let command = "redis-server --port 7001 --bind 127.0.0.1 --save  --appendonly no";
    assert_eq!(cache.origin, words(&command.split(' ').collect::<Vec<_>>()));
    assert_eq!((cache.name.as_str(), &cache.promise, cache.margin), ("cache", &Promise::AsIfAlone, share("5%")));
    let [hset] = cache.tasks.as_slice() else { panic!("{:?}", cache.tasks) };
    assert_eq!((hset.name.as_str(), hset.copies, hset.release), ("hset", 6, Release::Sporadic));
    assert_eq!((hset.wcet, hset.period, hset.deadline), (Duration::from_us(50), Duration::from_ms(1), hset.period));
    let address = "127.0.0.1:7001".parse().unwrap();
    assert_eq!(cache.load, Some(Load::Redis { address, fields: 70, value: 8 }));
    assert_eq!(batch.origin, words(&["sh", "-c", "for worker in 1 2 3; do while :; do :; done & done; wait"]));
    assert_eq!(batch.promise, Promise::Leftovers { at_least: share("10%"), at_most: None });
    assert!(batch.tasks.is_empty() && batch.load.is_none());
}

#[test]
fn unused_cores_are_left_unless_the_host_says_park() {
    for (says, expected) in [("", Unused::Leave), (", unused: leave", Unused::Leave), (", unused: park", Unused::Park)]
    {
        let text = format!(
            "giusto: 1\nhosts: {{a: {{cores: 0-3{says}}}}}\nservices: {{b: {{start: x, promise: leftovers}}}}\n"
        );
        assert_eq!(parse("site.yaml", &text).unwrap().hosts[0].unused, expected, "{text}");
    }
}

#[test]
fn the_site_that_is_too_much_asks_for_60_percent_twice_on_one_core() {
    let site = example("too-much.yaml");
    assert_eq!(site.hosts[0].cores.len(), 1);
    let asked: Vec<_> = site.services.iter().map(|service| service.tasks[0].utilization()).collect();
    assert_eq!(asked, [Some(share("60%")), Some(share("60%"))]);
}

#[test]
fn the_supplies_ask_for_60_percent_of_one_core_together() {
    let site = example("supply.yaml");
    let asked = site.services.iter().filter_map(|service| match &service.promise {
        Promise::Supply(interfaces) => Some(interfaces[0].bandwidth()),
        _ => None,
    });
    assert_eq!((site.hosts[0].cores.len(), asked.collect::<Vec<_>>()), (1, ["30%", "10%", "20%"].map(share).to_vec()));
    assert_eq!(site.services[3].promise, Promise::Leftovers { at_least: share("20%"), at_most: None });
}

#[test]
fn hosts_and_services_keep_their_order_and_a_service_may_say_where_it_runs() {
    let Site { hosts, services, .. } = example("two-hosts.yaml");
    let hosts: Vec<_> = hosts.iter().map(|h| (h.name.as_str(), h.cores.len(), h.keep_free)).collect();
    assert_eq!(hosts, [("edge-1", 2, share("5%")), ("edge-2", 2, share("10%"))]);
    let on: Vec<_> = services.iter().map(|s| (s.name.as_str(), s.on.as_deref())).collect();
    assert_eq!(on, [("cache", None), ("alpha", None), ("beta", None), ("gamma", Some("edge-2")), ("batch", None)]);
    let backwards = "giusto: 1\nhosts:\n  z: {cores: 0}\n  a: {cores: 0}\nservices:\n  only: {start: x, on: a, promise: leftovers}\n";
    let site = parse("site.yaml", backwards).unwrap();
    assert_eq!((site.hosts[0].name.as_str(), site.hosts[1].name.as_str()), ("z", "a"));
    assert_eq!(site.services[0].on.as_deref(), Some("a"));
}

#[test]
fn adopted_services_are_found_by_pid_and_by_cgroup() {
    let site = example("adopted.yaml");
    let origins: Vec<_> = site.services.iter().map(|service| service.origin.clone()).collect();
    assert_eq!(origins, [Origin::Adopt(Adopt::Pid(1234)), Origin::Adopt(Adopt::Cgroup("batch.slice".into()))]);
    let tasks = &site.services[0].tasks;
    assert_eq!((tasks[0].deadline, tasks[0].release), (Duration::from_us(800), Release::Sporadic));
    assert_eq!((tasks[1].offset, tasks[1].release), (Duration::from_ms(10), Release::KeptOffset));
    assert_eq!(site.services[1].promise, Promise::Leftovers { at_least: Bandwidth::ZERO, at_most: None });
}

#[test]
fn units_and_virtual_machines_are_adopted_by_name_or_socket() {
    let longest = format!("/run/{}", "v".repeat(102));
    for (written, adopt) in [
        ("{systemd: search.service}", Adopt::Systemd("search.service".into())),
        ("{systemd: web@1.service}", Adopt::Systemd("web@1.service".into())),
        (
            r"{systemd: 'machine-qemu\x2d1\x2dflight.scope'}",
            Adopt::Systemd(r"machine-qemu\x2d1\x2dflight.scope".into()),
        ),
        ("{container: search_1.web-2}", Adopt::Container("search_1.web-2".into())),
        ("{qmp: /run/vm.sock}", Adopt::Qmp("/run/vm.sock".into())),
        ("{qmp: '/run/my vm/é'}", Adopt::Qmp("/run/my vm/é".into())),
        (&format!("{{qmp: {longest}}}"), Adopt::Qmp(longest.clone().into())),
        ("{libvirt: flight-1}", Adopt::Libvirt("flight-1".into())),
        ("{libvirt: 'debian 12.2'}", Adopt::Libvirt("debian 12.2".into())),
    ] {
        let site = site("{cores: 0}", &format!("{{adopt: {written}, promise: leftovers}}"));
        assert_eq!(site.services[0].origin, Origin::Adopt(adopt), "{written}");
    }
}

#[test]
fn cores_have_four_forms() {
    for (written, cores) in [
        ("3", vec![3]),
        ("0-3", vec![0, 1, 2, 3]),
        ("'0-1,3'", vec![0, 1, 3]),
        ("'3, 0-1'", vec![0, 1, 3]),
        ("[3, 1]", vec![1, 3]),
        ("[0-1, 5]", vec![0, 1, 5]),
        ("\"8191\"", vec![8191]),
    ] {
        assert_eq!(
            site(&format!("{{cores: {written}}}"), "{start: a, promise: leftovers}").hosts[0].cores,
            cores,
            "{written}"
        );
    }
    let block = "giusto: 1\nhosts:\n  edge-1:\n    cores: 0-1,3\nservices: {a: {start: a, promise: leftovers}}\n";
    assert_eq!(parse("site.yaml", block).unwrap().hosts[0].cores, [0, 1, 3]);
}

#[test]
fn what_is_not_written_has_its_documented_default() {
    let site = site("{cores: 0}", "{start: a b, tasks: [{wcet: 1ms, period: 9ms}], promise: as-if-alone}");
    assert_eq!(site.hosts[0].keep_free, share("5%"));
    let service = &site.services[0];
    assert_eq!((service.margin, &service.load), (share("5%"), &None));
    let task = &service.tasks[0];
    assert_eq!((task.name.as_str(), task.copies, task.offset), ("task1", 1, Duration::ZERO));
    assert_eq!((task.deadline, task.release), (Duration::from_ms(9), Release::Sporadic));
}

#[test]
fn a_written_offset_is_kept_unless_release_says_otherwise() {
    for (written, release) in [
        ("", Release::Sporadic),
        (", offset: 0ms", Release::KeptOffset),
        (", offset: 3ms", Release::KeptOffset),
        (", offset: 3ms, release: sporadic", Release::Sporadic),
        (", release: kept-offset", Release::KeptOffset),
    ] {
        let service = format!("{{start: a, tasks: [{{wcet: 1ms, period: 9ms{written}}}], promise: as-if-alone}}");
        assert_eq!(site("{cores: 0}", &service).services[0].tasks[0].release, release, "{written}");
    }
}

#[test]
fn commands_are_lines_or_lists_and_quotes_may_be_yaml_s() {
    for (written, expected) in [
        ("sleep 5", words(&["sleep", "5"])),
        ("[sleep, 5]", words(&["sleep", "5"])),
        ("\"echo 'a b'\"", words(&["echo", "a b"])),
        ("[echo, 'yes', '$HOME | a']", words(&["echo", "yes", "$HOME | a"])),
        ("[sh, -c, '']", words(&["sh", "-c", ""])),
    ] {
        let site = site("{cores: 0}", &format!("{{start: {written}, promise: leftovers}}"));
        assert_eq!(site.services[0].origin, expected, "{written}");
    }
    let folded = "{cores: 0}";
    let service = "start: >\n      make\n      all\n    promise: leftovers";
    assert_eq!(site(folded, service).services[0].origin, words(&["make", "all"]));
}

#[test]
fn windows_lines_a_byte_order_mark_and_document_marks_change_nothing() {
    let text = "giusto: 1\nhosts: {a: {cores: 0}}\nservices: {b: {start: c, promise: leftovers}}\n";
    let plain = parse("site.yaml", text).unwrap();
    for other in [text.replace('\n', "\r\n"), format!("\u{feff}{text}"), format!("---\n{text}...\n")] {
        assert_eq!(parse("site.yaml", &other).unwrap(), plain, "{other:?}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        read(&path).unwrap_err()
    };
    let (missing, pipe) = (folder.path().join("none.yaml"), folder.path().join("pipe"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (error, part) in [
        (read(&missing).unwrap_err(), "check its spelling"),
        (read(folder.path()).unwrap_err(), "name a site file in this directory"),
        (read(&pipe).unwrap_err(), "a pipe or a device"),
        (error("large.yaml", "#\n".repeat(LARGEST_SITE).as_bytes()), "larger than 32 MiB"),
        (error("large-binary.yaml", &vec![0xff; LARGEST_SITE + 1]), "larger than 32 MiB"),
    ] {
        let text = error.to_string();
        assert!(matches!(error, SiteError::File { .. }) && text.contains(part), "{text}");
        assert!(text.starts_with(&folder.path().display().to_string()), "{text}");
    }
    match error("latin1.yaml", b"giusto: 1\n# caf\xe9 \xfc\n") {
        SiteError::Text(at) => assert_eq!((at.line, at.column), (2, 6), "{at}"),
        other => panic!("{other}"),
    }
}

/// Not the site's business, but what its texts build on.
#[test]
fn the_model_s_texts_say_what_is_wrong_before_a_semicolon() {
    let late = TaskError::LateDeadline { deadline: Duration::from_ms(2), period: Duration::from_ms(1) };
    for text in
        [late.to_string(), "5".parse::<Duration>().unwrap_err().to_string(), "x".parse::<Bandwidth>().unwrap_err()]
    {
        assert!(text.contains("; "), "{text}");
    }
}

#[test]
fn a_supply_is_a_budget_in_a_period_with_a_server_and_a_cap_of_choice() {
    let read = |service: &str| site("{cores: 0}", service).services.remove(0);
    let plain = read("{start: a, promise: {supply: 3ms/10ms}}");
    let interface = Interface { budget: Duration::from_ms(3), period: Duration::from_ms(10) };
    assert_eq!((&plain.promise, plain.margin), (&Promise::Supply(vec![interface]), Bandwidth::ZERO));
    assert_eq!((plain.server, plain.cap), (None, Cap::Hard));
    assert_eq!(read("{start: a, promise: {supply: [3ms/10ms]}}"), plain);
    let chosen = read("{start: a, promise: {supply: 3 ms / 10 ms}, server: polling, cap: soft}");
    assert_eq!(chosen.promise, plain.promise);
    assert_eq!((chosen.server, chosen.cap), (Some(ServerKind::Polling), Cap::Soft));
    let capped = read("{start: a, promise: leftovers, at-least: 10%, at-most: 40%}");
    assert_eq!(capped.promise, Promise::Leftovers { at_least: share("10%"), at_most: Some(share("40%")) });
}

#[test]
fn every_deadline_has_tasks_a_scheduler_and_virtual_cpus() {
    let read =
        |service: &str| site("{cores: 0}", &format!("{{{service}, promise: every-deadline}}")).services.remove(0);
    let promise =
        |scheduler, vcpus, placed: &[u32]| Promise::EveryDeadline { scheduler, vcpus, placed: placed.to_vec() };
    let plain = read("start: a, tasks: [{wcet: 1ms, period: 9ms}]");
    assert_eq!(plain.promise, promise(GuestScheduler::Any, 1, &[]), "nothing is known of its order");
    assert_eq!((plain.margin, plain.tasks.len(), plain.cap), (Bandwidth::ZERO, 1, Cap::Hard));
    for (written, scheduler) in [
        ("any", GuestScheduler::Any),
        ("rm", GuestScheduler::Own(Scheduler::Rm)),
        ("dm", GuestScheduler::Own(Scheduler::Dm)),
        ("edf", GuestScheduler::Own(Scheduler::Edf)),
    ] {
        let service = read(&format!("start: a, tasks: [{{wcet: 1ms, period: 9ms}}], scheduler: {written}"));
        assert_eq!(service.promise, promise(scheduler, 1, &[]), "{written}");
    }
    let edf = GuestScheduler::Own(Scheduler::Edf);
    let vm = |tasks: &str| read(&format!("adopt: {{qmp: /vm}}, vcpus: 2, scheduler: edf, tasks: [{tasks}]"));
    let spread = vm("{wcet: 1ms, period: 9ms, copies: 2}");
    assert_eq!(spread.promise, promise(edf, 2, &[]), "copies count");
    let placed =
        vm("{wcet: 1ms, period: 9ms, vcpu: 1}, {wcet: 1ms, period: 9ms, vcpu: 0}, {wcet: 1ms, period: 9ms, vcpu: 1}");
    assert_eq!(placed.promise, promise(edf, 2, &[1, 0, 1]));
    let chosen = read("start: a, tasks: [{wcet: 1ms, period: 9ms}], server: deferrable, cap: soft");
    assert_eq!((chosen.server, chosen.cap), (Some(ServerKind::Deferrable), Cap::Soft));
}

#[test]
fn percentiles_have_arrivals_and_an_execution_time() {
    let read = |rest: &str| {
        let service = format!("{{start: a, promise: {{p99: 80ms, p50: 10ms, p99.9: 0.2s}}, {rest}}}");
        site("{cores: 0}", &service).services.remove(0)
    };
    let of = |service: &Service| match service.promise.clone() {
        Promise::Percentiles { points, arrivals, service } => (points, arrivals, service),
        other => panic!("{other:?}"),
    };
    let plain = read("arrivals: {poisson: 40/s}, execution: 8ms");
    let (points, arrivals, service) = of(&plain);
    let points: Vec<String> = points.iter().map(ToString::to_string).collect();
    assert_eq!(points, ["p50 ≤ 10 ms", "p99 ≤ 80 ms", "p99.9 ≤ 200 ms"], "ascending, however they are written");
    assert_eq!((arrivals.rate, arrivals.batch), ("40/s".parse().unwrap(), 1));
    assert_eq!(service, ServiceTime::Constant { time: Duration::from_ms(8) });
    assert_eq!((plain.margin, plain.tasks.len(), plain.load), (Bandwidth::ZERO, 0, None));
    let (_, arrivals, service) = of(&read("arrivals: {poisson: 0.5/ms, batch: 3}, execution: {mean: 1ms, wcet: 2ms}"));
    assert_eq!((arrivals.rate, arrivals.batch), ("500/s".parse().unwrap(), 3));
    assert_eq!(service, ServiceTime::Bounded { mean: Duration::from_ms(1), wcet: Duration::from_ms(2) });
    let sorting = read("arrivals: {poisson: 4/s}, execution: 9ms, load: {redis: 127.0.0.1:7001, sort: 20000}");
    let address = "127.0.0.1:7001".parse().unwrap();
    assert_eq!(sorting.load, Some(Load::RedisSort { address, items: 20_000 }));
    // Rounded up to a 500th of the longest, 4 ms: 8 us.
    let (_, _, service) = of(&read("arrivals: {poisson: 40/s}, execution: {histogram: tests/profiles/four.csv}"));
    let times = [(1_000_000, 2), (2_008_000, 1), (4_000_000, 1)].map(|(ns, n)| (Duration::from_ns(ns), n)).to_vec();
    assert_eq!(service, ServiceTime::Measured { from: "tests/profiles/four.csv".into(), times });
}

#[test]
fn a_histogram_is_looked_for_beside_the_site_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("profiles")).unwrap();
    std::fs::write(folder.path().join("profiles/p.csv"), "execution_ns,transport_ns\n7,1\n").unwrap();
    let site = folder.path().join("site.yaml");
    let text =
        "giusto: 1\nhosts: {a: {cores: 0}}\nservices:\n  s: {start: a, promise: {p90: 1ms}, arrivals: {poisson: 1/s}, \
                execution: {histogram: profiles/p.csv}}\n";
    std::fs::write(&site, text).unwrap();
    let service = giusto_site::read(&site).unwrap().services.remove(0);
    assert!(matches!(service.promise, Promise::Percentiles { service: ServiceTime::Measured { .. }, .. }));
}

#[test]
fn packets_have_classes_buckets_and_cores_of_their_own() {
    let Site { hosts, services, .. } = example("packets.yaml");
    let network = hosts[0].network.clone().unwrap();
    assert_eq!((network.cores, network.poll, network.count), (vec![0], 64, PacketUnit::Skb));
    assert_eq!((network.capacity, network.uplinks[0].name.as_str()), ("65k/s".parse().unwrap(), "eth0"));
    let bucket = |rate: &str, depth| Some(Bucket { rate: rate.parse().unwrap(), depth: Tokens::whole(depth) });
    assert_eq!(Some(network.uplinks[0].bucket), bucket("5k/s", 32));
    let sent = |rate, depth| bucket(rate, depth).map(PacketBucket::from);
    let [flight, batch] = services.as_slice() else { panic!("{services:?}") };
    let [first, second] = flight.network.as_slice() else { panic!("{flight:?}") };
    assert_eq!((first.name.as_str(), first.class, first.bucket), ("vnet3", PacketClass::High, sent("5k/s", 16)));
    assert_eq!((first.promise[0].to_string().as_str(), second.promise.len()), ("p99 ≤ 3 ms", 0));
    assert_eq!((batch.network[0].class, batch.network[0].bucket), (PacketClass::Low, None));
    // Percentiles beside other keys, in any order; a bucket for the low class; segments.
    let text = "giusto: 1\nhosts: {a: {cores: 1, network: {cores: [3, 2], capacity: 1M/s, poll: 8, count: segment}}, b: {cores: 0}}\n\
                services: {x: {start: x, on: a, promise: leftovers, network: [{p99: 2ms, vif: veth-1.2, burst: 1, p50: 1ms, rate: 1/s, class: high}, \
                {vif: tap0, class: low, rate: 2k/s, burst: 9}]}}\n";
    let site = parse("site.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    let network = site.hosts[0].network.as_ref().unwrap();
    assert_eq!((network.cores.as_slice(), network.poll, network.count), (&[2, 3][..], 8, PacketUnit::Segment));
    let points: Vec<String> = site.services[0].network[0].promise.iter().map(ToString::to_string).collect();
    assert_eq!(
        (points, site.services[0].network[1].bucket),
        (vec!["p50 ≤ 1 ms".into(), "p99 ≤ 2 ms".into()], sent("2k/s", 9))
    );
    // Rates of packets, of bits and of both, each way or one way.
    let of = |keys: &str| {
        let text = format!(
            "giusto: 1\nhosts: {{a: {{cores: 1, network: {{cores: 0, capacity: 1M/s}}}}}}\n\
             services:\n  x:\n    start: x\n    promise: leftovers\n    network: [{{vif: v0, class: high, burst: 8, {keys}}}]\n"
        );
        let site = parse("site.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
        let vif = site.services[0].network[0].clone();
        [vif.bucket, vif.received].map(|bucket| bucket.map_or("none".into(), |bucket| bucket.to_string()))
    };
    assert_eq!(of("rate: 5k/s"), ["{rate: 5000/s, depth: 8}", "none"]);
    assert_eq!(of("rate: 8192kbit/s"), ["{rate: [16000/s, 8192kbit/s], depth: 8}", "none"], "all of the smallest size");
    assert_eq!(of("rate: [200Mbit/s, 5k/s]")[0], "{rate: [5000/s, 200Mbit/s], depth: 8}");
    assert_eq!(of("rate: [5k/s, 512bit/s]")[0], "{rate: [1/s, 512bit/s], depth: 8}");
    let both = of("rate: 5k/s, receive: {rate: [1Mbit/s, 100/s], burst: 3}");
    assert_eq!(both, ["{rate: 5000/s, depth: 8}", "{rate: [100/s, 1Mbit/s], depth: 3}"]);
}

#[test]
fn criticality_has_a_worst_case_for_each_task_and_for_each_virtual_cpu() {
    let of = |service: &str| {
        let text = format!("giusto: 1\nhosts: {{a: {{cores: 0}}}}\nservices:\n  only: {service}\n");
        parse("site.yaml", &text).unwrap_or_else(|error| panic!("{error}")).services.remove(0)
    };
    let ms =
        |times: &[u64]| Some(SiteCriticality::High { worst: times.iter().map(|t| Duration::from_ms(*t)).collect() });
    // Table 1 of Asy20, as it stands there.
    let type1 = of("{start: a, criticality: high, promise: {supply: 5ms/100ms, worst: 25ms}}");
    assert_eq!((type1.criticality, type1.cap), (ms(&[25]), Cap::Soft));
    let type2 = of("{start: a, criticality: low, promise: {supply: 25ms/100ms}}");
    assert_eq!((type2.criticality, type2.cap), (Some(SiteCriticality::Low), Cap::Soft));
    // Without a worst case the usual one is all there is.
    let plain = of("{adopt: {qmp: /run/vm.sock}, criticality: high, promise: {supply: [5ms/100ms, 1ms/10ms]}}");
    assert_eq!(plain.criticality, ms(&[5, 1]));
    let each = of("{adopt: {qmp: /run/vm.sock}, criticality: high, promise: {supply: [5ms/100ms, 1ms/10ms], worst: [100ms, 1ms]}}");
    assert_eq!(each.criticality, ms(&[100, 1]));
    let tasks = "tasks: [{wcet: 2ms, period: 10ms}, {wcet: 3ms, worst-wcet: 9ms, period: 40ms, deadline: 9ms}]";
    let timely = of(&format!("{{start: a, criticality: high, promise: every-deadline, {tasks}}}"));
    assert_eq!((timely.criticality, timely.tasks[1].wcet), (ms(&[2, 9]), Duration::from_ms(3)));
    let rest = of("{start: a, criticality: low, promise: leftovers, at-least: 10%}");
    assert_eq!((rest.criticality, rest.cap), (Some(SiteCriticality::Low), Cap::Hard));
    assert_eq!(of("{start: a, promise: {supply: 5ms/100ms}}").criticality, None);
}

#[test]
fn what_is_to_be_measured_has_placeholders_and_says_what_is_to_follow() {
    let site = |service: &str| {
        let text = format!(
            "giusto: 1\nhosts: {{h: {{cores: 1}}}}\nservices:\n  a:\n    start: x\n    load: {{redis: 127.0.0.1:7001, fields: 1, value: 1}}\n{service}"
        );
        parse("site.yaml", &text).unwrap().services.remove(0)
    };
    let percent = |n| Some(Bandwidth::new(n, 100).unwrap());
    let tasks = site(
        "    promise: as-if-alone\n    adapt: {up-to: 60%}\n    tasks: [{wcet: measured, period: {fit: 30%}, copies: 6}, {wcet: measured, period: 2ms}]\n",
    );
    assert_eq!(tasks.measured, Measured::Wanted { fits: vec![percent(30), None] });
    assert_eq!((tasks.tasks[1].period, tasks.adapt), (Duration::from_ms(2), percent(60)));
    let random = site(
        "    promise: {p99: 10ms}\n    adapt: yes\n    arrivals: {poisson: {fit: 40%}, batch: 2}\n    execution: measured\n",
    );
    assert_eq!((random.measured, random.adapt), (Measured::Wanted { fits: vec![percent(40)] }, Some(Bandwidth::ONE)));
    let declared = site("    promise: as-if-alone\n    adapt: no\n    tasks: [{wcet: 1ms, period: 2ms}]\n");
    assert_eq!((declared.measured, declared.adapt, declared.observe), (Measured::Declared, None, None));
    for observe in [Observe::Requests, Observe::WakeUps, Observe::Supply, Observe::None] {
        let word = observe.word();
        let told =
            site(&format!("    promise: as-if-alone\n    observe: {word}\n    tasks: [{{wcet: 1ms, period: 2ms}}]\n"));
        assert_eq!(told.observe, Some(observe));
    }
    let reported = |text: &str| {
        let told = site(&format!(
            "    promise: as-if-alone\n    observe: {{reported: {text}}}\n    tasks: [{{wcet: 1ms, period: 2ms}}]\n"
        ));
        told.observe.unwrap()
    };
    let (from, histogram) = ("http://127.0.0.1:9121/metrics".parse().unwrap(), "request_seconds".into());
    assert_eq!(
        reported("{scrape: http://127.0.0.1:9121/metrics, histogram: request_seconds}"),
        Observe::Reported(Reported::Scrape { from, histogram })
    );
    let (at, span) = ("127.0.0.1:4318".parse().unwrap(), Some("GET /".into()));
    assert_eq!(reported("{otlp: 127.0.0.1:4318, span: GET /}"), Observe::Reported(Reported::Otlp { at, span }));
}

#[test]
fn copies_are_workers_by_the_names_of_their_threads_or_virtual_cpus() {
    let copies = |service: &str| {
        let text = format!(
            "giusto: 1\nhosts: {{h: {{cores: 0-3}}}}\nservices:\n  a:\n    promise: as-if-alone\n    \
             tasks: [{{wcet: 1ms, period: 2ms}}]\n{service}"
        );
        parse("site.yaml", &text).unwrap().services.remove(0).copies
    };
    let threads = |name: &str| Some(Copies { count: 4, threads: Some(name.into()) });
    assert_eq!(copies("    start: x\n    copies: 4\n    threads: worker-*\n"), threads("worker-*"));
    assert_eq!(
        copies("    adopt: {pid: 7}\n    copies: 4\n    threads: 'Executor task l*'\n"),
        threads("Executor task l*")
    );
    assert_eq!(copies("    adopt: {libvirt: x}\n    copies: 4\n"), Some(Copies { count: 4, threads: None }));
    // One worker is a service as any other.
    for service in ["    start: x\n", "    start: x\n    copies: 1\n", "    adopt: {libvirt: x}\n    copies: 1\n"] {
        assert_eq!(copies(service), None);
    }
}

#[test]
fn a_path_goes_through_services_that_are_promised_nothing_themselves() {
    let text = "giusto: 1
hosts: {edge-1: {cores: 0-1}, edge-2: {cores: 0}}
links: {edge-1 to edge-2: {worst: 300us}}
services:
  camera: {start: ./camera, execution: 2ms, on: edge-1}
  controller: {start: ./controller, execution: {mean: 1ms, wcet: 3ms}, on: edge-2}
paths:
  braking: {source: {poisson: 50/s}, through: [{service: camera}, {service: controller}], promise: {p99.9: 60ms, p99: 30ms}}
  round: {source: {period: 20ms, jitter: 2ms}, through: [{service: controller}], promise: {every: 30ms}}
";
    let site = parse("site.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    let ms = Duration::from_ms;
    assert_eq!(
        site.services[0].promise,
        Promise::Stage { service: ServiceTime::Constant { time: ms(2) }, counted: None }
    );
    let [link] = site.paths.links.as_slice() else { panic!("{:?}", site.paths.links) };
    assert_eq!((link.from.as_str(), link.to.as_str(), link.worst), ("edge-1", "edge-2", Duration::from_us(300)));
    let [braking, round] = site.paths.all.as_slice() else { panic!("{:?}", site.paths.all) };
    assert_eq!((braking.source, braking.every), (PathSource::Poisson("50/s".parse().unwrap()), None));
    assert_eq!(braking.services().collect::<Vec<_>>(), ["camera", "controller"]);
    assert_eq!(braking.points.iter().map(|point| point.within).collect::<Vec<_>>(), [ms(30), ms(60)]);
    assert_eq!(round.source, PathSource::Periodic { period: ms(20), jitter: ms(2), burst: 1 });
    assert_eq!((round.every, round.points.len()), (Some(ms(30)), 0));
    assert_eq!(site.paths.through("camera").count(), 1);
    assert_eq!(site.paths.through("controller").count(), 2);
}

#[test]
fn a_path_goes_over_topics_and_says_where_its_spans_come() {
    let text = "giusto: 1
hosts: {edge-1: {cores: 0-1}}
services: {camera: {start: ./camera, execution: 2ms}}
topics:
  alarms:
    publishers: 100
    each: 1/s
    brokers: [edge-1]
    promise: {p99: 9ms}
    measured: {capacity: 1k/s, latency: {p99.9: 2ms}, worst: 8ms}
paths:
  braking:
    source: {poisson: 50/s}
    through: [{topic: alarms}, {service: camera}]
    promise: {p99: 30ms}
    load: {http: '[::1]:8080/orders?a=b'}
    observe: {otlp: 127.0.0.1:4318}
";
    let site = parse("site.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    let path = &site.paths.all[0];
    assert_eq!(path.through, [Through::Topic("alarms".into()), Through::Service("camera".into())]);
    assert_eq!(
        (path.topics().collect::<Vec<_>>(), path.services().collect::<Vec<_>>()),
        (vec!["alarms"], vec!["camera"])
    );
    assert_eq!(path.observe, Some(PathObserve::Otlp("127.0.0.1:4318".parse().unwrap())));
    let address = "[::1]:8080".parse().unwrap();
    assert_eq!(path.load, Some(PathLoad::Http { address, path: "/orders?a=b".into() }));
    let bare = parse("site.yaml", &text.replace("'[::1]:8080/orders?a=b'", "127.0.0.1:8080")).unwrap();
    let address = "127.0.0.1:8080".parse().unwrap();
    assert_eq!(bare.paths.all[0].load, Some(PathLoad::Http { address, path: "/".into() }));
    assert_eq!(site.topics[0].measured.as_ref().unwrap().worst, Some(Duration::from_ms(8)));
    // A broker that is a service is on the way.
    let measured = "measured: {capacity: 1k/s, latency: {p99.9: 2ms}, worst: 8ms}";
    let text = text
        .replace(measured, "service: broker")
        .replace("services: {", "services: {broker: {start: b, execution: 1ms}, ");
    let site = parse("site.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(site.topics[0].service.as_deref(), Some("broker"));
    assert_eq!(site.paths.all[0].services().collect::<Vec<_>>(), ["broker", "camera"]);
}
