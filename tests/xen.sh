#!/usr/bin/env bash
# Real Xen with RTDS: what 'giusto export xen' writes is applied in the control domain of a guest, and the shares of domains
# that spin are as planned, by the hypervisor's accounts; another plan, kill -9, what is in the way, and all as it was found.
# Without RTDS it is refused. About two minutes; needs QEMU and Debian's mirror (else 77), and some minutes more for the
# hypervisor, once.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
cargo build --release --workspace --locked --quiet --bin giusto
giusto=${CARGO_TARGET_DIR:-target}/release/giusto
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for site in site after; do
	"$giusto" export xen "tests/xen/$site.yaml" --out "$out/$site" >/dev/null
done
tests/xen-guest.sh "$out/site" "$out/after" tests/xen/inside.sh -- sh /work/inside.sh
code=0
XEN_OPTIONS=sched=credit2 tests/xen-guest.sh "$out/site" -- sh /work/site/x1/apply.sh || code=$?
[ $code = 3 ] || { echo "FAILED: without RTDS it ends with $code, not 3" && exit 1; }
echo "ok: without RTDS it is refused"
