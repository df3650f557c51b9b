#!/usr/bin/env bash
# Our response-time analysis beside plain NumPy of the printed algorithms [LiH21, chapter 4], in turns: base case, N = 20.
#   tests/bench-response.sh [ROUNDS]       (default 5, about half a minute)
# Both must give the same distribution. Gate: 300 times as fast. Exit: 0 held, 1 not, 3 NumPy cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-target}/numpy
pin=numpy==1.26.4
if [ "$(cat "$venv/pins" 2>/dev/null)" != "$pin" ]; then
	rm -rf "$venv"
	if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "$pin"; }; then
		echo "NumPy cannot be installed: it needs Python 3.9 to 3.12 with venv (apt-get install python3-venv) and PyPI" >&2
		exit 3
	fi
	echo "$pin" >"$venv/pins"
fi
cargo build --release --locked --quiet -p giusto-analysis --example response
exec env OMP_NUM_THREADS=1 "$venv/bin/python" tests/bench-response.py "${CARGO_TARGET_DIR:-target}/release/examples/response" "${1:-5}"
