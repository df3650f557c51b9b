#!/usr/bin/env bash
# What is linked into a package of this workspace, with its terms, on standard output; who wrote it where it brings no text of
# them. The sources have to be there (cargo fetch).
#   packaging/libraries.sh PACKAGE
set -euo pipefail
cd "$(dirname "$0")/.."
cargo tree --offline --locked -p "$1" -e normal,no-proc-macro --no-dedupe --prefix none -f '{p} {l}' | grep -v '(/' |
	LC_ALL=C sort -u | while read -r name number licence; do
	echo "=== $name ${number#v}: $licence"
	folder=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-${number#v}")
	cat "$folder"/*[Mm][Ii][Tt]* 2>/dev/null || cat "$folder"/*LICEN[CS]E* 2>/dev/null || grep authors "$folder/Cargo.toml"
done
