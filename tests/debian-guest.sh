#!/usr/bin/env bash
# Runs a script as root under a real systemd: a QEMU guest (software emulation) with Debian 12, its stock kernel and cgroup v2.
#
#   tests/debian-guest.sh INSIDE [FILE DESTINATION]...
#
# FILEs, or folders, are put into the guest; INSIDE ends with a line 'guest exit code: N', which is the exit code. GUEST_CORES: 2.
# Exit 77 where Debian cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/root.sh || exit $?
# The kernel and QEMU are those of the other guests.
ls target/guest/boot/vmlinuz-* >/dev/null 2>&1 || tests/guest-kernel.sh || exit $?

image=target/package/guest.$$.img
trap 'rm -f $image' EXIT
unshare -m --propagation private bash -euo pipefail -s $image "$@" <<'LAYER'
image=$1 inside=$2
shift 2
layer=target/package/layer
mkdir -p $layer
mount -t tmpfs tmpfs $layer
mkdir $layer/upper $layer/work $layer/root
mount -t overlay overlay -o lowerdir=target/package/root/tree,upperdir=$layer/upper,workdir=$layer/work $layer/root || exit 77
while [ $# -gt 0 ]; do
	mkdir -p "$(dirname "$layer/root/$2")"
	cp -r "$1" "$layer/root/$2"
	shift 2
done
install -m 755 "$inside" $layer/root/inside
mke2fs -q -t ext4 -d $layer/root "$image" 1G
LAYER

log=$(timeout "${GUEST_TIMEOUT:-600}" qemu-system-x86_64 -nodefaults -no-user-config -display none -serial stdio -no-reboot \
	-m 1024 -M q35 -cpu max -smp "${GUEST_CORES:-2}" -accel tcg,thread=multi -kernel target/guest/boot/vmlinuz-* \
	-drive file=$image,format=raw,if=none,id=disk,cache=unsafe -device nvme,drive=disk,serial=1 \
	-append "root=/dev/nvme0n1 rw console=ttyS0 panic=-1 quiet mitigations=off no_timer_check init=/lib/systemd/systemd \
systemd.show_status=0 systemd.run=/inside systemd.run_success_action=poweroff systemd.run_failure_action=poweroff" \
	</dev/null | sed -u 's/\r$//' | tee -a /dev/stderr)
code=$(sed -n 's/^guest exit code: //p' <<<"$log" | tail -1)
[ -n "$code" ] || { echo "the guest did not finish; its last lines are above" >&2; exit 4; }
exit "$code"
