#!/usr/bin/env bash
# The network room's real tests in a guest with Debian's stock kernel 6.1, which names no thread by netlink: they are found by
# their names.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(cargo test --release --locked --quiet --workspace --test real --no-run --message-format=json |
	grep '"manifest_path":"[^"]*/network/Cargo.toml"' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
tests/guest-kernel.sh
modules=()
for module in llc/llc 802/{stp,garp,mrp} bridge/bridge 8021q/8021q tls/tls ipv4/udp_tunnel ipv6/ip6_udp_tunnel; do
	modules+=("$(echo target/guest/lib/modules/*/kernel/net/$module.ko)")
done
modules+=(target/guest/lib/modules/*/kernel/net/sched/{sch_ingress,cls_bpf,cls_u32,sch_fq}.ko)
net=(target/guest/lib/modules/*/kernel/drivers/net)
modules+=("${net[0]}"/{veth,tun,macvlan,tap,macvtap,ipvlan/ipvlan,bonding/bonding,vxlan/vxlan}.ko)
load=$(printf 'insmod %q; ' "${modules[@]/#/$PWD/}")
# What depends on the kernel most, half of it today and the other half tomorrow; an emulated processor is ten times slower. All
# of it: tests/packets-guest.sh '' (an empty word).
if [ $# = 0 ]; then
	few=GIUSTO_FEW=1
	mapfile -t parts < <(tests/today.sh 2 moved 'kinds without threads' 'tap with NAPI' bucket 'waiting for tokens' \
		'raw sockets do not bypass the bucket' 'VLANs at an uplink' 'a filter of others')
	set -- "${parts[@]}"
fi
[ -n "$1" ] || shift
command="$load ${few-} $(printf '%q ' "$binary" "$@")"
programs=(/usr/sbin/{ip,tc,ethtool} /usr/bin/{chrt,taskset,ps})
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests/guest.sh "$binary" "${modules[@]}" "${programs[@]}" -- sh -c "$command" 2>&1 | tee "$log"
grep -q '^real: [1-9][0-9]* passed, 0 failed, 0 skipped$' "$log" || {
	echo "parts failed in the guest, or did not run; see its lines above" >&2
	exit 1
}
