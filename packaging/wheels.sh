#!/usr/bin/env bash
# A wheel of `import giusto` and its source distribution into out/wheels. The wheel is for CPython 3.9 and newer on Linux whose C
# library is as old as this machine's or newer. Fetches maturin, pinned, from PyPI.
#   packaging/wheels.sh [--no-sdist]
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/python/maturin
pin=$(grep '^maturin==' python/tests/requirements.txt)
if [ "$(cat "$venv/pins" 2>/dev/null)" != "$pin" ]; then
	rm -rf "$venv"
	python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$pin" || {
		echo "maturin cannot be installed: it needs Python 3 with venv (apt-get install python3-venv) and PyPI" >&2
		exit 3
	}
	echo "$pin" >"$venv/pins"
fi
mkdir -p out/wheels
# maturin takes all LICENSE* of the package's folder along.
cargo fetch --locked --quiet
packaging/libraries.sh giusto-python >python/LICENSES-libraries.txt
# One package alone resolves other features than the workspace: in the same folder each would have the other's compiled again.
export CARGO_TARGET_DIR=$target/wheels PATH=$venv/bin:$PATH
# The oldest manylinux whose symbols it uses is its tag.
maturin build --release --locked -m python/Cargo.toml --out out/wheels
[ "${1:-}" = --no-sdist ] || maturin sdist -m python/Cargo.toml --out out/wheels
ls -l out/wheels
