#!/usr/bin/env bash
# Everything `make test` proves, in three rows beside one another; goes on after a part that fails, and lists those at the end.
# Only without a build it stops at once. What fails is run again, and it says so and is counted: single tests in Python, Rust and
# Go (tests/patient.py), other parts as a whole. What failed although a hypervisor took nothing, and then passed, is listed as
# FLAKY.
set -uo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
export PYTHONWARNINGS=ignore::ResourceWarning # tests drop the sockets of what they kill
# Tests bind threads to each core; who started this may have been left on some of them.
online=$(cat /sys/devices/system/cpu/online)
if [ "$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)" != "$online" ] &&
	taskset -pc "$online" $$ >/dev/null; then
	echo "these tests were started on some of the cores only; they take all of $online"
fi
mkdir -p target
# Read by scripts/status.py.
exec > >(tee target/test.log) 2>&1
tee=$!
[ -n "$(git status --porcelain 2>&1)" ] || echo "commit $(git rev-parse HEAD)"
results=$(mktemp) printed=$(mktemp -d) beside= waiting=
end() {
	rm -rf "$results" "$printed"
	for group in $beside $waiting; do kill -- "-$group" 2>/dev/null; done
	exec >/dev/null 2>&1
	timeout 10 tail --pid="$tee" -f /dev/null # until all is printed; what a test has left behind may hold the pipe
}
trap end EXIT
stolen() { # ticks of 10 ms, of all processors together
	awk '$1 == "cpu" { print $9 }' /proc/stat
}
busy() { # ticks of 10 ms of all processors, but for what is beside in time that others leave
	awk '$1 == "cpu" { print $2 + $4 + $7 + $8 }' /proc/stat
}
every() { # as busy(), with that too
	awk '$1 == "cpu" { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
}
part() {
	local name=$1 start=$SECONDS code=0 before lost says worked
	shift
	printf '=== %s\n$ %s\n' "$name" "$*"
	before=$(stolen) worked=$(busy)
	says=$printed/${name//[^a-z]/-}
	"$@" > >(tee "$says") 2>&1 || code=$?
	lost=$(($(stolen) - before))
	if ((code != 0 && code != 77)) && [[ $* != *.py* && $* != */messaging.sh && $name != release* && $name != lint ]]; then
		echo "--- $name: failed (exit $code); a hypervisor took $((lost * 10)) ms of $((SECONDS - start)) s; once more"
		code=0 before=$(/usr/bin/python3 tests/patient.py)
		"$@" > >(tee "$says") 2>&1 || code=$?
		if ((code != 0 && code != 77)); then
			local spoilt=0
			/usr/bin/python3 tests/patient.py "$before" || spoilt=$?
			((spoilt != 77)) || code=77 # of such a machine nothing can be told
		elif ((lost == 0)); then
			echo "FLAKY $name"
		fi
	fi
	case $code in
	0)
		worked=$(($(busy) - worked))
		echo "--- $name: passed in $((SECONDS - start)) s, $((worked / 100)) s of a processor"
		echo "passed $name" >>"$results"
		;;
	77)
		echo "--- $name: SKIPPED IN PART, this machine cannot do all of it (see above); $((SECONDS - start)) s"
		echo "skipped $name" >>"$results"
		;;
	*)
		echo "--- $name: FAILED (exit $code) after $((SECONDS - start)) s; run it alone: $*"
		echo "failed $name" >>"$results"
		mv "$says" "$says.failed"
		;;
	esac
}
worked=$(every)
# Fetched once, while this machine compiles. Who needs it later fetches it again if need be, and says what it could not get.
{ tests/guest-kernel.sh; tests/root.sh; } >target/fetch.log 2>&1 &
fetching=$!
part "lint" tests/lint.sh
part "release build" cargo build --release --workspace --all-targets --locked --quiet
! grep -q '^failed release build$' "$results" || exit 1
# What only computes goes on beside the others, in time that they leave; its output comes at the end. In a process group of its
# own, to be ended with these tests.
set -m
{
	chrt --all-tasks --idle --pid 0 $BASHPID && renice -n 19 $BASHPID >/dev/null
	part "coordination: laws of its parts, every behaviour of epochs" tests/coordination.sh laws
	part "toys: growing touches few files, another every day" tests/toys.sh --one
	part "policy: transcripts native, sanitized and in the kernel" policy/check.sh
	part "policy: deliberate faults, a sample" policy/mutants.sh
	part "policy: proofs, a sample" policy/prove.sh
	part "the policy core as the scheduler of a kernel, in guests, a third every day" tests/kernel-guest.sh
	part "Xen: changes between plans, against a model of RTDS" /usr/bin/python3 tests/xen-changes.py 1 3 6
	part "statistics beside SciPy" tests/scipy.sh
	part "path bounds beside pycpa and DNC" tests/curves.sh
	part "import giusto: values, types, notebooks" tests/python.sh
	part "recordings of other tools" /usr/bin/python3 tests/import.py
	part "reports in a browser" /usr/bin/python3 tests/report.py
	part "end to end: what is analyzed, judged and refused" /usr/bin/python3 tests/e2e.py \
		Analyze Ensemble SiteFiles Import Study Verify VeryMany
	part "package: reproducible, lintian, install to purge in Debian 12" tests/package.sh
	part "exports to KubeVirt: read by its own types" tests/exports-kubevirt.sh
	# One at a time: two that fill the caches were felt by what is measured.
	part "rooms that compute" env RUST_TEST_THREADS=1 /usr/bin/python3 tests/rooms.py computing
} >target/beside.log 2>&1 &
beside=$!
set +m
wait $fetching || true
# Who measures latencies or shares of this machine: one after the other, and beside them only what is above.
part "rooms that enforce or measure" /usr/bin/python3 tests/rooms.py machine
part "deaths: the host is left as it was, a sample" /usr/bin/python3 tests/deaths.py
part "parked cores: offline while giusto runs, online however it ends" /usr/bin/python3 tests/parking.py
part "backends: real-time groups and quotas under giusto run" /usr/bin/python3 tests/backends.py
part "hostile services: the others keep their promises, a sample" /usr/bin/python3 tests/hostile.py
part "enforcement under cgroup v2, in a guest, a half every day" tests/v2.sh
part "first commands, started services and containers under cgroup v2, in a guest" tests/services-guest.sh
# The two longest of the guests: one of them every day.
longest=$(tests/today.sh 2 exports-systemd backend-kernel | head -1)
[ "$longest" != backend-kernel ] || part "giusto run with its scheduler in the kernel, in a guest" tests/backend-kernel.sh
# It measures shares, and its manager has to answer: a guest that waits for the processor for seconds can do neither.
[ "$longest" != exports-systemd ] || part "exports to systemd, in a guest" tests/exports-systemd.sh
part "virtual machines: vCPUs found, each with its share" /usr/bin/python3 tests/vm.py \
	--enforce 'target/release/giusto run {site}'
