#!/usr/bin/env bash
# What of promises for pods needs no cluster: the extender with the built planner over objects in memory, the agent's findings.
#   kubernetes/test.sh [soak]     soak: 1,000 nodes, 10,000 pods, 100 times a node that fails; what was measured is printed:
#                                 SCALE: ...
set -euo pipefail
cd "$(dirname "$0")"
command -v go >/dev/null || {
	echo "kubernetes: go is missing: install Go 1.26 or later (go.dev/dl)" >&2
	exit 77
}
[ -x "${CARGO_TARGET_DIR:-../target}/release/giusto" ] || {
	echo "kubernetes: giusto is not built: make build" >&2
	exit 77
}
[ "${1-}" != soak ] || export GIUSTO_SOAK=1
python3 cluster/guard_test.py
go vet ./...
go test -count=1 -timeout 30m -v ./... 2>&1 | grep -vE '^(=== RUN|PASS$|\?)'
