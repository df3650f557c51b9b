#!/usr/bin/env bash
# Timings, paired with a peer in the same run, and gates on ratios. All are taken; a gate that was missed is told at the end.
#   tests/bench.sh [ROUNDS]      (default 5 interleaved triples of 8 s)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
out=target/bench
mkdir -p $out
missed=()
try() { # what it is called, and the command; 77 is a machine that cannot
	local name=$1 code=0
	shift
	"$@" || code=$?
	case $code in
	0) ;;
	77) echo "skipped" ;;
	*) missed+=("$name") ;;
	esac
}

echo "=== simulator beside SimSo: jobs a second, 10 tasks, RM, U = 0.8"
tests/bench-simso.sh || missed+=(simulator)

echo "=== import giusto beside SimSo and pycpa, in one process"
tests/bench-python.sh || missed+=(python)

echo "=== the cheapest interface beside searches that step through periods and budgets"
tests/bench-interface.sh || missed+=(interface)
echo "=== response times at random beside plain NumPy of the printed algorithms: base case, N = 20"
tests/bench-response.sh || missed+=(response)

echo "=== planning many services on many hosts: time, memory, size of the plan, cores beside the least possible"
try scale /usr/bin/python3 tests/bench-scale.py

echo "=== the planner beside an exhaustive search of placements on small sites; ways of placement on a large one"
cargo run --release --locked --quiet -p giusto-studies --example placement || missed+=(placement)

echo "=== policy core: what an event costs as servers grow"
cargo run --release --locked --quiet -p giusto-policy --example scale || missed+=(policy)

echo "=== servers of 3, 1 and 2 ms every 10 ms beside a hog: the manager and SCHED_DEADLINE in turns, 3 rounds of 8 s"
cargo run --release --locked --quiet -p giusto-daemon --example servers -- target/release/giusto 3 8 || missed+=(servers)

echo "=== what giusto itself takes for ten servers at 10 ms: all threads and the watchdog; at most 1 % of a core while they sleep"
try cost /usr/bin/python3 tests/bench-cost.py

echo "=== coordination: kill -9 the leader, stock ZooKeeper, RTZK-L and Giusto in turns, 30 kills each"
if command -v mvn >/dev/null && command -v java >/dev/null; then
	mvn -B -q -f coordination/pom.xml -pl server package -DskipTests
	python3 coordination/harness/recovery.py --kills 30 --out $out --gate 2>/dev/null || missed+=(coordination)
	echo "first recoveries: each kill on an ensemble that was started for it, one core busy as well, 200 kills (25 minutes)"
	python3 coordination/harness/recovery.py --cold --busy 1 --arms giusto --kills 200 --out $out/cold --gate 2>/dev/null ||
		missed+=(coordination-cold)
	echo "what nothing but work costs, warm and cold, beside stock (20 minutes)"
	python3 coordination/harness/steady.py --out $out --gate 2>/dev/null || missed+=(coordination-steady)
	python3 coordination/harness/steady.py --out $out --cold --rounds 3 --gate 2>/dev/null || missed+=(coordination-steady-cold)
else
	echo "skipped: apt-get install openjdk-17-jdk-headless maven"
fi

echo "=== messaging: giusto-broker beside nsqd, 200 and 1,000 connections; a broker that is stopped again and again"
if command -v go >/dev/null; then
	tests/bench-messaging.sh || missed+=(messaging)
else
	echo "skipped: install Go 1.23 or later (go.dev/dl)"
fi

echo "=== packets: a ping beside floods under softirqs, HTB, equal threads and Giusto in turns; buckets; two cores (12 minutes)"
code=0
target/release/giusto study run vatc-measured || code=$?
case $code in
0 | 6) ;;
3) echo "skipped" ;;
*) missed+=(packets) ;;
esac

echo "=== packets: a hundred interfaces, from start to end (2 minutes)"
try interfaces /usr/bin/python3 tests/bench-packets.py

echo "=== modes: Fig. 2.5 with and without boost, 500 toggles, and 8 and 12 containers under all policies (15 minutes)"
try modes /usr/bin/python3 tests/bench-modes.py

echo "=== criticality: memcached alone and beside three that never sleep, stock and Giusto in turns (5 minutes)"
try criticality /usr/bin/python3 tests/bench-memcached.py

echo "=== VAS: a whole core, no plan and Giusto in short slices, up to 160 s"
code=0
target/release/giusto run sites/walk.yaml --trial --at-most 160s --out $out --json >$out/trial.json || code=$?
case $code in
0 | 1 | 5 | 6)
	python3 - $out/trial.json <<'PY' || missed+=(VAS)
import json, sys
trial = json.load(open(sys.argv[1]))[0]
c = trial["comparison"]
for row in c["rows"]:
    print(f"{row['arm']:<12}", *(f"p{p['p']}={p['value_ns'] / 1000:.1f}us" for p in row["percentiles"]), f"runs={row['runs']}")
upper = c["floor"]["upper_ns"]
giusto, unprotected = c["distance_giusto_ns"]["value"], c["distance_unprotected_ns"]["value"]
print(f"noise floor {c['floor']['median_ns'] / 1000:.1f} us, upper 95 % bound {upper / 1000:.1f} us; voided: {len(trial['voided'])}")
print(f"Giusto {giusto / 1000:.1f} us = {giusto / upper:.2f} x the bound, limit {c['limit_ns'] / 1000:.1f} us: {c['verdict']}; {c['why']}")
print(f"no plan {unprotected / 1000:.1f} us = {unprotected / upper:.1f} x the bound (gate: >= 10)")
if trial["demand"] is None or trial["demand"]["verdict"] == "overloaded":
    print("planned anew: the declared execution time is not that of this machine")
if c["verdict"] != "kept" or unprotected < 10 * upper:
    sys.exit("gate missed")
PY
	;;
*) missed+=(VAS) ;;
esac
[ ${#missed[@]} = 0 ] || {
	echo "missed or void: ${missed[*]}" >&2
	exit 1
}
