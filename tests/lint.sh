#!/usr/bin/env bash
# rustfmt, clippy, clang-format and gofmt as errors; every shell script must parse; rooms use lower floors only.
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
git ls-files '*.sh' .ci/run | xargs -n1 bash -n
