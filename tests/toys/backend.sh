#!/usr/bin/env bash
# files: 3
# A backend that gives a service the nice value -20, in a tree that has backend.patch: its own tests, which hold a process and let
# it go, then a site that is planned for it and dry-run. Enforces nothing but on a sleeping child. Without root only the tests.
set -euo pipefail
[ -e compute/src/backends/nice.rs ] || { echo "run this in a tree with tests/toys/backend.patch applied" >&2; exit 2; }
[ "${RUSTFLAGS-}" ] || . packaging/flags.sh
cargo test --release --quiet -p giusto-model -p giusto-compute --lib -- backend
cargo build --release --quiet -p giusto-cli
giusto=${CARGO_TARGET_DIR:-target}/release/giusto
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
export GIUSTO_STATE=$folder/state
cat >"$folder/site.yaml" <<'SITE'
giusto: 1
hosts: {edge: {cores: 0}}
services:
  beat: {start: [sleep, "9"], promise: {supply: 10ms/100ms}}
SITE
says() { # $1: what; $2: in which file
	grep -qF "$1" "$2" || { echo "'$1' is not in:" >&2; cat "$2" >&2; exit 1; }
}
"$giusto" doctor >"$folder/doctor" || true
says 'backend nice' "$folder/doctor"
[ "$(id -u)" = 0 ] || {
	echo "a toy backend in 3 files: its tests; not root, so that no plan with it is for this machine"
	exit 0
}
"$giusto" plan "$folder/site.yaml" --backend nice --out "$folder/plan.json" >"$folder/plan"
says 'beat on core 0: 10 ms every 100 ms' "$folder/plan"
says '"backend": "nice"' "$folder/plan.json"
valid='import json, jsonschema, sys; jsonschema.validate(*map(json.load, map(open, sys.argv[1:])))'
/usr/bin/python3 -c "$valid" "$folder/plan.json" formats/plan.schema.json
"$giusto" check --certificate "$folder/plan.json" >/dev/null
"$giusto" run "$folder/site.yaml" --backend nice --dry-run >"$folder/run"
says 'bind the threads of beat to core 0, nice -20' "$folder/run"
echo "a toy backend in 3 files: planned, certified, dry-run, and its thread held and let go"
