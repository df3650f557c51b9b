#!/usr/bin/env bash
# The network room's real tests in a guest with Debian 12's stock kernel 6.1, which names no thread by netlink: they are found by
# their names. Two virtio cards with four queues each are connected with each other.
#   tests/packets-guest.sh [PART...]     half of what depends on the kernel most, the other half tomorrow; or these parts, or with
#                                        an empty word all of them
# GUEST_DEBIAN=13: Debian 13's kernel 6.12, which names them, and has tcx and netkit.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(cargo test --release --locked --quiet --workspace --test real --no-run --message-format=json |
	grep '"manifest_path":"[^"]*/network/Cargo.toml"' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
tests/guest-kernel.sh
store=target/guest
if [ "${GUEST_DEBIAN-12}" = 13 ]; then
	tests/debian13-kernel.sh
	store=target/guest13
fi
modules=()
for name in virtio_ring virtio virtio_{pci_legacy_dev,pci_modern_dev,pci} failover net_failover virtio_net \
	llc stp garp mrp bridge 8021q tls udp_tunnel ip6_udp_tunnel sch_ingress cls_bpf cls_u32 sch_fq \
	veth tun macvlan tap macvtap ipvlan bonding vxlan; do
	# What is not found is a part of that kernel.
	mapfile -t -O ${#modules[@]} modules < <(find $store/{,usr/}lib/modules -name "$name.ko" 2>/dev/null)
done
load=$(printf 'insmod %q; ' "${modules[@]/#/$PWD/}")
# An emulated processor is ten times slower.
if [ $# = 0 ]; then
	few=GIUSTO_FEW=1
	mapfile -t parts < <(tests/today.sh 2 moved 'kinds without threads' 'tap with NAPI' bucket 'waiting for tokens' \
		'raw sockets do not bypass the bucket' 'VLANs at an uplink' 'a filter of others' 'a card with several queues')
	set -- "${parts[@]}"
fi
[ -n "$1" ] || shift
command="$load GIUSTO_CARDS='eth0 eth1' ${few-} $(printf '%q ' "$binary" "$@")"
programs=(/usr/sbin/{ip,tc,ethtool} /usr/bin/{chrt,taskset,ps})
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The bridge between the cards is in a network namespace of QEMU's own, and goes with it.
cards= wires='ip link add b0 type bridge && ip link set b0 up'
for nth in 0 1; do
	wires+=" && ip tuntap add t$nth mode tap multi_queue && ip link set t$nth master b0 up"
	cards+=" -netdev tap,id=n$nth,ifname=t$nth,script=no,downscript=no,queues=4"
	cards+=" -device virtio-net-pci,netdev=n$nth,mq=on,vectors=10,mac=02:00:00:00:79:0$nth"
done
GUEST_DEVICES=$cards GUEST_KERNEL=$(echo $store/boot/vmlinuz-*) unshare -n bash -c "$wires && exec \"\$@\"" - \
	tests/guest.sh "$binary" "${modules[@]}" "${programs[@]}" -- sh -c "$command" 2>&1 | tee "$log"
grep -q '^real: [1-9][0-9]* passed, 0 failed, 0 skipped$' "$log" || {
	echo "parts failed in the guest, or did not run; see its lines above" >&2
	exit 1
}
