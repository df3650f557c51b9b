#!/usr/bin/env bash
# Growing stays cheap: a toy promise, backend, kind… is a patch that may touch only a few files. Each is applied to a copy of
# this tree, built and run there; the copy is removed afterwards. What compiles is kept in target/toys.
#
#   tests/toys.sh              all of tests/toys/*.patch
#   tests/toys.sh NAME...      these
#   tests/toys.sh --one        one of them, another every day
#
# tests/toys/NAME.sh says in `# files: N` how many files its patch may touch, and runs in the patched copy, where it builds
# and tries what the toy adds. Exit: 0 all hold; 1 one does not.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${RUSTFLAGS-}" ] || . packaging/flags.sh
copy=$PWD/target/toys/copy
export CARGO_TARGET_DIR=$PWD/target/toys/build
mkdir -p target/toys
exec 9>target/toys/lock
flock -n 9 || { echo "tests/toys.sh runs here already; wait until it has ended" >&2; exit 1; }
trap 'rm -rf "$copy"' EXIT

# Built in a quarter of the time: what is tried here has no hurry.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256

# try NAME: 0 if the toy holds.
try() {
	local patch=$PWD/tests/toys/$1.patch script=$PWD/tests/toys/$1.sh most touched start=$SECONDS
	most=$(sed -n 's/^# files: \([0-9]*\)$/\1/p' "$script")
	[ "$most" ] || { echo "$script: no line '# files: N'; expected how many files its patch may touch" >&2; return 1; }
	touched=$(git apply --numstat "$patch" | wc -l)
	if ((touched > most)); then
		echo "$patch touches $touched files; expected at most $most: what else had to be told of the new one?" >&2
		return 1
	fi
	rm -rf "$copy" && mkdir "$copy"
	git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null |
		tar -C "$copy" -xf -
	# Without a repository of its own, git would take the copy for a part of this one and change nothing.
	git -C "$copy" init --quiet
	git -C "$copy" apply "$patch" || { echo "$patch does not apply any more; write it anew" >&2; return 1; }
	# What an earlier toy touched has an old time again, and cargo would take what was built from that one.
	sed -n 's,^+++ b/,,p' tests/toys/*.patch | (cd "$copy" && xargs -d '\n' touch -c)
	(cd "$copy" && bash "$script" 9>&-) || { echo "toy $1: FAILED (exit $?) after $((SECONDS - start)) s" >&2; return 1; }
	echo "toy $1: $touched files, built and run in $((SECONDS - start)) s"
}

toys=("$@")
if ((!$#)) || [ "$1" = --one ]; then
	mapfile -t toys < <(cd tests/toys && ls -- *.patch | sed 's/\.patch$//')
	[ "${1-}" != --one ] || toys=("${toys[$(($(date +%s) / 86400 % ${#toys[@]}))]}")
fi
failed=0
for toy in "${toys[@]}"; do
	try "$toy" || failed=$((failed + 1))
done
((failed == 0))
