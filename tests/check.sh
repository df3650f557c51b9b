#!/usr/bin/env bash
# `make check`: what a change can be asked in two minutes, without root: formats, clippy and unit tests of the Rust rooms that
# differ from main (or from the commit named), and of those the tests in `src/`. `make test` is the whole.
#   tests/check.sh [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
base=$(git merge-base "${1:-main}" HEAD)
changed=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
rooms=() libraries=()
for manifest in */Cargo.toml; do
	room=$(dirname "$manifest")
	if grep -q "^$room/" <<<"$changed"; then
		rooms+=(-p "giusto-$room")
		# What Python loads cannot be linked to a test.
		[ ! -e "$room/src/lib.rs" ] || grep -q '^test = false' "$manifest" || libraries+=(-p "giusto-$room")
	fi
done
tests/lint.sh --style
if ((${#rooms[@]})); then
	echo "rooms that differ from ${1:-main}: ${rooms[*]//-p/}"
	cargo clippy --release --locked --quiet "${rooms[@]}" -- -D warnings
fi
((${#libraries[@]} == 0)) || cargo test --release --locked --quiet "${libraries[@]}" --lib
if grep -q '^messaging/.*\.go$' <<<"$changed" && command -v go >/dev/null; then
	(cd messaging && go vet ./...)
fi
if grep -q '^kubernetes/.*\.go$' <<<"$changed" && command -v go >/dev/null; then
	(cd kubernetes && go vet ./...)
fi
echo "checked; 'make test' runs everything"
