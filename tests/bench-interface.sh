#!/usr/bin/env bash
# The cheapest interface beside plain searches that step through whole periods and budgets, on the same tasks in the same run:
# one in Rust, and one in Python where that is a matter of seconds; then how ours scales.
#   tests/bench-interface.sh [SETS]      (default 5; half a minute)
# All must find the same interface. Gates on the medians of the ratios are in bench-interface.py. Exit: 0 all held, 1 not.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --quiet -p giusto-analysis --example interface
exec python3 tests/bench-interface.py "${CARGO_TARGET_DIR:-target}/release/examples/interface" "${1:-5}"
