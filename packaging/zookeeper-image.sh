#!/usr/bin/env bash
# Builds target/giusto-zookeeper_VERSION.oci, an OCI layout with an image of the package of zookeeper.sh on Debian: without a
# registry, and without a daemon. Needs root, mmdebstrap and umoci. Load it with 'skopeo copy
# oci:target/giusto-zookeeper_VERSION.oci:VERSION ...'.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
for tool in mmdebstrap umoci; do
	command -v $tool >/dev/null || {
		echo "$tool is missing: apt-get install mmdebstrap umoci" >&2
		exit 3
	}
done
[ "$(id -u)" = 0 ] || {
	echo "an image of Debian is made by root: sudo $0" >&2
	exit 3
}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1767225600} # as in coordination/pom.xml
deb=$(packaging/zookeeper.sh)
version=$(sed -n 's/.*<version>\(.*\)<\/version>.*/\1/p' coordination/pom.xml | head -n 1)
image=target/giusto-zookeeper_$version.oci
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Java's package links man pages, whose folder the smallest Debian lacks. The classes of recoveries are linked here and not at
# the first start; the server runs as a user that owns nothing but its data.
mmdebstrap --quiet --variant=essential --include=openjdk-17-jre-headless,adduser \
	--essential-hook='mkdir -p "$1/usr/share/man/man1"' \
	--customize-hook="cp $deb \"\$1/tmp/own.deb\"" \
	--customize-hook='chroot "$1" dpkg -i /tmp/own.deb && rm "$1/tmp/own.deb"' \
	--customize-hook='chroot "$1" giusto-zookeeper archive' \
	--customize-hook='install -d -o 65532 -g 65532 "$1/var/lib/zookeeper" "$1/etc/giusto"' \
	bookworm "$work/tree.tar" $(ls /etc/apt/sources.list.d/debian.sources 2>/dev/null)

rm -rf "$image"
umoci init --layout "$image"
umoci new --image "$image:$version"
umoci unpack --image "$image:$version" "$work/bundle"
tar -xf "$work/tree.tar" -C "$work/bundle/rootfs"
umoci repack --image "$image:$version" "$work/bundle"
umoci config --image "$image:$version" --config.user 65532:65532 --config.workingdir /var/lib/zookeeper \
	--config.env PATH=/usr/sbin:/usr/bin:/sbin:/bin --config.exposedports 2181/tcp \
	--config.entrypoint /usr/bin/giusto-zookeeper --config.cmd start-foreground --config.cmd /etc/giusto/zoo.cfg
umoci gc --layout "$image"
echo "$image"
