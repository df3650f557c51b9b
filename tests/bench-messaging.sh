#!/usr/bin/env bash
# giusto-broker beside stock nsqd and a bare echo in turns, same clients and load, and a broker that is stopped again and again.
#   tests/bench-messaging.sh [ROUNDS]      (default 3, about ten minutes)
# Gates: p99 at most 1.5 x that of the echo, which forwards messages and does nothing else. Without output buffers CPU, p50 and
# p99 at most 1.1 x nsqd's (neither makes a message wait there; p99 may be the echo's instead). With default clients, whose messages
# nsqd lets wait for others, p50 a fifth and p99 half of nsqd's at most, CPU 1.25 x the echo's. 5 x fewer delayed; CPU for a
# message of a backlog at most 1.1 x; memory, and CPU for messages, of 2,730 topics at most 1.2 x. Exit: 0 held, 1 missed or
# void, 3 no Go.
set -euo pipefail
cd "$(dirname "$0")/../messaging"
command -v go >/dev/null || {
	echo "go is missing: install Go 1.23 or later (go.dev/dl)" >&2
	exit 3
}
out=$(realpath -m "${CARGO_TARGET_DIR:-../target}")/messaging
mkdir -p "$out"
go build -o "$out/" ./cmd/giusto-broker ./bench/stock ./bench/echo ./bench/compare ./bench/readers ./bench/topics
go build -tags readtime -o "$out/read-time" ./cmd/giusto-broker
ulimit -n 20000
missed=0
"$out/readers" -programs "$out" -rounds "$((3 * ${1:-3}))" || missed=1
"$out/topics" -programs "$out" || missed=1
"$out/compare" -programs "$out" -rounds "${1:-3}" || missed=1
exit $missed
