#!/usr/bin/env bash
# The policy core against its transcripts and against itself: native, under UBSan and ASan, and in the running kernel
# (BPF test_run; nothing stays loaded). Each engine also makes the same random calls; all must end in the same digest.
#
#   policy/check.sh             exit 0: all as expected; 1: not; 77: all that could be checked is, but not the kernel
#   policy/check.sh --rewrite   writes what the core does now into the transcripts, for review as a diff
set -uo pipefail
cd "$(dirname "$0")"
random=(--random "${SEED:-2026}" "${CALLS:-20000}")
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
passed=0 failed=0 no_kernel= words= sum=

# compile NAME OPTION...: builds the replay program as $build/NAME.
compile() {
	local name=$1
	shift
	gcc -std=c11 -O1 -g -Wall -Wextra -Werror -o "$build/$name" tests/replay.c tests/transcript.c "$@"
}

# check NAME PROGRAM...: transcripts, then random calls, whose digest must be that of the first engine.
check() {
	local name=$1 line digest
	shift
	line=$("$@" transcripts/*.txt)
	case $? in
	77) no_kernel=1 && return ;;
	0 | 1) ;;
	*) line= ;;
	esac
	read -r files bad calls _ <<<"$(sed 's/[a-z]*=//g' <<<"${line:-files=1 failed=1 calls=0}")"
	passed=$((passed + files - bad))
	failed=$((failed + bad))
	[ "$bad" = 0 ] && [ "$files" -gt 0 ] && words+=", $name ok" || words+=", $name FAILED"
	[ "$name" = kernel ] && words+=" ($calls calls replayed)"
	digest=$("$@" "${random[@]}" | grep -o 'digest=.*')
	sum=${sum:-$digest}
	if [ -n "$digest" ] && [ "$digest" = "$sum" ]; then
		passed=$((passed + 1))
		echo "random: ${random[2]} calls of seed ${random[1]}, $name ok ($digest)"
	else
		failed=$((failed + 1))
		echo "random: ${random[2]} calls of seed ${random[1]}, $name FAILED ($digest, expected $sum)"
	fi
}

compile native || exit 1
if [ "${1-}" = --rewrite ]; then
	"$build/native" --rewrite transcripts/*.txt
	exit
fi
check native "$build/native"
compile sanitized -fsanitize=undefined,address -fno-sanitize-recover=all || exit 1
check sanitizers "$build/sanitized"

clang=$(command -v clang-19 || command -v clang)
if [ -z "$clang" ] || [ ! -e /usr/include/bpf/libbpf.h ]; then
	echo "NOT CHECKED IN THE KERNEL: clang or libbpf is missing; apt-get install clang-19 libbpf-dev" >&2
	no_kernel=1
else
	compile kernel -DWITH_KERNEL tests/kernel.c -lbpf || exit 1
	"$clang" -O2 -g -mcpu=v3 -Wall -Wextra -Werror -target bpf -I"/usr/include/$(gcc -print-multiarch)" \
		-c policy.bpf.c -o "$build/policy.bpf.o" || exit 1
	check kernel "$build/kernel" --kernel "$build/policy.bpf.o"
	if [ -z "$no_kernel" ]; then
		"$build/kernel" --kernel "$build/policy.bpf.o" --together 20000 || exit 1
	fi
fi
[ -n "$no_kernel" ] && words+=", kernel NOT CHECKED"
echo "transcripts: $files files, $calls calls: ${words#, }"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] || exit 1
./check-bucket.sh || exit
[ -z "$no_kernel" ] || exit 77
