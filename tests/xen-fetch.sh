#!/usr/bin/env bash
# What a guest with Xen needs, in target/xen, fetched and built once: the hypervisor with its scheduler RTDS, which Debian's
# package lacks, from Debian's source package (some minutes); Debian's tools and kernel for the control domain.
# Exit code 77 where that cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
store=${CARGO_TARGET_DIR:-target}/xen
# The tools of another release of 4.17 go with it: they have the same interface.
source=xen=4.17.5+72-g01140da4e8-1 image=linux-image-6.1.0-56-amd64
[ ! -e "$store/ready" ] || exit 0
cannot() {
	echo "NOT RUN UNDER XEN: cannot fetch $* from this machine's package mirror; see what apt-get says above" >&2
	exit 77
}
[ "$(uname -m)" = x86_64 ] || { echo "NOT RUN UNDER XEN: this is no x86_64 machine" >&2 && exit 77; }
tests/guest-kernel.sh
rm -rf "$store"
mkdir -p "$store"/{debs,root,kernel,lists/partial}
install=()
for tool in flex bison m4 gcc make python3 xz; do
	[ -n "$(command -v $tool)" ] || install+=("${tool/#xz/xz-utils}")
done
if [ ${#install[@]} -gt 0 ]; then
	apt-get update -qq || cannot "${install[@]}"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${install[@]}" >/dev/null ||
		cannot "${install[@]}"
fi
(
	cd "$store/debs"
	tools=(xen-utils-4.17 xen-utils-common xenstore-utils libxenmisc4.17 libxencall1 libxendevicemodel1 libxenevtchn1
		libxenforeignmemory1 libxengnttab1 libxenhypfs1 libxenstore4 libxentoolcore1 libxentoollog1 libyajl2)
	apt-get download -qq "${tools[@]}" "$image" || { apt-get update -qq && apt-get download -qq "${tools[@]}" "$image"; } ||
		cannot "${tools[@]}" "$image"
	for deb in *.deb; do
		[ "${deb#linux}" = "$deb" ] && dpkg -x "$deb" ../root || dpkg -x "$deb" ../kernel
	done
)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -1)
echo "deb-src [signed-by=$keyring] ${mirror:-none} bookworm main" >"$store/sources.list"
sources=(-o "Dir::Etc::sourcelist=$PWD/$store/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/$store/lists")
(
	cd "$store"
	apt-get "${sources[@]}" update -qq && apt-get "${sources[@]}" source -qq --download-only $source || cannot $source
	tar xf xen_*.orig.tar.xz
	cd xen-4.17*/
	# RTDS counts as experimental, which CONFIG_UNSUPPORTED is for.
	printf '%s\n' CONFIG_EXPERT=y CONFIG_UNSUPPORTED=y CONFIG_SCHED_RTDS=y '# CONFIG_DEBUG is not set' \
		'# CONFIG_LIVEPATCH is not set' '# CONFIG_XSM is not set' >xen/.config
	make -s -C xen olddefconfig XEN_CONFIG_EXPERT=y >../build.log 2>&1 && make -s -C xen -j2 build >>../build.log 2>&1 || {
		tail -20 ../build.log >&2
		exit 1
	}
	cp xen/xen ../hypervisor
	cp xen/common/sched/rt.c ../rt.c
)
# Xen takes a kernel that is packed as well, and is 16 s of an emulated processor about it.
python3 - "$store"/kernel/boot/vmlinuz-* "$store/vmlinux" <<'PYTHON'
import lzma
import sys

data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(lzma.LZMADecompressor().decompress(data[data.index(b"\xfd7zXZ\x00"):]))
PYTHON
rm -rf "$store"/xen-4.17* "$store"/xen_* "$store/debs" "$store/lists"
touch "$store/ready"
