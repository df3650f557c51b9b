#!/usr/bin/env bash
# Installs what Giusto needs on Debian 12. Prints what it will install; asks only on an interactive terminal. Nothing is
# touched when everything is there already.
#   scripts/setup.sh        for building, the first run and all tests
#   scripts/setup.sh run    for building and the first run alone
set -euo pipefail

# package        a file that proves it is there
needs='
redis-server     /usr/bin/redis-server
clang-19         /usr/bin/clang-19
libbpf-dev       /usr/include/bpf/bpf_helpers.h
gcc              /usr/bin/gcc
'
tests='
memcached        /usr/bin/memcached
clang-format-19  /usr/bin/clang-format-19
python3          /usr/bin/python3
python3-jsonschema /usr/lib/python3/dist-packages/jsonschema/__init__.py
rt-tests         /usr/bin/cyclictest
util-linux       /usr/bin/setpriv
dpkg-dev         /usr/bin/dpkg-gencontrol
openjdk-17-jdk-headless /usr/bin/javac
maven            /usr/bin/mvn
python3-venv     /usr/lib/python3.11/ensurepip/__init__.py
openssl          /usr/bin/openssl
etcd-server      /usr/bin/etcd
mmdebstrap       /usr/bin/mmdebstrap
umoci            /usr/bin/umoci
runc             /usr/sbin/runc
nodejs           /usr/bin/node
npm              /usr/bin/npm
iproute2         /usr/sbin/tc
ethtool          /usr/sbin/ethtool
nftables         /usr/sbin/nft
iputils-ping     /usr/bin/ping
iperf3           /usr/bin/iperf3
'
[ "${1:-}" = run ] || needs+=$tests
missing=()
while read -r package proof; do
	[ -z "$package" ] || [ -e "$proof" ] || missing+=("$package")
done <<<"$needs"

if ! command -v cargo >/dev/null; then
	echo "cargo is missing: install Rust 1.87 or later (rustup.rs), then run 'make setup' again" >&2
	exit 3
fi
[ "${1:-}" = run ] || command -v go >/dev/null || echo "go is missing: messaging is not built or tested; install Go 1.23 or later (go.dev/dl)" >&2
[ "${1:-}" = run ] || rustup component list --installed 2>/dev/null | grep -q clippy || rustup component add clippy rustfmt 2>/dev/null || true

if [ ${#missing[@]} -gt 0 ]; then
	echo "setup will install these Debian packages: ${missing[*]}"
	if [ "$(id -u)" != 0 ]; then
		echo "that needs root: sudo apt-get install ${missing[*]}" >&2
		exit 3
	fi
	if [ -t 0 ] && [ -t 1 ]; then
		read -rp "go on? [Y/n] " answer
		case "$answer" in [nN]*) exit 3 ;; esac
	fi
	# A fresh redis-server package would start a server of its own; Giusto starts its own.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } || {
		echo "setup: cannot install ${missing[*]}: see above, or install them by hand" >&2
		exit 3
	}
fi
echo "setup: everything is there"
