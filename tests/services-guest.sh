#!/usr/bin/env bash
# Started services under cgroup v2 alone, where a process has one group for everything: in a guest with Debian's stock kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/guest.sh target/release/giusto /usr/bin/chrt tests/services-guest-inside.sh -- \
	sh "$PWD/tests/services-guest-inside.sh" "$PWD/target/release/giusto"
