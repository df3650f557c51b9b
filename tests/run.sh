#!/usr/bin/env bash
# Everything `make test` proves, in order of cost; stops at the first part that fails and says which.
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0
part() {
	local name=$1 start=$SECONDS
	shift
	echo "=== $name"
	if "$@"; then
		echo "--- $name: passed in $((SECONDS - start)) s"
		passed=$((passed + 1))
	else
		echo "--- $name: FAILED (exit $?) after $((SECONDS - start)) s; run it alone: $*"
		echo "$passed passed, 1 failed"
		exit 1
	fi
}
part "lint" tests/lint.sh
part "rooms" cargo test --workspace --locked --quiet
part "policy: transcripts native, sanitized and in the kernel" policy/check.sh
part "release build" cargo build --release --locked --quiet
part "formats" /usr/bin/python3 tests/formats.py
part "end to end" /usr/bin/python3 tests/e2e.py
echo "$passed passed, 0 failed"
