#!/usr/bin/env bash
# The package: built twice to the same bytes, installed in a minimal Debian 12, looked at, removed, purged. Nothing is
# enforced here: the root has no cgroups. tests/package-guest.sh starts it for real.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/root.sh || exit $?

deb=$(packaging/deb.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$deb" "$work/first.deb"
(
	umask 077
	TZ=Asia/Tokyo LC_ALL=C.UTF-8 packaging/deb.sh >/dev/null
)
cmp "$work/first.deb" "$deb"
echo "ok: two builds of $deb have the same bytes"

export DESTDIR=$work/dest PREFIX=/opt/giusto
packaging/install.sh install
grep -q '^ExecStart=/opt/giusto/bin/giusto ' "$DESTDIR/opt/giusto/lib/systemd/system/giusto.service"
"$DESTDIR/opt/giusto/bin/giusto" check "$DESTDIR/opt/giusto/share/doc/giusto/examples/walk.yaml" >/dev/null
(
	cd "$DESTDIR/opt/giusto/share/doc/giusto"
	find . -name '*.md' | while read -r page; do
		{ grep -oE '\]\([^)]+\)' "$page" || true; } | sed 's/^](//; s/)$//' | while read -r link; do
			case $link in http* | \#*) continue ;; esac
			[ -e "$(dirname "$page")/${link%%#*}" ] || { echo "$page: a link to $link, which is not installed" >&2; exit 1; }
		done || exit 1
	done
)
echo "ok: the links of what is installed lead somewhere"
packaging/install.sh uninstall
left=$(find "$DESTDIR" ! -type d)
[ -z "$left" ] || { echo "make uninstall leaves $left" >&2; exit 1; }
echo "ok: make install and uninstall under a prefix"

# A layer over the cached root, in memory and in mounts of its own: all of it vanishes with the shell.
unshare -m --propagation private bash -euo pipefail -s "$deb" <<'INSIDE'
layer=target/package/layer
mkdir -p $layer
mount -t tmpfs tmpfs $layer
mkdir $layer/upper $layer/work $layer/root
mount -t overlay overlay -o lowerdir=target/package/root/tree,upperdir=$layer/upper,workdir=$layer/work $layer/root || {
	echo "NOT INSTALLED: this kernel has no overlay file system" >&2
	exit 77
}
mount -t proc proc $layer/root/proc
mount -t sysfs -o ro sys $layer/root/sys # the cores; without cgroups
cp "$1" $layer/root/tmp/giusto.deb
cp tests/package-inside.sh $layer/root/tmp/
printf '#!/bin/sh\nexit 101\n' >$layer/root/usr/sbin/policy-rc.d
chmod +x $layer/root/usr/sbin/policy-rc.d
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	chroot $layer/root bash /tmp/package-inside.sh
INSIDE
