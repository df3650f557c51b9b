#!/usr/bin/env bash
# The image of packaging/zookeeper-image.sh: unpacked and run by runc as its own user, read-only but for its data, three servers
# of it elect and serve. Exit 77: this machine cannot make or run it.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in mmdebstrap umoci runc python3; do
	command -v $tool >/dev/null || {
		echo "image: $tool is missing: apt-get install mmdebstrap umoci runc" >&2
		exit 77
	}
done
[ "$(id -u)" = 0 ] || {
	echo "image: made and run by root" >&2
	exit 77
}
image=$(packaging/zookeeper-image.sh | tail -n 1)
exec /usr/bin/python3 coordination/harness/test_image.py "$image"
