#!/usr/bin/env bash
# Bounds of `giusto analyze path` for messages of an arrival curve, beside compositional performance analysis and beside the
# Deterministic Network Calculator (DNC), on random chains. An argument: how many of each (default 300).
# The DNC is put beside the build, in its pinned version, from Maven Central. pycpa is not on PyPI: its analysis is written in
# tests/compositional.py, and pycpa itself is asked as well where it can be had, with
#   GIUSTO_PYCPA=git+https://github.com/IDA-TUBS/pycpa@824e7941030057ca7b2d2eccd269fa2d62719667 tests/curves.sh
# (or a folder with it). Exit: 0 held, 1 not, 77 the DNC cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target} count=${1:-300}
mkdir -p "$target"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target
python=python3
if [ -n "${GIUSTO_PYCPA:-}" ]; then
	venv=$target/pycpa
	if [ "$(cat "$venv/pins" 2>/dev/null)" != "$GIUSTO_PYCPA" ]; then
		rm -rf "$venv"
		if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --no-deps "$GIUSTO_PYCPA"; }; then
			echo "pycpa cannot be installed from $GIUSTO_PYCPA" >&2
			exit 77
		fi
		printf '%s' "$GIUSTO_PYCPA" >"$venv/pins"
	fi
	python=$venv/bin/python
fi
"$python" tests/curves_agree.py chains "$count"
if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then
	echo "the DNC cannot be asked: it needs Java and Maven (apt-get install openjdk-17-jdk-headless maven)" >&2
	exit 77
fi
# Offline where all is there.
if [ ! -e "$target/dnc/built" ] || [ -n "$(find tests/dnc -newer "$target/dnc/built" -type f)" ]; then
	maven=(mvn -B -q -Dstyle.color=never -f tests/dnc/pom.xml "-DbuildDirectory=$target/dnc" compile)
	if ! "${maven[@]}" -o >/dev/null 2>&1 && ! said=$("${maven[@]}" 2>&1); then
		printf '%s\n' "$said" >&2
		case $said in
		*COMPILATION*) exit 1 ;;
		esac
		echo "the DNC cannot be had from Maven Central (de.tum.ei.lkn.eces:discodnc)" >&2
		exit 77
	fi
	touch "$target/dnc/built"
fi
"$python" tests/curves_agree.py tandems "$count"
