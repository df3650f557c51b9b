#!/usr/bin/env bash
# Runs a command as root in a QEMU guest (software emulation, 2 cores) with Debian's stock kernel and cgroup v2 only.
#
#   tests/guest.sh [FILE...] -- COMMAND
#
# FILEs are put into the guest at the same absolute path, programs with the libraries they need. Exit code: COMMAND's.
# GUEST_KERNEL is another kernel than Debian's stock one, GUEST_DEVICES more devices, as words for QEMU.
# Needs: qemu-system-x86, busybox-static, cpio, and Debian's cloud kernel, which is fetched once into target/guest.
set -euo pipefail
cd "$(dirname "$0")/.."
files=()
while [ "$1" != -- ]; do
	files+=("$(realpath -s "$1")")
	shift
done
shift

store=target/guest
tests/guest-kernel.sh

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root"/{bin,proc,sys,dev,tmp,run}
cp /bin/busybox "$root/bin/"
for file in "${files[@]}"; do
	mkdir -p "$root$(dirname "$file")"
	cp -L "$file" "$root$file"
	{ ldd "$file" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
		mkdir -p "$root$(dirname "$library")"
		[ -e "$root$library" ] || cp -L "$library" "$root$library"
	done
done
printf '%q ' "$@" >"$root/command"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin:/sbin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up 2>/dev/null
echo; sleep 0.3 # opening the console drops what is still in its queue
sh /command
echo "guest exit code: $?"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >$store/initramfs.$$
trap 'rm -rf "$root" '"$store/initramfs.$$" EXIT

log=$(timeout "${GUEST_TIMEOUT:-600}" qemu-system-x86_64 -nodefaults -no-user-config -display none -serial stdio -no-reboot \
	-m 1024 -M q35 -cpu max -smp 2 -accel tcg,thread=multi \
	${GUEST_DEVICES-} -kernel ${GUEST_KERNEL:-$store/boot/vmlinuz-*} -initrd $store/initramfs.$$ \
	-append 'console=ttyS0 panic=-1 quiet mitigations=off no_timer_check cgroup_no_v1=all' </dev/null | sed -u 's/\r$//' | tee -a /dev/stderr)
code=$(sed -n 's/^guest exit code: //p' <<<"$log" | tail -1)
[ -n "$code" ] || { echo "the guest did not finish; its last lines are above" >&2; exit 4; }
exit "$code"
