#!/usr/bin/env bash
# What guests of tests need: QEMU, busybox and cpio as packages, and Debian's cloud kernel in target/guest, fetched once.
# Exit code 77 where that cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
store=target/guest
# The kernel that the tests were made with. A mirror keeps the newest only: then that one, which apt checks as well.
pinned=linux-image-6.1.0-56-cloud-amd64 version=6.1.192-2
sum=e7d02b943971edcb8790e256c02cfab3bca6c3d37c1bf25392a57c71300615ee

mkdir -p $store
missing=()
[ -x /usr/bin/qemu-system-x86_64 ] || missing+=(qemu-system-x86)
[ -x /bin/busybox ] || missing+=(busybox-static)
[ -x /usr/bin/cpio ] || missing+=(cpio)
cannot() {
	echo "NOT RUN IN A GUEST: cannot fetch $* from this machine's package mirror; see what apt-get says above" >&2
	exit 77
}
if [ ${#missing[@]} -gt 0 ]; then
	apt-get update -qq || cannot "${missing[@]}"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		cannot "${missing[@]}"
fi
if ! ls $store/boot/vmlinuz-* >/dev/null 2>&1; then
	newest() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-/ {print $2; exit}'; }
	[ -n "$(newest)" ] || apt-get update -qq || cannot "$pinned"
	cd $store
	if apt-get download -qq "$pinned=$version" 2>/dev/null; then
		echo "$sum  ${pinned}_${version}_amd64.deb" | sha256sum --check --quiet >&2
	else
		echo "the mirror has $(newest), not $pinned $version, with which the tests were made" >&2
		apt-get download -qq "$(newest)" || cannot "$(newest)"
	fi
	dpkg -x linux-image-*.deb .
	rm linux-image-*.deb
fi
