"""Answers are those of the command line, to the bit, on random questions."""

import random

import pytest
from conftest import run

import giusto
from giusto import analyze

ROUNDS = 12


def tasks(rng, most=4):
    found = []
    for _ in range(rng.randint(1, most)):
        period = rng.choice([4, 5, 7, 8, 10, 12, 20, 25, 40])
        wcet = rng.randint(1, max(1, period * 1000 // 5)) + 100
        deadline = rng.choice(["", "", f"@{rng.randint(wcet, period * 1000)}us"])
        found.append(f"{wcet}us/{period}ms{deadline}")
    return found


def flags(name, values):
    return [word for value in values for word in (f"--{name}", value)]


def same(cli, words, ask):
    """Both answer the same, or neither does, with the same text."""
    try:
        mine = ask()
    except giusto.Error as error:
        code, _, err = run(*words, "--json")
        assert code in (1, 2), (words, code)
        assert code == (1 if isinstance(error, giusto.DoesNotFit) else 2)
        assert str(error) in err.replace("giusto: ", "", 1)
        return None
    assert mine.to_dict() == cli(*words, "--json"), words
    return mine


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_interfaces(cli, seed):
    rng = random.Random(seed)
    given, scheduler, supply = tasks(rng), rng.choice(["rm", "dm", "edf"]), rng.choice(["general", "edp"])
    more, words = {}, []
    if rng.random() < 0.5:
        more["period"] = f"{rng.randint(1, 9)}ms"
        words += ["--period", more["period"]]
    if rng.random() < 0.3:
        more["sensitivity"] = True
        words += ["--sensitivity"]
    if rng.random() < 0.3:
        more["latency"] = "150us"
        words += ["--latency", "150us"]
    words = [
        "analyze",
        "interface",
        "--scheduler",
        scheduler,
        "--supply",
        supply,
        "--quantum",
        "100us",
        *flags("task", given),
        *words,
    ]
    same(cli, words, lambda: analyze.interface(given, scheduler, supply=supply, quantum="100us", **more))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_given_planes_and_shares(cli, seed):
    rng = random.Random(100 + seed)
    given, scheduler = tasks(rng), rng.choice(["rm", "edf"])
    resource = f"{rng.randint(1, 4)}ms/{rng.randint(5, 9)}ms"
    words = ["analyze", "interface", "--scheduler", scheduler, *flags("task", given), "--given", resource]
    same(cli, words, lambda: analyze.given(given, scheduler, resource))
    words = ["analyze", "plane", "--scheduler", scheduler, *flags("task", given), "--period", "3ms"]
    same(cli, words, lambda: analyze.plane(given, scheduler, period="3ms"))
    offsets = [f"{task.split('@')[0]}+{rng.randint(0, 3)}ms" for task in given]
    same(cli, ["analyze", "share", *flags("task", offsets)], lambda: analyze.share(offsets))
    words = ["analyze", "share", *flags("task", offsets), "--max-period", "7ms", "--releases", "sporadic"]
    same(cli, words, lambda: analyze.share(offsets, max_period="7ms", releases="sporadic"))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_virtual_cpus_admission_and_criticality(cli, seed):
    rng = random.Random(200 + seed)
    given = tasks(rng)
    words = ["analyze", "interface", "--scheduler", "global-edf", "--vcpus", "2", "--period", "2ms", *flags("task", given)]
    same(cli, words, lambda: analyze.vcpus(given, 2, period="2ms"))
    kinds = [kind for kind in giusto.policy.KINDS if kind != "unlimited"]
    servers = [f"{rng.choice(kinds)}:{rng.randint(1, 3)}ms/{rng.randint(4, 12)}ms" for _ in range(rng.randint(1, 4))]
    order = rng.choice(["edf", "fixed-priority"])
    words = ["analyze", "admission", "--scheduler", order, *flags("server", servers)]
    same(cli, words, lambda: analyze.admission(servers, order))
    same(cli, [*words, "--cores", "2", "--fit", "best"], lambda: analyze.admission(servers, order, cores=2, fit="best"))
    vms = [
        rng.choice([f"hi:{a}ms:{a + b}ms/50ms", f"lo:{a + b}ms/40ms"])
        for a, b in [(rng.randint(1, 9), rng.randint(0, 9)) for _ in range(rng.randint(1, 4))]
    ]
    same(cli, ["analyze", "criticality", *flags("vm", vms)], lambda: analyze.criticality(vms))
    same(cli, ["analyze", "criticality", *flags("vm", vms), "--cores", "2"], lambda: analyze.criticality(vms, cores=2))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_requests_at_random(cli, seed):
    rng = random.Random(300 + seed)
    rate, period = f"{rng.randint(5, 60)}/s", rng.choice([5, 10, 20])
    budget, server = f"{rng.randint(2, 10) * period // 10}ms", rng.choice(["deferrable", "periodic", "constant_bandwidth"])
    service = rng.choice([["5ms"], ["4ms:75%", "8ms"], ["2ms", "10ms:1/8"]])
    words = ["--rate", rate, *flags("service", service), "--server", server]
    asked = [
        "analyze",
        "response",
        *words,
        "--budget",
        budget,
        "--period",
        f"{period}ms",
        "--at",
        "20ms",
        "--percentile",
        "99",
        "--slots",
        "40",
    ]
    same(
        cli,
        asked,
        lambda: analyze.response(
            rate, service, budget=budget, period=f"{period}ms", at="20ms", percentile=99, server=server, slots=40
        ),
    )
    asked = ["analyze", "slo", *words, "--objective", "p90=60ms", "--period", f"{period}ms", "--quantum", "500us"]
    same(
        cli,
        asked,
        lambda: analyze.slo(rate, service, objective=(90, "60ms"), period=f"{period}ms", quantum="500us", server=server),
    )


def test_the_limit_and_a_map(cli):
    words = ["analyze", "response", "--rate", "0.004/ms", "--service", "100ms", "--budget", "120ms", "--period", "200ms"]
    same(cli, words, lambda: analyze.response("0.004/ms", "100ms", budget="120ms", period="200ms"))
    words = ["analyze", "map", "--rate", "40/s", "--service", "5ms", "--steps", "3", "--percentile", "p99.9"]
    same(cli, words, lambda: analyze.map("40/s", "5ms", steps=3, percentile="p99.9"))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_messages(cli, seed):
    rng = random.Random(400 + seed)
    rate, tokens = f"{rng.randint(100, 900)}/s", f"{rng.randint(950, 1500)}/s"
    depth, split = rng.randint(1, 30), rng.randint(1, 3)
    words = ["analyze", "bucket", "--rate", rate, "--tokens", tokens, "--split", split, "--percentile", "99"]
    same(cli, [*words, "--depth", depth], lambda: analyze.bucket(rate, tokens=tokens, depth=depth, split=split, percentile=99))
    same(cli, words, lambda: analyze.bucket(rate, tokens=tokens, split=split, percentile=99))
    stages = [
        rng.choice(["2ms/4ms:1ms", "periodic:2ms/4ms:1ms*75%,2ms", "core:1ms", "bound:300us", "bucket:300/s*4"]) for _ in range(3)
    ]
    words = ["analyze", "path", *flags("stage", stages)]
    same(
        cli,
        [*words, "--rate", "50/s", "--also", "1=20/s:1ms", "--at", "80ms", "--percentile", "99.9"],
        lambda: analyze.path(stages, rate="50/s", also=["1=20/s:1ms"], at="80ms", percentile=99.9),
    )
    same(cli, [*words, "--period", "20ms", "--jitter", "3ms"], lambda: analyze.path(stages, period="20ms", jitter="3ms"))
    flows = [f"{rng.randint(1, 9)}k/s*{rng.randint(1, 40)}" for _ in range(rng.randint(1, 4))]
    flows[0] = rng.choice([flows[0], f"{flows[0]}+2k/s*4.5"])
    words = ["analyze", "packets", *flags("flow", flows), "--capacity", "64k/s", "--poll", 32, "--latency", "40us"]
    same(cli, words, lambda: analyze.packets(flows, "64k/s", poll=32, latency="40us"))
    servers, epochs = rng.randint(2, 9), rng.choice(["strict", "reserve", "overlap"])
    words = ["analyze", "recovery", "--servers", servers, "--epochs", epochs, "--delay", "2ms"]
    same(cli, words, lambda: analyze.recovery(servers, epochs=epochs, delay="2ms"))


def test_times_in_ns_are_times_in_words():
    words = analyze.interface(["2ms/7ms@6ms", "1ms/8ms"], "edf", period="3ms")
    numbers = analyze.interface([(2_000_000, 7_000_000, 6_000_000), giusto.Task(1_000_000, 8_000_000)], "edf", period=3_000_000)
    assert words == numbers and hash(words) == hash(numbers)


def test_many_questions_have_the_answers_of_each(cli):
    seen = []
    found = analyze.each(
        analyze.interface,
        {"period": ["1ms", "2ms", "3ms", "9ms"], "scheduler": ["rm", "edf"]},
        tasks=["2ms/7ms", "3ms/9ms", "2ms/11ms"],
        progress=lambda done, total: seen.append((done, total)),
    )
    assert found.shape == (4, 2) and seen[-1] == (8, 8)
    for point, answer in zip(found.points(), found):
        try:
            alone = analyze.interface(["2ms/7ms", "3ms/9ms", "2ms/11ms"], **point)
        except giusto.DoesNotFit:
            alone = None
        assert answer == alone
    budgets = found.array("budget_ns")
    assert budgets.shape == (4, 2) and budgets[0, 0] == found[0].budget_ns
