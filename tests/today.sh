#!/usr/bin/env bash
# A part of a list, another one every day: prints every N-th word. GIUSTO_SOAK=1: all of them; GIUSTO_DAY=NUMBER: that day's.
#   tests/today.sh N WORD...
set -euo pipefail
parts=$1
shift
[ -z "${GIUSTO_SOAK-}" ] || parts=1
day=${GIUSTO_DAY:-$(($(date +%s) / 86400))}
nth=0
for word in "$@"; do
	[ $(((nth + day) % parts)) != 0 ] || printf '%s\n' "$word"
	nth=$((nth + 1))
done
