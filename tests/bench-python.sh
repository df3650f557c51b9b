#!/usr/bin/env bash
# How long import giusto takes; beside SimSo, beside real-time calculus on sampled curves and, where it is given, beside
# pycpa, in one process each, on random sets.
#   tests/bench-python.sh [ROUNDS] [SECONDS for SimSo to simulate]      (default 5 and 4)
# pycpa is not on PyPI: GIUSTO_PYCPA says where it is from, as for tests/curves.sh. Gates: 1,000 times SimSo's jobs a second
# with equal results; an import of at most 50 ms; 50 times the speed of either analysis, no bound above. Exit: 0 all held,
# 1 not, 3 SimSo cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
target=${CARGO_TARGET_DIR:-target} venv=${CARGO_TARGET_DIR:-target}/python/bench
. tests/simso-pins.sh
if [ "$(cat "$venv/pins" 2>/dev/null)" != "${build[*]} ${pins[*]} ${GIUSTO_PYCPA:-}" ]; then
	rm -rf "$venv"
	if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "${build[@]}" &&
		"$venv/bin/pip" install --quiet --no-build-isolation "${pins[@]}"; }; then
		echo "SimSo cannot be installed: needs Python 3.9 to 3.12 with venv (apt-get install python3-venv) and PyPI" >&2
		exit 3
	fi
	if [ -n "${GIUSTO_PYCPA:-}" ] && ! "$venv/bin/pip" install --quiet --no-deps "$GIUSTO_PYCPA"; then
		echo "pycpa cannot be installed from $GIUSTO_PYCPA" >&2
		exit 3
	fi
	echo "${build[*]} ${pins[*]} ${GIUSTO_PYCPA:-}" >"$venv/pins"
fi
cargo build --release --workspace --lib --locked --quiet
here=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
rm -rf "$here/giusto"
cp -r python/giusto "$here/giusto"
cp "$target/release/lib_giusto.so" "$here/giusto/_giusto.abi3.so"
code=0
"$venv/bin/python" python/bench/import_time.py || code=1
"$venv/bin/python" python/bench/beside_simso.py "${1:-5}" "${2:-4}" || code=1
"$venv/bin/python" python/bench/beside_rtc.py || code=1
"$venv/bin/python" python/bench/beside_pycpa.py || [ $? = 77 ] || code=1
exit $code
