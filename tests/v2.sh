#!/usr/bin/env bash
# The tests that change a machine, in a guest with cgroup v2 and Debian's stock kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(cargo test --locked --quiet -p giusto-compute --test real --no-run --message-format=json |
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
tests/guest.sh "$binary" /usr/bin/chrt /usr/bin/redis-server /usr/bin/setpriv -- "$binary" "$@"
