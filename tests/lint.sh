#!/usr/bin/env bash
# rustfmt, clippy, clang-format and gofmt as errors; every shell script must parse; rooms use lower floors only,
# and no file is in a circle with others of its room; only the table of kinds names a kind of server in the policy core.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo clippy --release --workspace --all-targets --locked --quiet -- -D warnings
git ls-files '*.c' '*.h' | xargs -r clang-format-19 --dry-run -Werror
if command -v gofmt >/dev/null; then
	unformatted=$(git ls-files '*.go' | xargs -r gofmt -l)
	[ -z "$unformatted" ] || { echo "not as gofmt has it: $unformatted" >&2; exit 1; }
fi
python3 scripts/architecture.py --check
python3 scripts/tidy.py
python3 scripts/status.py check
if git grep -nE '\bGI_(PERIODIC_[A-Z]+|POLLING|DEFERRABLE|SPORADIC|CONSTANT_BANDWIDTH|UNLIMITED)\b' -- policy/core policy/policy.h; then
	echo "a kind of server is named outside policy/kinds; expected a fact or an event of kinds/table.h" >&2
	exit 1
fi
git ls-files '*.sh' .ci/run | xargs -n1 bash -n
