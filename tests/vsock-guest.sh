#!/usr/bin/env bash
# A mode change over vsock in a guest with Debian's kernel, whose loopback stands for the way between a virtual machine and its host.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
cargo build --release --locked --quiet --workspace --bin giusto
tests/guest-kernel.sh
programs=(target/release/giusto /usr/bin/{chrt,setpriv})
modules=(target/guest/lib/modules/*/kernel/net/vmw_vsock/{vsock,vmw_vsock_virtio_transport_common,vsock_loopback}.ko)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 32 /dev/urandom >"$work/key"
chmod 600 "$work/key"
cat >"$work/agent.yaml" <<YAML
giusto-agent: 1
service: flight
manager: vsock:7400
key: $work/key
tasks:
  control: {start: [sh, -c, 'while :; do :; done']}
  vision: {start: [sh, -c, 'while :; do sleep 1; done']}
modes:
  cruise: [control]
  land: [control, vision]
YAML
cat >"$work/site.yaml" <<YAML
giusto: 1
hosts: {guest: {cores: 1}}
services:
  flight:
    start: [$PWD/target/release/giusto, agent, $work/agent.yaml]
    agent: {key: $work/key, cost: 5ms}
    promise: supply
    modes: {cruise: {supply: 20ms/100ms}, land: {supply: 40ms/100ms}}
modes:
  normal: {flight: cruise}
  emergency: {flight: land}
mode-changes: {timeout: 5s, spacing: 1s, listen: ["vsock:7400"]}
YAML
cat >"$work/play" <<PLAY
for module in ${modules[*]/#/$PWD/}; do insmod \$module || exit 1; done
giusto=$PWD/target/release/giusto
\$giusto run $work/site.yaml --host guest --out /tmp/out &
for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do \$giusto mode 2>/dev/null | grep -q connected && break; sleep 1; done
\$giusto mode emergency --wait && \$giusto mode | grep -q '^mode: emergency' && echo "vsock: changed"
kill -INT \$!
wait \$!
PLAY
tests/guest.sh "${programs[@]}" "${modules[@]}" "$work"/{key,agent.yaml,site.yaml,play} -- sh "$work/play" 2>&1 | tee "$work/log"
grep -q '^vsock: changed' "$work/log"
