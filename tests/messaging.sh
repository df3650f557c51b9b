#!/usr/bin/env bash
# Messaging: the token bucket in Go against the transcripts of the C core, and against the mathematics.
#   tests/messaging.sh [soak]      soak: all transcripts of the law, ten million messages for each split
# Exit 77: no Go.
set -euo pipefail
cd "$(dirname "$0")/../messaging"
command -v go >/dev/null || {
	echo "messaging: go is missing: install Go 1.22 or later (go.dev/dl)" >&2
	exit 77
}
go vet ./...
short=-short
[ "${1-}" != soak ] || short=
go test -count=1 $short -v ./... | grep -vE '^(=== RUN|PASS$)'
