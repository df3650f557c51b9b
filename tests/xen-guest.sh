#!/usr/bin/env bash
# Runs a command in the control domain of Xen with its scheduler RTDS, in a QEMU guest with one emulated processor whose time is
# counted in instructions, so that shares do not depend on this machine's load.
#
#   tests/xen-guest.sh [FILE...] -- COMMAND
#
# FILEs are put into the control domain at /work, and /work/spin, a guest that only takes processor time. Exit code: COMMAND's; 77
# where Xen or QEMU cannot be had. XEN_OPTIONS are more words for the hypervisor's command line.
set -euo pipefail
cd "$(dirname "$0")/.."
files=()
while [ "$1" != -- ]; do
	files+=("$(realpath -s "$1")")
	shift
done
shift
tests/xen-fetch.sh
store=$PWD/${CARGO_TARGET_DIR:-target}/xen
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,proc,sys,dev,run,tmp,var/log/xen,var/lib/xen,lib,work,etc/xen}
ln -s ../run "$root/var/run"
cp /bin/busybox "$root/bin/"
bin=$store/root/usr/lib/xen-4.17/bin libraries=$store/root/usr/lib/x86_64-linux-gnu
cp "$bin"/{xl,xenstored,xenconsoled,xen-init-dom0,libxl-save-helper} "$root/bin/"
# Debian's tools look for one another there.
mkdir -p "$root/usr/lib/xen-4.17" && ln -s /bin "$root/usr/lib/xen-4.17/bin"
needed() {
	LD_LIBRARY_PATH=$libraries ldd "$@" 2>/dev/null | grep -o '/[^ ]*' | grep -v ':$' | sort -u
}
# libgcc_s is loaded when a thread is cancelled.
programs=("$root"/bin/x* "$root/bin/libxl-save-helper" "$libraries"/libxenlight.so.4.17)
for library in $(needed "${programs[@]}") /lib/x86_64-linux-gnu/libgcc_s.so.1; do
	cp -L "$library" "$root/lib/"
done
mkdir -p "$root/lib64" && cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
for module in xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs/xenfs; do
	cp "$store"/kernel/lib/modules/*/kernel/drivers/xen/$module.ko "$root/lib/"
done
gcc -nostdlib -static -Wl,-Ttext=0x100000,--build-id=none -o "$root/work/spin" tests/xen/spin.S
for file in ${files[@]+"${files[@]}"}; do
	cp -rL "$file" "$root/work/"
done
printf '%q ' "$@" >"$root/command"
: >"$root/etc/xen/xl.conf"
cp tests/xen/init "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$root.cpio"
trap 'rm -rf "$root" "$root.cpio"' EXIT
# -smap: QEMU 7.2 takes the guest's own stack for the supervisor's at the end of an interrupt.
log=$(timeout "${XEN_TIMEOUT:-900}" qemu-system-x86_64 -accel tcg,thread=single -icount shift=2,sleep=off -smp 1 -M q35 \
	-cpu max,-smap -m 1024 -nodefaults -no-user-config -display none -serial stdio -no-reboot -kernel "$store/hypervisor" \
	-append "console=com1 com1=115200,8n1 loglvl=warning guest_loglvl=warning dom0_mem=448M,max:448M dom0_max_vcpus=1 \
sched=rtds ${XEN_OPTIONS:-}" -initrd "$store/vmlinux console=hvc0 quiet mitigations=off ,$root.cpio" </dev/null |
	sed -u 's/\r*$//' | tee -a /dev/stderr)
code=$(sed -n 's/^guest exit code: //p' <<<"$log" | tail -1)
[ -n "$code" ] || { echo "the guest did not finish; its last lines are above" >&2; exit 4; }
exit "$code"
