#!/usr/bin/env bash
# Deliberate faults in the policy core (mutants/list.txt): each must be noticed, by a transcript or by a law.
#
#   policy/mutants.sh           a third of the sample (marked *), another every day
#   policy/mutants.sh --all     all of them
#
# Each is made in a copy and played by the native engine; what no transcript kills is left to `cargo test` of the laws.
# Exit: 0 all are killed; 1 one lives, or cannot be made any more.
set -uo pipefail
cd "$(dirname "$0")"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -C .. --exclude=./target --exclude=./out --exclude=./.git -cf - . | tar -C "$copy" -xf -
made=0 lived=0 nth=0

# fails: the transcripts that do not pass in the copy, or what happened to the program.
fails() {
	(
		cd "$copy/policy" || exit
		gcc -std=c11 -O1 -w -o "$copy/native" tests/replay.c tests/transcript.c || { echo 'compiler' && exit; }
		timeout 20 "$copy/native" transcripts/*.txt 2>"$copy/errors" >/dev/null
		code=$?
		grep -o '^transcripts/[^:]*\.txt' "$copy/errors" | uniq | sed 's,.*/,,; s,\.txt,,'
		[ $code -le 2 ] || echo "exit $code"
	)
}

# by_laws: the law tests that fail in the copy.
by_laws() {
	CARGO_TARGET_DIR=$PWD/../target/mutants cargo test --release --locked --quiet --manifest-path "$copy/Cargo.toml" \
		-p giusto-policy >"$copy/errors" 2>&1 && return
	grep -oE '^    [a-z_0-9:]+$' "$copy/errors" | sed 's/ *//' | sort -u
}

# short NAME...: the first three, and how many more.
short() {
	local list more=$(($# - 3))
	list=$(printf ', %s' "${@:1:3}")
	[ $more -le 0 ] || list+=", $more more"
	echo "${list#, }"
}

if [ -n "$(fails)" ]; then
	echo "the core itself fails: $(fails | tr '\n' ' ')- correct that first (policy/check.sh)" >&2
	exit 1
fi
printf '| file | mutant | killed by |\n|---|---|---|\n'
while read -r line; do
	case $line in
	'#'* | '') continue ;;
	'*'*)
		nth=$((nth + 1))
		[ "${1-}" ] || ! (((nth + 10#$(date +%j)) % 3)) || continue
		;;
	*) [ "${1-}" ] || continue ;;
	esac
	name=${line%% :: *} name=${name#\*} script=${line##* :: } file=${line#* :: } file=${file% :: *}
	sed -E "$script" "$file" >"$copy/policy/$file"
	if [ "$(diff "$file" "$copy/policy/$file" | grep -c '^[0-9]')" != 1 ]; then
		echo "mutants/list.txt: '$name' must change one place of $file; correct its script" >&2
		lived=$((lived + 1))
		continue
	fi
	made=$((made + 1))
	readarray -t killers < <(fails)
	[ ${#killers[@]} -gt 0 ] || readarray -t killers < <(by_laws)
	case ${killers[*]-} in
	'' | *compiler*) killers=('NONE') lived=$((lived + 1)) ;;
	esac
	echo "| $file | $name | $(short "${killers[@]}") |"
	cp "$file" "$copy/policy/$file"
done <mutants/list.txt
echo "$made mutants, $((made - lived)) killed"
[ "$made" -gt 0 ] && [ $lived = 0 ]