part "virtual machines: modes, with the agent inside" /usr/bin/python3 tests/modes_vm.py
part "exports to libvirt: shares of virtual CPUs, the hook" /usr/bin/python3 tests/exports_libvirt.py
part "exports to Docker or Podman, and containers that are adopted" /usr/bin/python3 tests/exports_containers.py
part "packets: attacks from containers and outside, a sample" /usr/bin/python3 tests/attacks.py
part "modes: policies, deaths, forgeries" /usr/bin/python3 tests/modes.py
part "hostile agents: forged tasks, deaths at every step, floods" /usr/bin/python3 tests/hostile_agents.py
part "criticality: HI and LO on a real core" /usr/bin/python3 tests/critical.py
part "paths: a promise over three services, kept and broken" /usr/bin/python3 tests/path.py
part "paths: over a topic of giusto-broker, beside other publishers" /usr/bin/python3 tests/path_topic.py
# Both read spans of real services: one of them every day.
spans=$(tests/today.sh 2 path_http spans | head -1)
[ "$spans" != path_http ] || part "paths: services that speak HTTP, stages from their spans" /usr/bin/python3 tests/path_http.py
[ "$spans" != spans ] || part "from spans to a promise that is kept" /usr/bin/python3 tests/spans.py
part "a control loop with real threads: no deadline missed" /usr/bin/python3 tests/loop.py
part "an engine with two workers: each has its share on a core of its own" /usr/bin/python3 tests/workers.py
part "the truth and limits of giusto itself: late managers, plans, reloads" /usr/bin/python3 tests/truth.py
part "causes of late requests, each planted" /usr/bin/python3 tests/causes.py
part "observed: jobs, supplies, what services report" /usr/bin/python3 tests/observed.py
part "latency: as cyclictest, hogs seen, plans rest on it" /usr/bin/python3 tests/latency.py
part "response: real services, a stall felt in full" /usr/bin/python3 tests/response.py
part "the first five minutes: make run, and wrong execution times" /usr/bin/python3 tests/first.py
part "drift: told, and adapted to" /usr/bin/python3 tests/drift.py
# Built before several need it.
until grep -q ' coordination: laws' "$results" || ! kill -0 "$beside" 2>/dev/null; do sleep 1; done
tests/server.sh || exit 1
# These need neither a quiet machine nor Giusto's place on it: two at a time, as they wait much. Beside them comes what uses that
# place, but measures nothing that others' load could change.
set -m
{
	renice -n 10 $BASHPID >/dev/null
	{
		part "packets under Debian's kernel, in a guest, a half every day" tests/packets-guest.sh
		[ -z "$(tests/today.sh 3 13)" ] || part "packets under Debian 13's kernel, in a guest, every third day" \
			env GUEST_DEBIAN=13 tests/packets-guest.sh netkit 'a card with several queues'
		part "modes over vsock, in a guest" tests/vsock-guest.sh
		part "promises for pods: placement and admission over objects in memory" kubernetes/test.sh
		part "the operator's side" /usr/bin/python3 tests/control.py
		part "init: a site for what runs" /usr/bin/python3 tests/doctor.py Init
	} >target/other.log 2>&1 &
	other=$!
	part "messaging: bucket, broker, real clients" tests/messaging.sh
	part "messages while the clock is set, in a guest" tests/messaging-clock.sh
	part "coordination: real servers, faults, real clients" tests/coordination.sh servers
	wait $other
	cat target/other.log
} >target/waiting.log 2>&1 &
waiting=$!
set +m
part "services: restarts in their place, users, limits, logs" /usr/bin/python3 tests/services.py
part "metrics: each moves, and back" /usr/bin/python3 tests/metrics.py
part "Prometheus: rules, alerts, a real scrape, the dashboard" /usr/bin/python3 tests/prometheus.py
part "OpenTelemetry: metrics and late requests sent, spans of its SDK observed" tests/otlp.sh
part "the journal: late requests and missed periods by their fields" /usr/bin/python3 tests/journald.py
part "stalls of giusto itself, in each phase" /usr/bin/python3 tests/stalls.py
part "the page, in a browser" /usr/bin/python3 tests/web.py
part "the plan is the contract: reviewed, enforced, refused" /usr/bin/python3 tests/contract.py
part "packets: threads, buckets and the way back" /usr/bin/python3 tests/packets.py
part "formats" /usr/bin/python3 tests/formats.py
part "end to end: on this host" /usr/bin/python3 tests/e2e.py ThisHost Percentiles Help Refusals SeveralHosts Supply
part "recorded: traces of cores, requests and budgets, and around late jobs" /usr/bin/python3 tests/recorded.py
part "doctor and demo: a newcomer's first commands" /usr/bin/python3 tests/doctor.py Doctor Demo Kept
wait "$waiting"
waiting=
cat target/waiting.log
wait "$beside"
beside=
cat target/beside.log
count() { grep -c "^$1 " "$results"; }
again=$(cat "$printed"/* target/beside.log target/waiting.log | grep -c 'once more')
# What says why, of each that failed, where it is found in a long log.
for says in "$printed"/*.failed; do
	[ -e "$says" ] || continue
	echo "--- ${says##*/}"
	{ grep -m 3 -A 25 -E '^(FAIL|ERROR): ' "$says" || tail -n 30 "$says"; } | cut -c 1-500
done
grep -h '^FLAKY ' target/test.log target/beside.log target/waiting.log | sort -u
echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped; run again: $again;" \
	"$SECONDS s, $((($(every) - worked) / 100)) s of all processors together"
sed -n 's/^failed /failed: /p' "$results"
[ "$(count failed)" = 0 ]
