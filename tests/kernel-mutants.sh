#!/usr/bin/env bash
# Breaks the scheduler in the kernel on purpose, each way of compute/tests/kernel/mutants.txt, and plays the scene that has
# to be red.
#   tests/kernel-mutants.sh [WORD]     those whose line has the word
set -euo pipefail
cd "$(dirname "$0")/.."
tests/kernel-fetch.sh
source=compute/bpf/servers.bpf.c
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/target"
cp -r compute policy tests "$tree/"
ln -s "$PWD/target/sched_ext" "$tree/target/sched_ext"
killed=0 alive=0
while IFS='|' read -r what scene change; do
	sed "${change# }" $source >"$tree/$source"
	! cmp -s $source "$tree/$source" || { echo "NOT A FAULT ANY MORE: $what" >&2; exit 1; }
	code=0
	(cd "$tree" && KILLS=1 CALLS=6000 tests/kernel-guest.sh 1 $scene) >"$tree/log" 2>&1 || code=$?
	if [ "$code" = 1 ]; then
		killed=$((killed + 1))
		echo "red: $what: $(grep -m 1 -E 'FAILED|servers.bpf|differs' "$tree/log" | cut -c 1-120)"
	else
		alive=$((alive + 1))
		echo "ALIVE ($code): $what"
		tail -5 "$tree/log"
	fi
done < <(grep -v '^#' compute/tests/kernel/mutants.txt | grep -- "${1-}")
echo "$killed killed, $alive alive"
[ "$alive" = 0 ]
