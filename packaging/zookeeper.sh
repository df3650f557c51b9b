#!/usr/bin/env bash
# Builds target/giusto-zookeeper_VERSION_all.deb: the jar, stock ZooKeeper and what it needs, the start script, a systemd unit.
# The same sources give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
for tool in dpkg-deb mvn java; do
	command -v $tool >/dev/null || {
		echo "$tool is missing: apt-get install dpkg openjdk-17-jdk-headless maven" >&2
		exit 3
	}
done
version=$(sed -n 's/.*<version>\(.*\)<\/version>.*/\1/p' coordination/pom.xml | head -n 1)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1767225600} # as in coordination/pom.xml
built=coordination/server/target
[ -e "$built/giusto-zookeeper-$version.jar" ] || mvn -B -q -f coordination/pom.xml -pl server package -DskipTests

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
home=$tree/usr/share/giusto-zookeeper
install -d "$home/lib/lib" "$tree/usr/bin" "$tree/DEBIAN"
install -m 644 "$built/giusto-zookeeper-$version.jar" "$home/lib/"
install -m 644 "$built"/lib/*.jar "$home/lib/lib/"
install -D -m 755 -t "$home/bin" coordination/bin/giusto-zookeeper
install -D -m 644 -t "$home/conf" coordination/conf/*
ln -s ../share/giusto-zookeeper/bin/giusto-zookeeper "$tree/usr/bin/giusto-zookeeper"
install -D -m 644 -t "$tree/lib/systemd/system" packaging/zookeeper/giusto-zookeeper.service
install -D -m 644 -t "$tree/usr/share/doc/giusto-zookeeper" docs/coordination.md packaging/deb/copyright
sed "s/@VERSION@/$version/" packaging/zookeeper/control >"$tree/DEBIAN/control"
install -m 755 -t "$tree/DEBIAN" packaging/zookeeper/{postinst,prerm,postrm}
(cd "$tree" && find usr lib -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$work/md5sums"
install -m 644 "$work/md5sums" "$tree/DEBIAN/md5sums"
find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
deb=target/giusto-zookeeper_${version}_all.deb
mkdir -p target
dpkg-deb --root-owner-group -Zxz -z1 --build "$tree" "$deb" >/dev/null
echo "$deb"
