#!/usr/bin/env bash
# The first commands, started services, and containers of runc that are adopted, under cgroup v2 alone, where a process has one
# group for everything: in a guest with Debian's stock kernel.
#
#   tests/services-guest.sh [first-guest|services-guest|containers-guest]...
set -euo pipefail
cd "$(dirname "$0")/.."
giusto=target/release/giusto tests=$PWD/tests parts=("$@")
(($#)) || parts=(first-guest services-guest containers-guest)
for part in "${parts[@]}"; do
	[ -e "tests/$part-inside.sh" ] || {
		echo "there is no part $part; expected some of first-guest services-guest containers-guest" >&2
		exit 2
	}
done
export DEBIAN_FRONTEND=noninteractive
[ -x /usr/sbin/runc ] || { apt-get update -qq && apt-get install -y -qq --no-install-recommends runc; } >/dev/null || {
	echo "runc cannot be installed from this machine's package mirror" >&2
	exit 77
}
bundle=$(mktemp -d)
trap 'rm -rf "$bundle"' EXIT
# A container that never rests, with 20 tasks and 64 MB at most. Its mounts are those that runc makes by itself, but for v2's
# tree.
(cd "$bundle" && runc spec && /usr/bin/python3 - <<'SPEC'
import json
from pathlib import Path
file = Path("config.json")
spec = json.loads(file.read_text())
spec["process"].update(terminal=False, args=["/bin/sh", "-c", "while :; do :; done"], rlimits=[])
spec["root"]["readonly"] = False
spec["mounts"] = [mount for mount in spec["mounts"] if mount["type"] in ("proc", "tmpfs", "devpts")]
spec["linux"].update(cgroupsPath="/search", resources={"memory": {"limit": 64 << 20}, "pids": {"limit": 20}})
spec["linux"]["namespaces"] = [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]
file.write_text(json.dumps(spec))
SPEC
)
each=true
for part in "${parts[@]}"; do each+=" && sh $tests/$part-inside.sh $PWD/$giusto $bundle"; done
tests/guest.sh $giusto /usr/bin/chrt /usr/bin/setpriv /usr/sbin/runc "$bundle/config.json" \
	tests/{first,services,containers}-guest-inside.sh tests/inside.sh -- sh -c "$each"
