#!/usr/bin/env bash
# Installs what `make pages` has built, or removes it again.
#
#   [PREFIX=/usr/local] [DESTDIR=] packaging/install.sh install|uninstall
#
# PAGES: the program that writes man pages and completions; UNITS, ZSH: folders for the unit and the zsh completion.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
doc=$prefix/share/doc/giusto
binaries=${CARGO_TARGET_DIR:-target}/release
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
[ -x "$binaries/examples/pages" ] || {
	echo "$binaries/examples/pages is missing: run 'make pages' first" >&2
	exit 3
}
"$binaries/examples/pages" "$pages"
# Paths in texts are those of a package.
sed "s|/usr/bin/|$prefix/bin/|; s|/usr/share/|$prefix/share/|" packaging/giusto.service >"$pages/giusto.service"
sed -i "s|/usr/share/doc/giusto|$doc|" "$pages"/*.1
gzip -9n "$pages"/*.1

documents=(README.md SECURITY.md docs/*.md docs/decisions/*.md docs/status/*.md docs/tutorials/*.md formats/*.md)
# Links to examples lead to where they are installed; those to parts of the source that are not become words.
rooms=$(ls -d */ | tr -d / | grep -vx -e docs -e formats | paste -sd '|')
for page in "${documents[@]}"; do
	mkdir -p "$pages/doc/$(dirname "$page")"
	sed -E 's|\]\(((\.\./)*)sites/|](\1examples/|g
		s#\[([^]]*)\]\((\.\./)*('"$rooms"')(/[^)]*)?\)#\1#g
		s#\[([^]]*)\]\((\.\./)*(CONTRIBUTING\.md|docs/soak\.txt|soak\.txt|formats/goldens[^)]*|goldens[^)]*|LICEN[CS]E[^)]*)\)#\1#g' "$page" >"$pages/doc/$page"
done

# mode, what, where to
files() {
	echo "755 $binaries/giusto $prefix/bin/giusto"
	echo "644 $pages/giusto.service ${UNITS:-$prefix/lib/systemd/system}/giusto.service"
	echo "644 $pages/giusto.bash $prefix/share/bash-completion/completions/giusto"
	echo "644 $pages/_giusto ${ZSH:-$prefix/share/zsh/site-functions}/_giusto"
	echo "644 $pages/giusto.fish $prefix/share/fish/vendor_completions.d/giusto.fish"
	local page
	for page in "$pages"/*.1.gz; do echo "644 $page $prefix/share/man/man1/${page##*/}"; done
	for page in "${documents[@]}"; do echo "644 $pages/doc/$page $doc/$page"; done
	for page in docs/*.svg docs/rooms/*.svg; do echo "644 $page $doc/$page"; done
	for page in formats/*.schema.json formats/goldens/latency.json; do echo "644 $page $doc/$page"; done
	for page in packaging/{prometheus/giusto.rules.yml,grafana/giusto.json} sites/*.yaml; do
		echo "644 $page $doc/examples/${page##*/}"
	done
	for page in sites/links/*.csv; do echo "644 $page $doc/examples/links/${page##*/}"; done
}

case ${1:-} in
install)
	files | while read -r mode from to; do install -D -m "$mode" "$from" "${DESTDIR:-}$to"; done
	;;
uninstall)
	files | while read -r _ _ to; do rm -f "${DESTDIR:-}$to"; done
	rmdir "${DESTDIR:-}$doc"/{docs/decisions,docs/rooms,docs/status,docs/tutorials,docs,examples/links,examples} \
		"${DESTDIR:-}$doc"/{formats/goldens,formats} "${DESTDIR:-}$doc" 2>/dev/null || true
	;;
*)
	echo "expected 'install' or 'uninstall'" >&2
	exit 2
	;;
esac
