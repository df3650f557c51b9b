#!/usr/bin/env bash
# Messaging: the bucket against the transcripts of the C core and the mathematics, the gate's laws, the broker beside stock nsqd and
# under hostile bytes, kills and a full disk, and NSQ's real clients against it.
#   tests/messaging.sh [soak]      soak: all transcripts of the law, ten million messages for each split, 100,000 random inputs,
#                                  40 kills, 9,000 idle connections, a minute of fuzzing, the race detector, the distributor's 100,000 random runs,
#                                  500 moves under kills, five minutes of a store that comes and goes; what was measured is printed: NAME: ...
# Exit 77: something is missing that was told; the rest ran.
set -euo pipefail
cd "$(dirname "$0")/../messaging"
out=$(realpath -m "${CARGO_TARGET_DIR:-../target}")/messaging
mkdir -p "$out"
command -v go >/dev/null || {
	echo "messaging: go is missing: install Go 1.23 or later (go.dev/dl)" >&2
	exit 77
}
# Distributors are tested over a real ensemble; without Java those tests are left out.
../tests/server.sh
show() { grep -vE '^(=== RUN|PASS$|    )' || true; }
venv=clients/.venv
if ! cmp -s clients/requirements.txt $venv/pins; then
	rm -rf $venv
	/usr/bin/python3 -m venv $venv && $venv/bin/pip install --quiet --disable-pip-version-check -r clients/requirements.txt
	cp clients/requirements.txt $venv/pins
fi
go vet ./...
how=(-short -p 4) # most of what they do is waiting
if [ "${1-}" = soak ]; then
	how=(-timeout 60m) # of a package: 100,000 random runs, 500 moves
	ulimit -n 20000
	# TestAFullDisk makes go-nsq connect again, which has a race of its own.
	go test -count=1 -race -short -skip TestAFullDisk ./gate ./holder ./settings ./broker ./store ./client ./distributor
	go test -run '^$' -fuzz FuzzCommands -fuzztime 60s ./broker
	export GIUSTO_SOAK=1
fi
before=$(/usr/bin/python3 ../tests/patient.py)
go test -count=1 "${how[@]}" -v ./... 2>&1 | tee "$out.log" | show || {
	grep -A 20 -E '^ *--- FAIL|^panic|^FAIL' "$out.log" || tail -n 100 "$out.log"
	# It is run again, alone: as tests/patient.py says.
	failed=$(sed -n 's/^--- FAIL: \([^ /]*\) .*/\1/p' "$out.log" | paste -sd '|')
	code=0
	/usr/bin/python3 ../tests/patient.py "$before" || code=$?
	[ -n "$failed" ] || exit 1
	before=$(/usr/bin/python3 ../tests/patient.py)
	echo "once more: $failed"
	go test -count=1 "${how[@]}" -v -run "^($failed)\$" ./... 2>&1 | show || {
		code=0
		/usr/bin/python3 ../tests/patient.py "$before" || code=$?
		((code == 77)) || exit 1
		echo "messaging: failed on a machine of which a hypervisor takes too much: cannot tell" >&2
		exit 77
	}
	((code != 1)) || echo "FLAKY messaging: $failed"
}

go build -o "$out/" ./cmd/giusto-broker ./cmd/giusto-distributor ./cmd/giusto-limit
(cd clients && go build -o "$out/" github.com/nsqio/nsq/apps/{nsq_tail,nsq_to_file,nsqadmin,nsqlookupd} ./gonsq)
"$out/giusto-broker" --check broker.yaml
"$out/giusto-broker" --check managed.yaml
"$out/giusto-distributor" --check distributor.yaml
"$out/giusto-limit" --check limit.yaml
command -v node >/dev/null && command -v npm >/dev/null || {
	echo "messaging: node and npm are missing: apt-get install nodejs npm" >&2
	exit 77
}
if ! cmp -s clients/package-lock.json clients/node_modules/pins; then
	(cd clients && npm ci --ignore-scripts --no-audit --no-fund --silent)
	cp clients/package-lock.json clients/node_modules/pins
fi
/usr/bin/python3 clients/upstream.py
/usr/bin/python3 clients/matrix.py "$out/giusto-broker" "$out" $venv/bin/python "$(command -v node)"
[ "${1-}" != soak ] || /usr/bin/python3 clients/matrix.py "$out/giusto-broker" "$out" $venv/bin/python \
	"$(command -v node)" publishing
