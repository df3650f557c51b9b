#!/usr/bin/env bash
# files: 3
# A kind of server: as deferrable, but going idle costs half of what is left. Its rules, the table, its facts.
set -euo pipefail
transcript=$(mktemp)
trap 'rm -f "$transcript" toy' EXIT

# In the core: 4 ms every 10 ms, of which 1 ms is used and half of the rest lost by going idle; what is left is kept.
cat >"$transcript" <<'END'
pool m=1 order=fp
add a halving B=4 P=10
at 0 ready a -> core0=a until=4
at 1 idle a -> core0=idle a.left=1.5
at 3 ready a -> core0=a until=4.5
at 4.5 -> core0=idle a.left=0 until=10
at 10 -> core0=a a.left=4
END
gcc -std=c11 -O1 -Wall -Wextra -Werror -o toy policy/tests/replay.c policy/tests/transcript.c
./toy "$transcript"
# The core and the words have the same kinds in the same order.
cargo test --release --locked --quiet -p giusto-policy -p giusto-model --lib -- kind all_are_listed

# In a plan, proven by the checker; for deadlines it is refused in its own words.
cargo build --release --locked --quiet -p giusto-cli
giusto=$CARGO_TARGET_DIR/release/giusto
site() {
	printf 'giusto: 1\nhosts: {edge: {cores: 0}}\nservices:\n  beat: {start: [sleep, "9"], server: halving, %s}\n' "$1" >toy.yaml
}
site 'promise: {supply: 2ms/20ms}'
"$giusto" plan toy.yaml --out toy.json
grep -q '"kind": "halving"' toy.json
valid='import json, jsonschema, sys; jsonschema.validate(*map(json.load, map(open, sys.argv[1:])))'
/usr/bin/python3 -c "$valid" toy.json formats/plan.schema.json
"$giusto" check --certificate toy.json
"$giusto" analyze admission --scheduler edf --server halving:2ms/5ms --server constant_bandwidth:2ms/5ms
"$giusto" simulate toy.yaml >/dev/null
site 'tasks: [{name: beat, wcet: 1ms, period: 20ms}], promise: every-deadline'
code=0 said=$("$giusto" plan toy.yaml 2>&1) || code=$?
((code != 0)) && grep -qF 'it loses half of its budget' <<<"$said" || { echo "deadlines: exit $code: $said" >&2; exit 1; }
