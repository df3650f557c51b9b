#!/usr/bin/env bash
# import giusto: values beside the command line's, exceptions, Ctrl-C, the GIL, examples, types, style and notebooks.
#   tests/python.sh [PYTHON]       (default python3: 3.9 or newer, with venv)
# Takes what the workspace has built, and builds what is missing. Fetches pinned packages from PyPI once, into target/python.
# Exit: 0 all held, 1 not, 77 a package cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
python=${1:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=$target/python/$version
pins=python/tests/requirements.txt
if ! cmp -s "$pins" "$venv/pins"; then
	rm -rf "$venv"
	if ! { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"; }; then
		echo "the packages of $pins cannot be installed: they need Python 3.9 or newer with venv, and PyPI;" \
			"apt-get install python3-venv, or look at the lines above" >&2
		exit 77
	fi
	cp "$pins" "$venv/pins"
fi
cargo build --release --workspace --lib --bin giusto --locked --quiet
# As a wheel would have it, beside the tests' packages.
here=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
rm -rf "$here/giusto"
cp -r python/giusto "$here/giusto"
# Beside the sources too: what runs in python/ finds those first.
for folder in "$here/giusto" python/giusto; do
	cp "$target/release/lib_giusto.so" "$folder/_giusto.abi3.so"
done
bin=$venv/bin
export MPLBACKEND=Agg
failed=()
try() { echo "$ $*"; "$@" || failed+=("$1${2:+ $2}"); }
cd python
try "$bin/ruff" check --quiet .
try "$bin/ruff" format --quiet --check .
try "$bin/mypy" --cache-dir "$target/python/mypy-$version"
try "$bin/python" -m mypy.stubtest --mypy-config-file pyproject.toml giusto._giusto
try "$bin/python" -m pytest -q -p no:cacheprovider tests
((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
