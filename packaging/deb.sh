#!/usr/bin/env bash
# Builds target/giusto_VERSION_ARCH.deb. The same sources give the same bytes, in any folder and at any time: file times are
# those of the changelog, or of SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
for tool in dpkg-deb dpkg-shlibdeps dpkg-gencontrol; do
	command -v $tool >/dev/null || {
		echo "$tool is missing: apt-get install dpkg-dev" >&2
		exit 3
	}
done
version=$(cargo pkgid --locked --offline -p giusto-cli | sed 's/.*[#@]//')
said=$(dpkg-parsechangelog -l packaging/deb/changelog -S Version)
[ "$version" = "$said" ] || {
	echo "packaging/deb/changelog ends with $said: expected an entry for $version, the version in Cargo.toml" >&2
	exit 2
}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(dpkg-parsechangelog -l packaging/deb/changelog -S Timestamp)}

# Without symbols and without this machine's paths.
. packaging/flags.sh
export CARGO_TARGET_DIR=$PWD/target
# The compiler of C heeds that time, so that Cargo would build all anew with it and without it; no source has a time in it.
env -u SOURCE_DATE_EPOCH cargo build --release --locked --quiet --workspace --bin giusto --example pages

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
DESTDIR=$tree PREFIX=/usr UNITS=/lib/systemd/system ZSH=/usr/share/zsh/vendor-completions packaging/install.sh install
install -d "$tree/etc/giusto"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/usr/bin/giusto"
doc=$tree/usr/share/doc/giusto
install -m 644 packaging/deb/copyright "$doc/copyright"
gzip -9nc packaging/deb/changelog >"$doc/changelog.gz"
# What is linked in, with its terms.
packaging/libraries.sh giusto-cli | gzip -9n >"$doc/libraries.gz"

# dpkg's own tools know the right version of the C library; they want a source tree.
install -D -m 644 -t "$work/debian" packaging/deb/control packaging/deb/changelog
install -d "$tree/DEBIAN"
(cd "$work" && dpkg-shlibdeps -Tsubstvars "$tree/usr/bin/giusto" && dpkg-gencontrol -Tsubstvars -P"$tree" -O"$tree/DEBIAN/control")
install -m 755 -t "$tree/DEBIAN" packaging/deb/{postinst,prerm,postrm}
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$work/md5sums"
install -m 644 "$work/md5sums" "$tree/DEBIAN/md5sums"
find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
deb=target/giusto_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz --build "$tree" "$deb" >/dev/null
echo "$deb"
