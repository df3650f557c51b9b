#!/usr/bin/env bash
# The first commands, and started services, under cgroup v2 alone, where a process has one group for everything: in a guest with
# Debian's stock kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
giusto=target/release/giusto tests=$PWD/tests
tests/guest.sh $giusto /usr/bin/chrt /usr/bin/setpriv tests/{first-guest-inside,services-guest-inside,inside}.sh -- \
	sh -c "sh $tests/first-guest-inside.sh $PWD/$giusto && sh $tests/services-guest-inside.sh $PWD/$giusto"
