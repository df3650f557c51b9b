#!/usr/bin/env bash
# Makes a minimal Debian 12 root in target/package/root, once, with what looks at a package: systemd, man, lintian. Fetched
# from the mirror that this machine's apt uses; 77 where it cannot be fetched. Prints nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
root=target/package/root
[ ! -e $root/complete ] || exit 0
cannot() {
	echo "NOT RUN IN A DEBIAN ROOT: cannot $1; see above" >&2
	exit 77
}
[ "$(id -u)" = 0 ] || cannot "make one without root"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' | head -1)
[ -n "$mirror" ] || cannot "find a mirror of Debian 12 in this machine's apt sources"
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
export http_proxy="${http_proxy:-}" DEBIAN_FRONTEND=noninteractive LC_ALL=C
if [ ! -x /usr/sbin/debootstrap ]; then
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap >/dev/null; } ||
		cannot "install debootstrap"
fi
echo "fetching a minimal Debian 12 from $mirror, once"
rm -rf $root
mkdir -p $root
# Private mounts: whatever is mounted here goes away with the shell. Lintian is more than debootstrap can resolve.
unshare -m --propagation private bash -euo pipefail -s $root/tree "$mirror" <<'INSIDE' >$root/log 2>&1 ||
	debootstrap --variant=minbase --include=systemd,man-db,bash-completion bookworm "$1" "$2"
	cp /etc/resolv.conf "$1/etc/"
	mount -t proc proc "$1/proc"
	chroot "$1" apt-get install -y -qq --no-install-recommends lintian
	chroot "$1" apt-get clean
INSIDE
	{
		tail -5 $root/log >&2
		cannot "fetch Debian 12 from $mirror"
	}
touch $root/complete
