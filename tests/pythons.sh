#!/usr/bin/env bash
# import giusto on each Python that is promised: tests/python.sh in a venv of each; the wheel in bare venvs, with the first
# commands of its pages typed as they stand, and its licences; the source distribution and the folder built by pip.
#   tests/pythons.sh [VERSION]...      (default 3.9 3.11 3.13)
# A Python that the machine lacks (pythonX.Y, pyenv) is fetched by uv, which is from PyPI. Exit: 0 all held, 1 not, 77 a Python
# or a package cannot be had.
set -uo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
(($# > 0)) || set -- 3.9 3.11 3.13
failed=() lacking=()
is() { [ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$2" ]; }
find_python() { # a Python of this version, on standard output
	local each uv=$target/python/uv
	for each in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1."*/bin/python3 python3; do
		is "$each" "$1" && { command -v "$each"; return; }
	done
	[ -x "$uv/bin/uv" ] || { python3 -m venv "$uv" && "$uv/bin/pip" install --quiet uv; } >&2 || return
	"$uv/bin/uv" python install --quiet "$1" >&2 && "$uv/bin/uv" python find "$1"
}
try() {
	local what=$1 code=0
	shift
	echo "=== $what"
	"$@" || code=$?
	case $code in
	0) echo "--- $what: held" ;;
	77) lacking+=("$what") ;;
	*) failed+=("$what") ;;
	esac
}
page() { # typed as it stands, in the repository, by a Python that has only what the page says
	"$1" - "$2" <<-'PYTHON'
		import doctest, re, sys
		blocks = re.findall(r"```python\n(.*?)```", open(sys.argv[1]).read(), re.DOTALL)
		text = "\n".join(block for block in blocks if block.startswith(">>>"))
		runner = doctest.DocTestRunner()
		runner.run(doctest.DocTestParser().get_doctest(text, {}, sys.argv[1], sys.argv[1], 0))
		print(f"{sys.argv[1]}: {runner.tries} lines typed, {runner.failures} differ")
		sys.exit(runner.failures > 0 or not runner.tries)
	PYTHON
}
licensed() { # the wheel has our licence, and the terms of each library that its machine code names
	python3 - "$1" <<-'PYTHON'
		import re, sys, zipfile
		wheel = zipfile.ZipFile(sys.argv[1])
		code, ours, terms, theirs = (
		    next(wheel.read(name) for name in wheel.namelist() if name.endswith(end))
		    for end in (".abi3.so", "/licenses/LICENSE", "/LICENSE-Apache-2.0.txt", "/LICENSES-libraries.txt")
		)
		told = {}
		for part in re.split(r"^=== ", theirs.decode(), flags=re.MULTILINE)[1:]:
		    told["-".join(part.partition(": ")[0].split())] = part
		linked = {name.decode() for name in re.findall(rb"registry/src/[^/]+/([\w.+-]+)/", code)}
		of = {name: told.get(name, "") for name in linked}
		lacking = [name for name, text in of.items() if len(text.splitlines()) < 5 and "authors" not in text]
		print(f"{len(told)} libraries, of which the code names {len(linked)}; without terms: {lacking or 'none'}")
		sys.exit(bool(lacking) or not linked or b"Apache" not in ours or b"TERMS AND CONDITIONS" not in terms)
	PYTHON
}
installed() { # a Python, a name for its venv, and what pip installs
	local python=$1 venv=$target/python/bare-$2
	shift 2
	rm -rf "$venv"
	"$python" -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" || return 1
	page "$venv/bin/python" python/README.md || return 1
	"$venv/bin/pip" install --quiet --disable-pip-version-check numpy matplotlib || return 77
	MPLBACKEND=Agg page "$venv/bin/python" docs/python.md
}
try "make wheels" packaging/wheels.sh || exit 1
wheel=$(ls -t out/wheels/*.whl | head -1) sdist=$(ls -t out/wheels/*.tar.gz | head -1)
try "licences in the wheel" licensed "$wheel"
last=
for version; do
	if ! python=$(find_python "$version"); then
		lacking+=("Python $version")
		continue
	fi
	last=$python
	try "$version: tests/python.sh" tests/python.sh "$python"
	try "$version: the wheel in a bare venv" installed "$python" "$version" "$wheel"
done
if [ -n "$last" ]; then
	# What was compiled for the wheel need not be once more.
	. packaging/flags.sh
	export CARGO_TARGET_DIR=$target/wheels
	try "the source distribution in a bare venv" installed "$last" sdist "$sdist"
	try "pip install ./python" installed "$last" folder ./python
fi
((${#lacking[@]} == 0)) || printf 'cannot be had here: %s\n' "${lacking[@]}" >&2
((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
((${#lacking[@]} == 0)) || exit 77
