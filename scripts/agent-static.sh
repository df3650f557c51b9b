#!/usr/bin/env bash
# Builds giusto-agent for guests and containers: one file that needs no library there. Prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
# An explicit target keeps the flag from what the build itself runs, and its files from those of the other build.
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="$RUSTFLAGS -C target-feature=+crt-static" cargo build --release --locked --quiet -p giusto-agent --target "$target" >&2
echo "${CARGO_TARGET_DIR:-$PWD/target}/$target/release/giusto-agent"
