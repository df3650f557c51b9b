#!/usr/bin/env bash
# The policy core as the scheduler of a kernel with sched_ext (compute/bpf/servers.bpf.c), in QEMU guests: what it decides is made
# again natively, budgets are kept by work done, and what such schedulers stumble over.
#
#   tests/kernel-guest.sh              a third of the scenes of compute/tests/kernel, on 1 and on 2 processors, another third
#                                      every day; all of them with GIUSTO_SOAK=1
#   tests/kernel-guest.sh N SCENE...   these, on N processors
#
# Time in the guests is counted in instructions, 1 ns each (-icount), so that another load of this machine changes nothing;
# QEMU_CLOCK= (empty) leaves that out. CALLS and KILLS: how many calls are compared, how many loaders killed.
# Exit code 77 where the kernel cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(uname -m)" = x86_64 ] || { echo "NOT RUN IN A GUEST: the kernel that is fetched is one for x86_64" >&2; exit 77; }
tests/kernel-fetch.sh
store=target/sched_ext
clang=$(command -v clang-19 || command -v clang || true)
[ -n "$clang" ] || { echo "NOT RUN IN A GUEST: no clang; apt-get install clang-19" >&2; exit 77; }
work=$(mktemp -d)
guests=()
trap '[ ${#guests[@]} = 0 ] || kill "${guests[@]}" 2>/dev/null; rm -rf "$work"' EXIT
"$clang" -O2 -g -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -target bpf -D__TARGET_ARCH_x86 \
	-I"/usr/include/$(gcc -print-multiarch)" -Ipolicy -c compute/bpf/servers.bpf.c -o "$work/servers.bpf.o"
# Of a static program's libraries the linker warns that some names are looked up at run time; they are not.
gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -static -Ipolicy -Icompute/bpf -Icompute/kernel -I$store/usr/include \
	-o "$work/servers" compute/tests/kernel/*.c compute/kernel/loader.c $store/usr/lib/x86_64-linux-gnu/libbpf.a \
	-lelf -lz -lm 2>"$work/warnings" ||
	{ cat "$work/warnings" >&2; exit 1; }

# guest CPUS SCENE...: plays scenes; the exit code is theirs.
guest() {
	local root=$work/root.$1 cpus=$1 code
	shift
	mkdir -p "$root"/{bin,proc,sys,dev}
	cp /bin/busybox "$root/bin/"
	cp "$work/servers" "$work/servers.bpf.o" "$root/"
	cat >"$root/init" <<-INIT
		#!/bin/busybox sh
		/bin/busybox --install -s /bin
		mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
		echo; sleep 0.3 # opening the console drops what is still in its queue
		CALLS=${CALLS-} KILLS=${KILLS-} /servers /servers.bpf.o $*
		code=\$?
		[ \$code = 0 ] || dmesg | grep -A 5 -i sched_ext
		echo "guest exit code: \$code"
		poweroff -f
	INIT
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$root.cpio"
	# shellcheck disable=SC2086 -- options are words
	timeout "${GUEST_TIMEOUT:-1200}" qemu-system-x86_64 -nodefaults -no-user-config -display none -serial stdio \
		-no-reboot -m 1024 -M q35 -cpu max -smp "$cpus" -accel tcg ${QEMU_CLOCK--icount shift=0,sleep=off} -seed 42 \
		-rtc base=2026-01-01T00:00:00,clock=vm -kernel $store/usr/lib/modules/*/vmlinuz -initrd "$root.cpio" \
		-append 'console=ttyS0 panic=-1 quiet mitigations=off tsc=reliable nokaslr' </dev/null |
		sed -u 's/\r$//' >"$root.log"
	code=$(sed -n 's/^guest exit code: //p' "$root.log")
	return "${code:-4}"
}

failed=0
if [ $# -gt 0 ]; then
	guest "$@" || failed=$?
else
	# What is measured on one processor, that no other one's instructions count as time; both guests at once.
	# Of what goes together, thirds that take as long as one another.
	mapfile -t one < <(tests/today.sh 3 'shares deadline' calls 'criticality alone twins')
	mapfile -t two < <(tests/today.sh 3 'comings many' 'fair_first starved hotplug' killed)
	guest 1 "${one[*]}" &
	guests+=($!)
	guest 2 "${two[*]}" &
	guests+=($!)
	for one in "${guests[@]}"; do wait "$one" || { code=$? && ((failed != 0 && failed != 77)) || failed=$code; }; done
	guests=()
fi
cat "$work"/root.*.log
passed=$(cat "$work"/root.*.log | grep -c '^passed: ' || true)
echo "kernel: $passed passed, $((failed != 0)) failed"
[ "$failed" = 77 ] && exit 77
[ "$failed" = 0 ] || exit 1
