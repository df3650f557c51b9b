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
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# As sched_ext comes and goes the kernel patches its own code. Under QEMU's threads another core may run the breakpoint that
# stands there meanwhile as if no handler were there: the guest dies of it, whatever giusto does.
for attempt in 1 2 3; do
	code=0
	GUEST_KERNEL=$(echo target/sched_ext/usr/lib/modules/*/vmlinuz) tests/guest.sh "${files[@]}" -- \
		sh "$PWD/tests/backend-kernel-inside.sh" "$PWD/target/release/giusto" "$@" 2>&1 | cat >"$log" || code=$?
	cat "$log"
	grep -q 'Oops: int3' "$log" || exit $code
	echo "the guest's kernel died of a breakpoint of its own, in QEMU, attempt $attempt of 3"
done
echo "NOT RUN TO ITS END: QEMU lets this kernel die while it patches itself" >&2
exit 77
