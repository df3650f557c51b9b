#!/usr/bin/env bash
# Plays of two brokers and two distributors (TestPlaysOfAFleet) in a guest, where the wall clock is set by up to two hours after
# each
# thing that happens: no window of what consumers get is above the bucket, nothing acknowledged is lost, and messages are taken
# and flow as before.
#   tests/messaging-clock.sh [PLAYS [SEED]]      (default 2 from seed 0)
# Exit 77: no Go, or nothing to run a guest with.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v go >/dev/null || {
	echo "messaging: go is missing: install Go 1.23 or later (go.dev/dl)" >&2
	exit 77
}
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/messaging/guest
mkdir -p "$out"
export CGO_ENABLED=0
(cd messaging && go build -o "$out/" ./cmd/giusto-broker ./cmd/giusto-distributor && go test -c -o "$out/plays" ./broker)
GUEST_TIMEOUT=${GUEST_TIMEOUT:-3000} tests/guest.sh "$out/giusto-broker" "$out/giusto-distributor" "$out/plays" -- \
	sh -c "cd /tmp && GIUSTO_STEPS=1 GIUSTO_PROGRAMS=$out GIUSTO_RUNS=${1:-2} GIUSTO_SEED=${2:-0} \
		$out/plays -test.v -test.timeout 50m -test.run 'PlaysOfAFleet'"
