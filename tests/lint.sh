#!/usr/bin/env bash
# rustfmt, clippy, clang-format and gofmt as errors; every shell script must parse; rooms use lower floors only,
# and no file is in a circle with others of its room; only the table of kinds names a kind of server in the policy core.
# All of them run, and those that failed are listed at the end.
#   tests/lint.sh [--style]      --style: without clippy, in seconds
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()
try() { "$@" || failed+=("$1${2:+ $2}"); }

clang_formatted() { git ls-files '*.c' '*.h' | xargs -r clang-format-19 --dry-run -Werror; }
go_formatted() {
	local unformatted
	unformatted=$(git ls-files '*.go' | xargs -r gofmt -l) && [ -z "$unformatted" ] && return
	echo "not as gofmt has it: $unformatted" >&2
	return 1
}
kinds_unnamed() {
	local kinds='PERIODIC_[A-Z]+|POLLING|DEFERRABLE|SPORADIC|CONSTANT_BANDWIDTH|UNLIMITED'
	git grep -nE "\bGI_($kinds)\b" -- policy/core policy/policy.h || return 0
	echo "a kind of server is named outside policy/kinds; expected a fact or an event of kinds/table.h" >&2
	return 1
}
scripts_parse() { git ls-files '*.sh' .ci/run | xargs -n1 bash -n; }

try cargo fmt --all --check
[ "${1:-}" = --style ] || try cargo clippy --release --workspace --all-targets --locked --quiet -- -D warnings
# `make check` runs before anything is set up as well; setup.sh installs both, so that `make test` has them.
command -v clang-format-19 >/dev/null && try clang_formatted
command -v gofmt >/dev/null && try go_formatted
try python3 scripts/architecture.py --check
try python3 scripts/tidy.py
try python3 scripts/status.py check
try kinds_unnamed
try scripts_parse
((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
