#!/usr/bin/env bash
# rustfmt, clippy and clang-format as errors; every shell script must parse.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo clippy --release --workspace --all-targets --locked --quiet -- -D warnings
git ls-files '*.c' '*.h' | xargs -r clang-format-19 --dry-run -Werror
git ls-files '*.sh' .ci/run | xargs -n1 bash -n
