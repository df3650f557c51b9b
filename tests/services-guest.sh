#!/usr/bin/env bash
# The first commands, and started services, under cgroup v2 alone, where a process has one group for everything: in a guest with
# Debian's stock kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/guest.sh target/release/giusto /usr/bin/chrt /usr/bin/setpriv tests/{first-guest-inside,services-guest-inside,inside}.sh -- \
	sh -c "sh $PWD/tests/first-guest-inside.sh $PWD/target/release/giusto && sh $PWD/tests/services-guest-inside.sh $PWD/target/release/giusto"
