#!/usr/bin/env bash
# The package under a real systemd: a QEMU guest (software emulation, 2 cores) with Debian 12, its stock kernel and cgroup
# v2. Installs it, writes a site, starts, reloads, kills, restarts, stops and purges it: tests/package-guest-inside.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/debian-guest.sh tests/package-guest-inside.sh "$(packaging/deb.sh)" /giusto.deb
