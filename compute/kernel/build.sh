#!/usr/bin/env bash
# Builds giusto-kernel, the loader of the scheduler in the kernel: compute/kernel/build.sh [OUT]. With this system's libbpf, from
# 1.4 on, or the static one in target/sched_ext, which tests/kernel-fetch.sh puts there.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-target/release/giusto-kernel}
store=target/sched_ext/usr
clang=$(command -v clang-19 || command -v clang || true)
[ -n "$clang" ] || { echo "clang is missing: apt-get install clang-19" >&2; exit 3; }
if pkg-config --atleast-version=1.4 libbpf 2>/dev/null; then
	read -ra libbpf <<<"$(pkg-config --cflags --libs libbpf)"
elif [ -e $store/include/bpf/libbpf.h ]; then
	libbpf=(-static -I$store/include "$store/lib/$(gcc -print-multiarch)/libbpf.a" -lelf -lz)
else
	echo "libbpf 1.4 or later is missing: apt-get install libbpf-dev (Debian 13 and later), or tests/kernel-fetch.sh" >&2
	exit 3
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$clang" -O2 -g -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -target bpf -D__TARGET_ARCH_x86 \
	-I"/usr/include/$(gcc -print-multiarch)" -Ipolicy -c compute/bpf/servers.bpf.c -o "$work/servers.bpf.o"
(cd "$work" && ld -r -b binary -z noexecstack -o object.o servers.bpf.o)
mkdir -p "$(dirname "$out")"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -Ipolicy -Icompute/bpf -o "$work/giusto-kernel" compute/kernel/*.c "$work/object.o" \
	"${libbpf[@]}" 2>"$work/warnings" || { cat "$work/warnings" >&2; exit 1; }
mv "$work/giusto-kernel" "$out"
