#!/usr/bin/env bash
# The token bucket against its transcripts and against its law: native, under UBSan and ASan, and in the running kernel
# (BPF test_run; nothing stays loaded). What the law demands of random buckets and over long runs, tests/bucket.py says.
#
#   policy/check-bucket.sh      exit 0: all as expected; 1: not; 77: all that could be checked is, but not the kernel
set -uo pipefail
cd "$(dirname "$0")"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
seed=${SEED:-2026} runs=${RUNS:-2000} drift=${DRIFT:-1000000} passed=0 failed=0 no_kernel=
transcripts=(transcripts/bucket/*.txt "$build/law.txt" "$build/drift.txt")

# compile NAME OPTION...: builds the player as $build/NAME.
compile() {
	local name=$1
	shift
	gcc -std=c11 -O1 -g -Wall -Wextra -Werror -o "$build/$name" tests/bucket.c "$@"
}

# check NAME PROGRAM...: all transcripts on one engine.
check() {
	local name=$1 line code=0
	shift
	line=$("$@" "${transcripts[@]}" 2>"$build/errors") || code=$?
	head -n 20 "$build/errors" >&2
	case $code in
	77) no_kernel=1 ;;
	0) passed=$((passed + 1)) && echo "bucket, $name: $line" ;;
	*) failed=$((failed + 1)) && echo "bucket, $name: FAILED ${line:-(exit $code)}" ;;
	esac
}

for part in "law $seed $runs" "drift $drift"; do
	read -ra words <<<"$part"
	if ! python3 tests/bucket.py "${words[@]}" >"$build/${words[0]}.txt"; then
		echo "bucket: the oracle disagrees with the law, or does not cover it: bucket.py $part"
		failed=$((failed + 1))
	fi
done
compile native || exit 1
check native "$build/native"
compile sanitized -fsanitize=undefined,address -fno-sanitize-recover=all || exit 1
check sanitizers "$build/sanitized"

clang=$(command -v clang-19 || command -v clang)
if [ -z "$clang" ] || [ ! -e /usr/include/bpf/libbpf.h ]; then
	echo "NOT CHECKED IN THE KERNEL: clang or libbpf is missing; apt-get install clang-19 libbpf-dev" >&2
	no_kernel=1
else
	compile kernel -DWITH_KERNEL -lbpf || exit 1
	"$clang" -O2 -g -mcpu=v3 -Wall -Wextra -Werror -target bpf -I"/usr/include/$(gcc -print-multiarch)" \
		-c bucket.bpf.c -o "$build/bucket.bpf.o" || exit 1
	check kernel "$build/kernel" --kernel "$build/bucket.bpf.o"
fi
echo "bucket: ${#transcripts[@]} transcripts, $passed engines as expected, $failed not${no_kernel:+, kernel NOT CHECKED}"
[ "$failed" = 0 ] || exit 1
[ -z "$no_kernel" ] || exit 77
