"""End to end: what is computed and decided without this machine, as a user types it."""
import json
import math
import random
import re
import subprocess
import tempfile
import unittest
from fractions import Fraction
from pathlib import Path

from typed import GIUSTO, ROOT, run


class Analyze(unittest.TestCase):
    GAMMA1 = ["--task", "40ms/250ms+150ms", "--task", "200ms/500ms+100ms", "--task", "100ms/1000ms+50ms", "--task", "200ms/2000ms"]
    GAMMA2 = ["--task", "4ms/20ms+15ms", "--task", "6ms/30ms+10ms", "--task", "10ms/50ms+5ms", "--task", "7ms/70ms"]

    def test_gamma1_and_gamma2_of_paper_000(self):
        for tasks, period, budget, share in [(self.GAMMA1, 2000, 1520, "19/25"), (self.GAMMA2, 2100, 1470, "7/10")]:
            out = json.loads(run("analyze", "share", *tasks, "--json")[0])
            self.assertEqual(out["period_ns"], period * 10**6)
            self.assertEqual(out["budget_ns"], budget * 10**6)
            self.assertEqual(out["bandwidth"], share)
            self.assertEqual(out["hold_ns"]["enforced"], 2 * budget * 10**6)

    def test_an_overloaded_core_is_refused(self):
        _, err = run("analyze", "share", "--task", "8ms/10ms", "--task", "8ms/10ms", code=1)
        self.assertIn("160 %", err)

    def test_the_plane_of_paper_002_s_example_and_the_server_of_3_ms_on_it(self):
        tasks = ["--task", "2ms/7ms", "--task", "1ms/8ms", "--task", "1ms/10ms"]
        with tempfile.TemporaryDirectory() as folder:
            drawing = Path(folder) / "new" / "plane.svg"
            more = ["--period", "3ms", "--quantum", "1ns", "--plot", drawing, "--json"]
            out = json.loads(run("analyze", "plane", "--scheduler", "rm", *tasks, *more)[0])
            self.assertEqual(drawing.read_text()[:4], "<svg")
        # The last task, with 4 ms in 7 ms, needs most at every bandwidth: delta <= 7 ms - 4 ms / alpha.
        piece = {"from": "4/7", "to": "1", "task": 2, "at_ns": 7_000_000, "demand_ns": 4_000_000}
        self.assertEqual(out["pieces"], [piece])
        # 2 (3 - b) <= 7 - 12/b: b is the greater root of 2 b^2 + b - 12.
        self.assertEqual(out["server"]["budget_ns"], 2_212_215)
        _, err = run("analyze", "plane", "--scheduler", "edf", "--task", "6ms/7ms", "--task", "3ms/8ms", code=1)
        self.assertIn("in 8 ms up to 9 ms of work", err)

    def test_the_interface_of_paper_002_s_example(self):
        tasks = ["--task", "2ms/7ms", "--task", "1ms/8ms", "--task", "1ms/10ms", "--quantum", "1ms", "--json"]
        for scheduler, period, budget, share in [("rm", 3, 2, "2/3"), ("edf", 5, 3, "3/5")]:
            out = json.loads(run("analyze", "interface", "--scheduler", scheduler, *tasks)[0])
            found = (out["period_ns"], out["budget_ns"], out["bandwidth"], out["at_least"], out["utilization"])
            self.assertEqual(found, (period * 10**6, budget * 10**6, share, share, "143/280"))

    def test_a_resource_that_is_given_is_enough_or_the_window_is_told(self):
        tasks = ["--scheduler", "edf", "--task", "2ms/7ms", "--task", "1ms/8ms", "--task", "1ms/10ms"]
        for given in ("3ms/5ms", "2ms/3ms@2500us", "70%+1ms", "0ms-2ms,3ms-5ms/6ms"):
            self.assertIn("is enough", run("analyze", "interface", *tasks, "--given", given)[0])
        for given in ("29ms/50ms", "50%+1ms", "0ms-3ms/6ms"):
            _, err = run("analyze", "interface", *tasks, "--given", given, code=1)
            self.assertIn("of work are asked for", err)
        for wrong in ("3ms", "3ms/2ms", "2ms/3ms@1ms", "120%+1ms", "2ms-1ms/6ms", "0ms-2ms,1ms-3ms/6ms"):
            run("analyze", "interface", *tasks, "--given", wrong, code=2)
        # The longest deadline of the least budget, given back, has that budget; a longer one costs more.
        edp = ["--supply", "edp", "--period", "3ms", "--quantum", "10us", "--json"]
        free = json.loads(run("analyze", "interface", *tasks, *edp)[0])
        same = json.loads(run("analyze", "interface", *tasks, *edp, "--deadline", f"{free['deadline_ns']}ns")[0])
        later = json.loads(run("analyze", "interface", *tasks, *edp, "--deadline", "3ms")[0])
        self.assertEqual(same["budget_ns"], free["budget_ns"])
        self.assertGreaterEqual(later["budget_ns"], free["budget_ns"])
        run("analyze", "interface", *tasks, "--period", "3ms", "--deadline", "2ms", code=2)

    def test_a_calculator_ends_in_time_and_says_what_to_change(self):
        slo = ["analyze", "slo", "--rate", "0.4/ms", "--service", "1ms", "--objective", "p90=3ms"]
        _, err = run(*slo, "--for", "1us", code=6)
        self.assertIn("--for", err)
        near = json.loads(run("analyze", "response", "--rate", "0.9999/ms", "--service", "1ms", "--budget", "1ms",
                              "--period", "1ms", "--json")[0])
        self.assertAlmostEqual(near["mean_ns"] / 5_000.5e6, 1, delta=3e-3)  # Pollaczek and Khinchine

    def test_questions_near_the_corners_end_with_an_answer_a_reason_or_in_time(self):
        rng = random.Random(28)

        def time():
            return f"{rng.choice([1, 7, 99, 100, 1001])}{rng.choice(['us', 'ms', 's'])}"

        def task():
            period = rng.randrange(2, 10 ** rng.randrange(4, 12))
            return f"{max(1, int(period * rng.choice([1e-6, 0.1, 0.33, 0.4999])))}ns/{period}ns"

        def interface():
            tasks = [word for _ in range(rng.randrange(1, 5)) for word in ("--task", task())]
            supply = rng.choice(["general", "edp"])
            scheduler, quantum = rng.choice(["edf", "rm", "dm"]), rng.choice(["1ns", "1us", "1ms"])
            return ["interface", "--scheduler", scheduler, "--supply", supply, "--quantum", quantum, *tasks]

        def response():
            load = rng.choice(["0.5", "0.99", "0.99999"])
            budget = rng.choice(["1ms", "1us", "1s"])
            return ["response", "--rate", f"{load}/ms", "--service", "1ms", "--budget", budget, "--period", budget,
                    "--server", rng.choice(["deferrable", "periodic", "constant_bandwidth"])]

        def admission():
            kinds = ["deferrable", "polling", "constant_bandwidth", "sporadic"]
            servers = [f"{rng.choice(kinds)}:{period // 2 - rng.randrange(3)}ns/{period}ns" for period in (10**9, 10**9 - 63)]
            words = (word for server in servers for word in ("--server", server))
            return ["admission", "--scheduler", rng.choice(["edf", "fixed-priority"]), *words]

        def plane():
            return ["plane", "--scheduler", rng.choice(["edf", "rm"]), "--task", task(), "--task", task(), "--period", time()]

        codes = set()
        for _ in range(8):
            for question in (interface, response, admission, plane):
                asked = [str(GIUSTO), "analyze", *question(), "--for", "2s"]
                done = subprocess.run(asked, capture_output=True, text=True, timeout=180)
                self.assertIn(done.returncode, (0, 1, 2, 6), (asked, done.stderr))
                self.assertTrue(done.stdout if done.returncode == 0 else done.stderr, asked)
                codes.add(done.returncode)
        self.assertTrue({0, 1} <= codes, codes)

    def test_several_virtual_cpus_under_global_edf(self):
        tasks = ["--task", "6ms/10ms", "--task", "6ms/10ms"]
        out = json.loads(run("analyze", "interface", "--scheduler", "global-edf", "--vcpus", "2", *tasks, "--json")[0])
        self.assertEqual(len(out["vcpus_ns"]), 2)
        self.assertEqual(sum(out["vcpus_ns"]), out["budget_ns"])
        self.assertGreater(out["budget_ns"] * 5, out["period_ns"] * 6)  # U = 6/5, and it cannot be just that
        _, err = run("analyze", "interface", "--scheduler", "global-edf", "--vcpus", "1", *tasks, code=1)
        self.assertIn("--vcpus", err)
        for wrong in (["--scheduler", "global-edf"], ["--scheduler", "edf", "--vcpus", "2"], ["--scheduler", "cfs"],
                      ["--scheduler", "global-edf", "--vcpus", "2", "--sensitivity"]):
            run("analyze", "interface", *wrong, *tasks, code=2)

    def test_the_deferrable_counterexamples_are_refused_and_would_fit_as_periodic_servers(self):
        """Spec compositional.md, system level."""
        for scheduler, servers, window in [("fixed-priority", ("2ms/4ms", "3ms/7ms"), "7 ms"), ("edf", ("4ms/12ms", "2ms/5ms"), "in ")]:
            def flags(kind):
                return ["--scheduler", scheduler, *[word for server in servers for word in ("--server", f"{kind}:{server}")]]
            _, err = run("analyze", "admission", *flags("deferrable"), code=1)
            self.assertRegex(err, f"refused: .*{window}.*can be asked for")
            self.assertIn("periodic_strict or polling, as which they would fit", err)
            self.assertIn("admitted", run("analyze", "admission", *flags("periodic_strict"), "--sensitivity")[0])
        for wrong in ("2ms/4ms", "deferable:2ms/4ms", "unlimited:2ms/4ms", "polling:5ms/4ms", "polling:0ms/4ms"):
            _, err = run("analyze", "admission", "--scheduler", "edf", "--server", wrong, code=2)
            self.assertIn("expected", err)

    def test_servers_share_several_cores_or_have_one_each(self):
        def asked(scheduler, *servers, more=(), code=0):
            words = [word for server in servers for word in ("--server", server)]
            return run("analyze", "admission", "--scheduler", scheduler, *words, *more, code=code)

        # Dhall and Liu: light servers keep one that needs nearly a whole core from its budget, though a core for it has room.
        heavy = ("polling:2ms/10ms", "polling:2ms/10ms", "polling:10ms/11ms")
        for scheduler in ("edf", "fixed-priority"):
            _, err = asked(scheduler, *heavy, more=["--cores", 2], code=1)
            self.assertIn("core by core (--fit first)", err)
            for fit in ("first", "best", "worst"):
                out = json.loads(asked(scheduler, *heavy, more=["--cores", 2, "--fit", fit, "--json"])[0])
                self.assertEqual(out["admitted"]["cores"], [1, 1, 0])
            out = json.loads(asked(scheduler, *heavy, more=["--cores", 3, "--json"])[0])
            self.assertEqual(out["admitted"]["by"], "one-each")
        # Of two at the top each has a core; the third waits for the shorter, 2 ms, and then no longer.
        out = json.loads(asked("fixed-priority", "polling:2ms/20ms", "polling:9ms/20ms", "polling:5ms/20ms",
                               more=["--cores", 2, "--json"])[0])
        responses = out["admitted"]["by"]["responses_ns"]
        self.assertEqual(responses[:2], [2_000_000, 9_000_000])
        self.assertTrue(7_000_000 <= responses[2] <= 10_500_000, responses)
        for kind, scheduler in (("deferrable", "edf"), ("sporadic", "fixed-priority"), ("constant_bandwidth", "fixed-priority")):
            servers = [f"{kind}:{budget}ms/9ms" for budget in (1, 2, 3)]
            self.assertIn("no test", asked(scheduler, *servers, more=["--cores", 2], code=1)[1])
        asked("fixed-priority", "deferrable:1ms/9ms", "deferrable:2ms/9ms", "deferrable:3ms/9ms", more=["--cores", 2])
        for wrong in (["--fit", "first"], ["--cores", 0], ["--cores", 2, "--sensitivity"], ["--cores", 2, "--fit", "next"]):
            asked("edf", "polling:1ms/2ms", more=wrong, code=2)

    def test_a_queue_that_takes_long_to_solve_is_simulated_or_bounded(self):
        # Budget and period without a common part. Pollaczek and Khinchine: s (1 + ρ / (2 (1 - ρ))) on a core of half the speed.
        for budget in (505_001, 600_001):
            asked = ["analyze", "response", "--rate", "500/s", "--service", "1ms", "--budget", f"{budget}ns", "--period", "1ms"]
            out = json.loads(run(*asked, "--json")[0])
            load = 0.5e6 / budget
            mean = 1e12 / budget * (1 + load / (2 * (1 - load)))
            self.assertLess(abs(out["mean_ns"] - mean), 2 * (1e6 - budget) + 0.1 * mean, out)
            if out["method"] == "line":
                self.assertEqual(out["bound"]["mean_ns"] - out["mean_ns"], 2 * (1_000_000 - budget))

    def test_paths_are_bounded_stage_by_stage(self):
        stages = ["--stage", "4ms/10ms:5ms", "--stage", "bound:300us", "--stage", "bucket:60/s*4", "--stage", "core:5ms"]
        asked = ["analyze", "path", "--rate", "40/s", *stages]
        found = json.loads(run(*asked, "--percentile", "p99", "--json")[0])["percentiles"][0]
        self.assertLessEqual(found["beyond"], 0.01)
        self.assertEqual(found["within_ns"], sum(stage["within_ns"] for stage in found["stages"]) + 300_000)
        self.assertAlmostEqual(found["beyond"], sum(stage["term"] for stage in found["stages"]), 6)
        back = json.loads(run(*asked, "--at", f"{found['within_ns']}ns", "--json")[0])["percentiles"][0]
        self.assertLess(abs(back["beyond"] - 0.01), 0.001)
        more = json.loads(run(*asked, "--percentile", "p99", "--also", "4=20/s:5ms", "--json")[0])["percentiles"][0]
        self.assertGreater(more["within_ns"], found["within_ns"])
        self.assertIn("whatever their stages do", run(*asked)[0])
        every = ["analyze", "path", "--period", "20ms", "--stage", "core:5ms", "--stage", "bound:300us", "--json"]
        self.assertEqual(json.loads(run(*every)[0])["every"]["within_ns"], 5_300_000)
        words = ["analyze", "path", "--rate", "9/s", "--stage", "constant_bandwidth:1ms/2ms:1ms"]
        self.assertIn("SCHED_DEADLINE", run(*words, code=2)[1])
        self.assertIn("stage 1", run("analyze", "path", "--rate", "90/s", "--stage", "4ms/10ms:5ms", code=1)[1])
        self.assertIn("stage 1", run("analyze", "path", "--period", "12ms", "--stage", "4ms/10ms:5ms", code=1)[1])
        for wrong in ("4ms/10ms", "11ms/10ms:1ms", "fair:1ms/2ms:1ms", "bound:3", "bucket:5", "core:0ms"):
            self.assertIn("expected", run("analyze", "path", "--rate", "9/s", "--stage", wrong, code=2)[1])

    def test_percentiles_with_and_without_p_and_long_times_are_the_same(self):
        requests = ["--rate", "0.4/ms", "--service", "1ms"]
        whole = ["analyze", "response", *requests, "--budget", "1ms", "--period", "1ms", "--json"]
        self.assertEqual(run(*whole, "--percentile", "p99")[0], run(*whole, "--percentile", "99")[0])
        slo = ["analyze", "slo", *requests, "--period", "2ms", "--json"]
        self.assertEqual(run(*slo, "--objective", "p90=3ms")[0], run(*slo, "--objective", "90=3ms")[0])
        bucket = ["analyze", "bucket", "--rate", "10k/s", "--tokens", "11k/s", "--json"]
        same = [run(*bucket, "--access", p, "--percentile", p)[0] for p in ("p99", "99")]
        self.assertEqual(*same)
        units = [("1min", "60s"), ("2h", "7200s"), ("1d", "86400s"), ("0.5min", "30s")]
        for long, short in units:
            asked = ["analyze", "interface", "--scheduler", "edf", "--period", "5s", "--quantum", "1ms", "--json"]
            both = [run(*asked, "--task", f"1s/{time}")[0] for time in (long, short)]
            self.assertEqual(*both)

    def test_limits_are_told_in_time_and_close_budgets_are_bracketed(self):
        tasks = ["--task", "149271644ns/179086999ns", "--task", "156119114ns/937740705ns"]
        asked = ["analyze", "interface", "--scheduler", "edf", "--quantum", "1us", *tasks, "--sensitivity", "--json"]
        out = json.loads(run(*asked)[0])
        self.assertEqual({limit["task"] for limit in out["sensitivity"]}, {0, 1, None})
        self.assertLessEqual(Fraction(out["at_least"]), Fraction(out["bandwidth"]))

    def test_criticality_is_judged_as_fractions_of_python_do(self):
        """Every x that makes whole virtual deadlines is tried, by both conditions as they are; periods of a few ns."""
        draw, seen = random.Random(3), set()
        for _ in range(60):
            vms = []
            for _ in range(draw.randint(2, 4)):
                period = draw.choice([4, 6, 8, 12])
                worst = draw.randint(1, period // 2)
                vms.append((draw.random() < 0.5, draw.randint(1, worst), worst, period))
            words = [f"hi:{usual}ns:{worst}ns/{period}ns" if high else f"lo:{worst}ns/{period}ns" for high, usual, worst, period in vms]
            low = sum(Fraction(worst, period) for high, _, worst, period in vms if not high)
            usual = sum(Fraction(usual, period) for high, usual, _, period in vms if high)
            worst = sum(Fraction(worst, period) for high, _, worst, period in vms if high)
            grid = math.gcd(*(period for high, _, _, period in vms if high)) or 1
            good = [x for x in (Fraction(k, grid) for k in range(1, grid + 1)) if low + usual / x <= 1 and x * low + worst <= 1]
            fits = bool(good)
            done = run("analyze", "criticality", *[word for vm in words for word in ("--vm", vm)], "--json", code=0 if fits else 1)
            out = json.loads(done[0])
            self.assertEqual(out["schedulable"], fits, words)
            self.assertEqual([Fraction(out[key]) for key in ("u1_1", "u2_1", "u2_2")], [low, usual, worst], words)
            if fits:
                self.assertEqual(Fraction(out["x"]), 1 if 1 in good else good[0], words)
            seen.add(out["test"])
        self.assertEqual(seen, {"edf", "edf-vd", None})
        # DESIGN's example, and one that does not fit: the witness, the nearest fit, the less strict test.
        out = json.loads(run("analyze", "criticality", "--vm", "hi:5ms:25ms/100ms", "--vm", "lo:25ms/100ms", "--json")[0])
        self.assertEqual([out[key] for key in ("schedulable", "test", "x", "u1_1", "u2_1", "u2_2")], [True, "edf", "1", "1/4", "1/20", "1/4"])
        hungry = ["--vm", "hi:10ms:80ms/100ms", "--vm", "lo:75ms/100ms"]
        _, err = run("analyze", "criticality", *hungry, code=1)
        for words in ("= 2/5, so that all", "= 4/15, so that", "a budget of at most 66666.666 us instead of 75 ms for VM 2", "the less strict test"):
            self.assertIn(words, err)
        self.assertIn("2 of 4 cores idle", run("analyze", "criticality", *hungry, "--cores", 4)[0])
        for wrong in ("hi:5ms", "lo:1ms:2ms/3ms", "hi:2ms:1ms/3ms", "hi:1ms:4ms/3ms", "mid:1ms/3ms"):
            _, err = run("analyze", "criticality", "--vm", wrong, code=2)
            self.assertIn("expected", err)

    def test_a_site_with_criticality_is_planned_explained_and_proven(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, site = Path(folder) / "plan.json", Path(folder) / "site.yaml"
            text, _ = run("plan", "sites/critical.yaml", "--out", plan)
            self.assertIn("high criticality: at its worst 25 ms, virtual deadline 27.778 ms", text)
            self.assertIn("U1(1) = 75 %, U2(1) = 5 %, U2(2) = 25 %", run("explain", "memcached", "--plan", plan)[0])
            self.assertIn("all hold; the servers of core 1 fit together", run("check", "--certificate", plan)[0])
            self.assertIn("high, at its worst 25 ms", run("check", "sites/critical.yaml")[0])
            text = (ROOT / "sites/critical.yaml").read_text()
            site.write_text(text.replace("worst: 25ms", "worst: 90ms"))
            _, err = run("plan", site, code=1)
            self.assertRegex(err, "no factor x .* the less strict test.*it fits with")
            self.assertIn("the kernel knows no criticality", run("plan", "sites/critical.yaml", "--backend", "deadline", code=2)[1])
            site.write_text(text.replace("    criticality: high\n", ""))
            self.assertIn("goes with 'criticality: high' only", run("plan", site, code=2)[1])

    def test_a_split_token_bucket_costs_as_much_as_in_paper_001(self):
        """λ = 10,000/s, r = 11,000/s, b = 26, in units of µs; spec messaging.md."""
        out, _ = run("analyze", "bucket", "--rate", "10k/s", "--tokens", "11k/s", "--depth", "26", "--split", "6", "--json")
        found = json.loads(out)["waits"]
        self.assertEqual([round(w["percentiles_ns"][0] / 1000) for w in found], [0, 2219, 4510, 6801, 9092, 11384])
        self.assertEqual([w["bucket"]["depth"] for w in found], ["26", "13", "26/3", "13/2", "26/5", "13/3"])
        _, err = run("analyze", "bucket", "--rate", "10k/s", "--tokens", "11k/s", "--depth", "5.5", "--split", "6", code=2)
        self.assertIn("split over at most 5", err)
        _, err = run("analyze", "bucket", "--rate", "10k/s", "--tokens", "10k/s", "--depth", "26", code=2)
        self.assertIn("give tokens at a higher rate", err)

    def test_table_5_3_of_paper_000_and_what_replaces_its_epoch_table(self):
        for servers, paper, ours in [(3, 211, 200), (5, 303, 292), (7, 419, 408)]:
            out = json.loads(run("analyze", "recovery", "--servers", servers, "--epochs", "overlap", "--json")[0])
            self.assertEqual((out["paper"]["total_ns"], out["bound"]["total_ns"]), (paper * 10**6, ours * 10**6))
        for wrong in (["--servers", "1"], ["--epochs", "memory"], ["--wait", "0ms"], ["--delay", "3"]):
            run("analyze", "recovery", *wrong, code=2)

    def test_topics_are_planned_explained_proven_and_exported(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, out = Path(folder) / "plan.json", Path(folder) / "nsq"
            text, _ = run("plan", "sites/messages.yaml", "--out", plan)
            self.assertRegex(text,
                    r"topic alarms: on edge-1, bucket {rate: 11000/s, depth: \d+}, at delivery; p99 ≤ .* predicted")
            self.assertRegex(text, r"topic readings: on edge-2, ")
            self.assertIn("M/D/1 (2.1), exact", run("explain", "alarms", "--plan", plan)[0])
            self.assertIn("topic readings, on one broker: p99 ≤", run("check", "--certificate", plan)[0])
            self.assertEqual(run("check", "sites/messages.yaml")[1], "")
            run("export", "nsq", "sites/messages.yaml", "--lookupd", "edge-1:4160", "--out", out)
            self.assertEqual(sorted(path.name for path in out.iterdir()), ["edge-1", "edge-2"])
            self.assertRegex((out / "edge-2/broker.yaml").read_text(),
                             r"announce: edge-2\nnode: 1\nlookupd: \[edge-1:4160\]\ntopics:\n"
                              r"  readings: {rate: 11000/s, depth: \d+, limit: delivery}\n$")
            site = Path(folder) / "site.yaml"
            site.write_text((ROOT / "sites/messages.yaml").read_text().replace("p99: 5ms", "p99: 3.5ms"))
            _, err = run("plan", site, code=1)
            self.assertIn("a broker alone takes 4 ms; it would fit with promise: {p99: 4ms}", err)
            site.write_text(re.sub(r"(?m)^    measured: .*\n", "", (ROOT / "sites/messages.yaml").read_text()))
            self.assertIn("warning: topic 'alarms': the site does not say", run("check", site)[1])
            self.assertIn("has no 'topics'", run("export", "nsq", "sites/walk.yaml", code=2)[1])
            self.assertIn("such as edge-1:4160", run("export", "nsq", "sites/messages.yaml", "--lookupd", "edge-1", code=2)[1])

    def test_packets_are_planned_explained_and_proven(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, site = Path(folder) / "plan.json", Path(folder) / "site.yaml"
            text, _ = run("plan", "sites/packets.yaml", "--out", plan)
            # A poll of 64, bursts of 32 and twice 16, at 65,000 a second of which 10,000 are the uplink's and the other way.
            self.assertIn("vnet3 of flight on core 0: high, priority 49, up to {rate: 5000/s, depth: 16} each way; "
                          "waits 2.327 ms at most", text)
            self.assertIn("vnet5 of batch on core 0: low, what the others leave", text)
            self.assertIn("above all virtual interfaces", run("explain", "network", "--plan", plan)[0])
            self.assertIn("interface vnet3 of flight", run("explain", "flight", "--plan", plan)[0])
            self.assertIn("interface vnet3 on edge-1, with 1 above it: no packet waits longer than 2.327 ms",
                          run("check", "--certificate", plan)[0])
            self.assertIn("interface vnet5 of batch: low class", run("check", "sites/packets.yaml")[0])
            site.write_text((ROOT / "sites/packets.yaml").read_text().replace("p99: 3ms", "p99: 1ms"))
            _, err = run("plan", site, code=1)
            self.assertRegex(err, r"interface 'vnet3' on edge-1: .* and 1 ms is promised; it would fit with")

    def test_modes_are_planned_explained_and_proven(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, site = Path(folder) / "plan.json", Path(folder) / "site.yaml"
            text, _ = run("plan", "sites/modes.yaml", "--out", plan)
            self.assertIn("modes on edge-1: policy boost, transition fast, changes at least 1 s apart", text)
            # Three services of 300 us, two of them with agents: twice 100 us of work, as it is urgent, and 500 us that may come late. That is 2.3 ms, and
            # as much for a change to normal that it has to follow.
            self.assertRegex(text, r"emergency +[0-9.]+ % +4\.6 ms \(10 ms promised\) +land: .* every .* stopped\n")
            self.assertRegex(text, r"reserved for the worst of all modes: [0-9.]+ % of a core instead of [0-9.]+ %")
            explained, _ = run("explain", "flight", "--plan", plan)
            self.assertRegex(explained, r"flight land: in emergency\n  task +200 us every")
            self.assertIn("flight stopped: in no mode of the site", explained)
            self.assertIn("boosts on core 1", run("explain", "modes", "--plan", plan)[0])
            self.assertIn("mode emergency on edge-1: its servers fit", run("check", "--certificate", plan)[0])
            self.assertIn("mode emergency: flight land, survey low, batch stopped; within 10 ms; urgent",
                          run("check", "sites/modes.yaml")[0])
            changes = (ROOT / "sites/modes.yaml").read_text().replace("mode-changes: {", "mode-changes: {policy: greedy, ")
            site.write_text(changes)
            _, err = run("plan", site, code=1)
            self.assertRegex(err, r"from mode 'normal' to 'emergency' on edge-1: it can take .* it would do with policy: boost, or with within: ")

    def test_a_task_without_unit_is_bad_input(self):
        _, err = run("analyze", "share", "--task", "2/7ms", code=2)
        self.assertIn("unit", err)


class Ensemble(unittest.TestCase):
    """coordination: in a site file: planned or refused, proven, exported."""

    def site(self, folder, **keys):
        text = (ROOT / "sites/ensemble.yaml").read_text()
        for old, new in keys.values():
            assert old in text, old
            text = text.replace(old, new)
        path = Path(folder) / "site.yaml"
        path.write_text(text)
        return path

    def test_planned_explained_proven_and_exported(self):
        with tempfile.TemporaryDirectory() as folder:
            site, plan, out = self.site(folder), Path(folder) / "plan.json", Path(folder) / "zookeeper"
            text, _ = run("plan", site, "--out", plan)
            self.assertIn("another leader within 200 ms at most (200 ms promised), epochs: overlap", text)
            self.assertIn("reserve would take up to 205 ms", run("explain", "coordination", "--plan", plan)[0])
            self.assertIn("the ensemble of 3 servers recovers within 200 ms", run("check", "--certificate", plan)[0])
            run("export", "zookeeper", site, "--out", out)
            for number in (1, 2, 3):
                config = (out / f"edge-{number}" / "zoo.cfg").read_text().splitlines()
                for line in ("tickTime=200", "syncLimit=5", "clientPort=2181", "server.2=edge-2:2888:3888", "giusto.epochs=overlap"):
                    self.assertIn(line, config)
                self.assertEqual((out / f"edge-{number}" / "myid").read_text(), f"{number}\n")

    def test_etcd_is_planned_explained_proven_exported_and_refused(self):
        site = ROOT / "sites/etcd.yaml"
        with tempfile.TemporaryDirectory() as folder:
            plan, out, slow = (Path(folder) / name for name in ("plan.json", "etcd", "slow.yaml"))
            text, _ = run("plan", site, "--out", plan)
            told = r"another leader within [0-9.]+ ms at most \(1 s promised\), a heartbeat of [0-9]+ ms, an election timeout of"
            self.assertRegex(text, told)
            self.assertIn("election timeout", run("explain", "coordination", "--plan", plan)[0])
            self.assertIn("the ensemble of 3 servers recovers within", run("check", site, "--certificate", plan)[0])
            run("export", "etcd", site, "--out", out)
            for number in (1, 2, 3):
                self.assertIn(f"ETCD_NAME=edge-{number}\n", (out / f"edge-{number}" / "etcd").read_text())
            self.assertIn("expected giusto export etcd", run("export", "zookeeper", site, code=2)[1])
            slow.write_text(site.read_text().replace("recovery: 1s", "recovery: 100ms"))
            refused = r"later than promised \(100 ms\); it would fit with promise: \{recovery: [0-9.]+ms\}"
            self.assertRegex(run("plan", slow, code=1)[1], refused)

    def test_ticks_are_planned_from_the_latency_of_the_hosts(self):
        site = ROOT / "sites/silence.yaml"
        with tempfile.TemporaryDirectory() as folder:
            plan, out, soon, late = (Path(folder) / name for name in ("plan.json", "zookeeper", "soon.yaml", "late.json"))
            text, _ = run("plan", site, "--out", plan)
            self.assertIn("249 ms where its machine is lost (5 ticks of 24 ms)", text)
            told, _ = run("explain", "coordination", "--plan", plan)
            for part in ("fewest ticks above tick/2 + 5 L + 2 d + 3 ms", "one in 10^6 s", "promised 250 ms"):
                self.assertIn(part, told)
            self.assertIn("the ensemble of 3 servers recovers within 97 ms", run("check", site, "--certificate", plan)[0])
            run("export", "zookeeper", site, "--out", out)
            config = (out / "edge-1" / "zoo.cfg").read_text().splitlines()
            for line in ("tickTime=24", "initLimit=834", "syncLimit=5", "giusto.step-down=98000us"):
                self.assertIn(line, config)
            soon.write_text(site.read_text().replace("machine-loss: 250ms", "machine-loss: 200ms"))
            refused = (r"is stopped or cut off, .* 49 ms later than promised \(200 ms\); "
                       r"it would fit with measured: \{latency: 1[0-9.]+ms\}")
            self.assertRegex(run("plan", soon, code=1)[1], refused)
            broken = json.loads(plan.read_text())
            broken["coordination"]["sync_limit"] -= 1
            late.write_text(json.dumps(broken))
            self.assertIn("has stepped down when the first follower leaves", run("check", "--certificate", late, code=1)[1])

    def test_refused_with_how_much_is_missing_and_a_lost_machine_is_warned_of(self):
        with tempfile.TemporaryDirectory() as folder:
            _, err = run("plan", self.site(folder, promise=("recovery: 200ms", "recovery: 190ms")), code=1)
            self.assertIn("10 ms later than promised (190 ms); it would fit with promise: {recovery: 200ms}", err)
            strict = self.site(folder, epochs=("  tick:", "  epochs: strict\n  tick:"))
            self.assertIn("15 ms later than promised (200 ms); it would fit with epochs: overlap", run("plan", strict, code=1)[1])
            self.assertNotIn("warning", run("check", self.site(folder))[1])
            slow = self.site(folder, tick=("tick: 200ms", "tick: 2s"))
            self.assertIn("warning: coordination: ", run("check", slow)[1])
            self.assertIn("2 s x 5 = 10 s", json.loads(run("check", slow, "--json")[0])["warnings"][0])
            _, err = run("export", "zookeeper", ROOT / "sites/walk.yaml", code=2)
            self.assertIn("has no 'coordination'", err)
