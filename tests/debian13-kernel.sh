#!/usr/bin/env bash
# Debian 13's cloud kernel in target/guest13, fetched once; with its modules unpacked. Exit code 77 where it cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
store=$PWD/target/guest13
# The kernel that the tests were made with. A mirror keeps the newest only: then that one, which apt checks as well.
pinned=linux-image-6.12.117+deb13-cloud-amd64_6.12.117-1_amd64.deb
sum=e9893e5295d0549b8852611f12a4b8b5f6cc4b8128dcc2086b9847793b904ab7
cannot() {
	echo "NOT RUN IN A GUEST: $*; see what apt-get says above" >&2
	exit 77
}
[ ! -e "$store/unpacked" ] || exit 0
mkdir -p "$store"/apt/{lists,archives}/partial
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$') || cannot "this machine has no mirror of Debian"
if ! /usr/lib/apt/apt-helper -o APT::Sandbox::User=root -qq download-file \
	"${mirror}pool/main/l/linux-signed-amd64/$pinned" "$store/kernel.deb" "SHA256:$sum" 2>/dev/null; then
	rm -f "$store"/*.deb
	echo "the mirror does not have $pinned, with which the tests were made; the newest instead" >&2
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$store/apt/sources.list"
	options=(-qq -o Dir::Etc::sourcelist="$store/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o APT::Sandbox::User=root -o Dir::State::lists="$store/apt/lists" -o Dir::Cache="$store/apt"
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
	apt-get "${options[@]}" update || cannot "the package mirror does not answer"
	name=$(apt-cache "${options[@]}" depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ {print $2; exit}')
	(cd "$store" && apt-get "${options[@]}" download "$name/trixie") ||
		cannot "the mirror has no ${name:-kernel of Debian 13}"
fi
rm -rf "$store"/{usr,boot}
dpkg -x "$store"/*.deb "$store"
rm "$store"/*.deb
find "$store/usr/lib/modules" -name '*.ko.xz' -exec xz -d {} +
touch "$store/unpacked"
