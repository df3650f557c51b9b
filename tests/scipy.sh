#!/usr/bin/env bash
# Distances and intervals of `giusto verify` beside SciPy's, on random samples. An argument: how many of them (default 12).
# SciPy is put beside the build, in its pinned version. Exit: 0 held, 1 not, 77 SciPy cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-target}/scipy
pins='numpy==1.26.4 scipy==1.13.1'
if [ "$(cat "$venv/pins" 2>/dev/null)" != "$pins" ]; then
	rm -rf "$venv"
	# shellcheck disable=SC2086
	if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet $pins; }; then
		echo "SciPy cannot be installed: it needs Python 3.9 to 3.12 with venv (apt-get install python3-venv) and PyPI" >&2
		exit 77
	fi
	printf '%s' "$pins" >"$venv/pins"
fi
exec env OMP_NUM_THREADS=1 "$venv/bin/python" tests/scipy_agrees.py "${1:-12}"
