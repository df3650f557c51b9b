#!/usr/bin/env bash
# files: 6
# A promise with a name of its own: a tenth of a core in every 20 ms. A file of each list (planner/README.md).
set -euo pipefail
cargo build --release --locked --quiet -p giusto-cli
giusto=$CARGO_TARGET_DIR/release/giusto
printf 'giusto: 1\nhosts: {edge: {cores: 0}}\nservices:\n  beat: {start: [sleep, "9"], promise: tenth}\n' >toy.yaml

# says WORDS COMMAND...: it must end well and say so.
says() {
	local words=$1 said
	shift
	said=$("$@" 2>&1) || { echo "$*: exit $?: $said" >&2; return 1; }
	grep -qF "$words" <<<"$said" || { echo "$*: expected '$words' in: $said" >&2; return 1; }
}
says 'beat on core 0: 2 ms every 20 ms' "$giusto" plan toy.yaml --out toy.json
says tenth "$giusto" check --certificate toy.json
says 'a tenth of a core' "$giusto" explain beat --plan toy.json

# Thirteen do not fit on a core, and the promise says so in its own words.
for n in $(seq 12); do printf '  more-%s: {start: [sleep, "9"], promise: tenth}\n' "$n"; done >>toy.yaml
code=0 said=$("$giusto" plan toy.yaml 2>&1) || code=$?
((code == 1)) && grep -qF 'does not fit' <<<"$said" || { echo "13 tenths: exit $code: $said" >&2; exit 1; }
