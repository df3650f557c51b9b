#!/usr/bin/env bash
# What tests of the scheduler in the kernel need: Debian forky's cloud kernel, which has sched_ext and sound BTF, and libbpf 1.4,
# which loads such schedulers, in target/sched_ext, fetched once. Exit code 77 where they cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
store=$PWD/target/sched_ext
mkdir -p "$store"
cannot() {
	echo "NOT RUN IN A GUEST: $*; see what apt-get says above" >&2
	exit 77
}
missing=()
for needed in qemu-system-x86:/usr/bin/qemu-system-x86_64 busybox-static:/bin/busybox cpio:/usr/bin/cpio \
	libelf-dev:/usr/include/libelf.h zlib1g-dev:/usr/include/zlib.h; do
	[ -e "${needed#*:}" ] || missing+=("${needed%%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
	apt-get update -qq || cannot "the package mirror does not answer"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		cannot "the package mirror has not all of ${missing[*]}"
fi
mirror() { apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$' || true; }

# newest PATTERN SUITE: the newest package with such a name in a suite that this machine does not use otherwise.
newest() {
	local own=$store/apt name
	mkdir -p "$own/lists/partial" "$own/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $2 main" >"$own/sources.list"
	local options=(-qq -o Dir::Etc::sourcelist="$own/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o APT::Sandbox::User=root -o Dir::State::lists="$own/lists" -o Dir::Cache="$own"
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
	apt-get "${options[@]}" update || return
	name=$(apt-cache "${options[@]}" pkgnames | grep -xE "$1" | sort -V | tail -1)
	[ -n "$name" ] && (cd "$store" && apt-get "${options[@]}" download "$name/$2")
}

# get FILE PATTERN SUITE PATH SUM: unpacks a package of which FILE is a part. The mirror keeps the newest only: then that one,
# which apt checks as well.
get() {
	compgen -G "$store/$1" >/dev/null && return
	rm -f "$store"/*.deb
	if ! /usr/lib/apt/apt-helper -o APT::Sandbox::User=root -qq download-file "$(mirror)pool/main/$4" "$store/${4##*/}" \
		"SHA256:$5" 2>/dev/null; then
		rm -f "$store"/*.deb
		echo "the mirror does not have ${4##*/}, with which the tests were made; the newest instead" >&2
		newest "$2" "$3" || cannot "the mirror has no package $2 in $3"
	fi
	dpkg -x "$store"/*.deb "$store"
	rm -f "$store"/*.deb
	compgen -G "$store/$1" >/dev/null || cannot "the package $2 of $3 has no $1"
}
[ -n "$(mirror)" ] || apt-get update -qq || true
[ -n "$(mirror)" ] || cannot "this machine has no mirror of Debian among its package sources"
get 'usr/lib/modules/*/vmlinuz' 'linux-binary-7[.][0-9.]+[+]deb14-cloud-amd64' forky \
	'l/linux-signed-amd64/linux-binary-7.2.12+deb14-cloud-amd64_7.2.12-1_amd64.deb' \
	43451b88872589d518acba127482df16fab53e2a51e92811cbd6221ca92cb6bf
get usr/lib/x86_64-linux-gnu/libbpf.a libbpf-dev bookworm-backports \
	'libb/libbpf/libbpf-dev_1.4.6-1~bpo12+1_amd64.deb' b77a1e39e6ad8d19965321167973c0e02f7b565fa19cd0bad5c331b1bdb32d05
