#!/usr/bin/env bash
# Our simulator beside SimSo, in turns, on the same tasks: 10 periodic ones, U = 0.8, rate monotonic, one processor.
#   tests/bench-simso.sh [ROUNDS] [SECONDS for SimSo to simulate]       (default 3 and 20, about a minute)
# Both must finish the same jobs with the same worst and total response time for each task. Gates: 1,000 times SimSo's jobs a
# second, and memory that does not grow with the run. Exit: 0 all held, 1 not, 3 SimSo cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-target}/simso
. tests/simso-pins.sh
if [ "$(cat "$venv/pins" 2>/dev/null)" != "${build[*]} ${pins[*]}" ]; then
	rm -rf "$venv"
	if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "${build[@]}" &&
		"$venv/bin/pip" install --quiet --no-build-isolation "${pins[@]}"; }; then
		echo "SimSo cannot be installed: it needs Python 3.9 to 3.12 with venv (apt-get install python3-venv) and PyPI" >&2
		exit 3
	fi
	echo "${build[*]} ${pins[*]}" >"$venv/pins"
fi
cargo build --release --locked --quiet -p giusto-simulator --example speed
exec "$venv/bin/python" tests/bench-simso.py "${CARGO_TARGET_DIR:-target}/release/examples/speed" "${1:-3}" "${2:-20}"
