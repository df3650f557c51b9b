#!/usr/bin/env bash
# `giusto run --backend kernel` in a guest whose kernel has sched_ext. Needs target/release/giusto. Exit code 77 where that kernel
# cannot be had.
#   tests/backend-kernel.sh            budgets, restarts, losses, the way back
#   tests/backend-kernel.sh compare    the same services under manager, deadline and kernel: shares and what giusto itself takes
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(uname -m)" = x86_64 ] || { echo "NOT RUN IN A GUEST: the kernel that is fetched is one for x86_64" >&2; exit 77; }
tests/kernel-fetch.sh
compute/kernel/build.sh || exit $(($? == 3 ? 77 : 1))
files=(target/release/giusto{,-kernel} /usr/bin/{chrt,setpriv} tests/{backend-kernel-inside,inside}.sh)
GUEST_KERNEL=$(echo target/sched_ext/usr/lib/modules/*/vmlinuz) tests/guest.sh "${files[@]}" -- \
	sh "$PWD/tests/backend-kernel-inside.sh" "$PWD/target/release/giusto" "$@"
