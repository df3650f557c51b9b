#!/usr/bin/env bash
# Proves the policy core with CBMC, from its real source (README.md, Proofs). Bounds are printed.
#
#   policy/prove.sh             the sample of `make test` (in proofs/runs.txt, marked *): what proofs/proven.txt does not say of
#                               the same source, and, of what took two minutes at
#                               most, a seventh, another every day
#   policy/prove.sh --all       every run (hours of two cores) that proofs/proven.txt does not say of the same source; what is
#                               proven is written there
#   policy/prove.sh --faults    each deliberate fault (proofs/faults.txt) must break the property it names
#
# CBMC 6 is not in Debian 12: Debian 13's is fetched once, checked, and run with that release's own libraries. So is the solver
# Kissat, for --all: with CBMC's own, MiniSat, some of these proofs had no end within hours.
# Exit: 0 all is proven; 1 something is not; 77 CBMC cannot be fetched here, nothing was proven.
set -uo pipefail
cd "$(dirname "$0")"
store=${XDG_CACHE_HOME:-$PWD/../target}/giusto-cbmc-6.6
packages='
02560859a17049c976961c232c4fc58f0747b57f9b751a466b1f368a438b0e41 c/cbmc/cbmc_6.6.0-4
0b3a870202e022bea8b04d140ded40d9137363566706750b4540518bc0eb63d7 m/minisat2/minisat_2.2.1-8
967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9 g/glibc/libc6_2.41-12+deb13u4
ab1fa05837aa7a92aae748fd07a18a35f7d18bb4a71c4724fe2bbf0e32089de0 g/gcc-14/libstdc++6_14.2.0-19
3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150 g/gcc-14/libgcc-s1_14.2.0-19
fe9f41fdac1913b0f103aef04818d7bc3c8f41edb5eb45a66cfd6c1bcb977ca6 k/kissat/kissat_4.0.2-1
'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cannot() {
	echo "NOT PROVEN: $*" >&2
	exit 77
}

# fetch SHA256 PATH: unpacks a package into $work/root, from whichever configured mirror has it.
fetch() {
	local site
	for site in $(apt-get indextargets --format '$(SITE)' 2>/dev/null | sort -u); do
		/usr/lib/apt/apt-helper download-file "$site/pool/main/$2_amd64.deb" "$work/deb" "SHA256:$1" >>"$work/log" 2>&1 &&
			dpkg -x "$work/deb" "$work/root" && return
	done
	cat "$work/log" >&2
	cannot "no package mirror of this machine has $2_amd64.deb with the checksum in policy/prove.sh; if Debian 13 has" \
		"a newer one, put its version and checksum there"
}

if [ ! -e "$store/usr/bin/cbmc" ] || [ ! -e "$store/usr/bin/kissat" ]; then
	[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || cannot "CBMC is fetched for Debian on amd64 only"
	while read -r sum path; do
		[ -z "$sum" ] || fetch "$sum" "$path"
	done <<<"$packages"
	mkdir -p "${store%/*}"
	rm -rf "$store" && mv "$work/root" "$store"
fi
libraries=$store/usr/lib/x86_64-linux-gnu

# copy [FILE SCRIPT]: copies the core to $work/source, with a fault if one is given; 1 if it is not made in one place. The
# one pool is named there, not pointed to: CBMC then checks an index against its own array, not only the whole pool.
copy() {
	rm -rf "$work/source"
	mkdir "$work/source"
	cp -r policy.h core kinds proofs "$work/source/"
	if [ "${1-}" ]; then
		sed -E -i "$2" "$work/source/$1"
		[ "$(diff "$1" "$work/source/$1" | grep -c '^[0-9]')" = 1 ] || return
	fi
	sed -i 's/\bp->/pool./g' "$work"/source/{policy.h,core/{account,change,choose,criticality,heap,order,remove}.h}
}

# prove HARNESS CALL ORDER KINDS BITS WITH: runs CBMC on $work/source; what it says is in $report.
prove() {
	local harness=$1 call=$2 order=$3 kinds=${4^^} bits=$5 with=,$6, now rounds apart checks=--conversion-check
	now=$(grep -o 'now=[0-9]*' <<<"$with") now=${now#now=} now=${now:-$((1 << (bits - 1)))}
	rounds=$(grep -o 'rounds=[0-9]*' <<<"$with") rounds=${rounds#rounds=} rounds=${rounds:-4}
	apart=$(grep -o 'apart=[0-9]*+[0-9]*' <<<"$with") apart=${apart#apart=} apart=${apart:-1+1}
	[[ $with != *,laws,* ]] || checks=--no-standard-checks
	IFS=, read -r first second third <<<"$kinds"
	timeout $longest "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$store/usr/lib" "$store/usr/bin/cbmc" \
		"$work/source/proofs/$harness.c" -DGI_CAPACITY=4 -DGI_CORES=2 -DGI_CHUNKS=2 -DWIDTH=8 -DBITS="$bits" -DNOW="$now" \
		-DBETWEEN="${apart%+*}" -DBEYOND="${apart#*+}" \
		-DCALL="$call" -DHEAP="GI_$call" -DORDER="GI_${order^^}" -DKIND0="GI_$first" -DKIND1="GI_$second" -DKIND2="GI_$third" \
		-DCALM="$(of calm)" -DBOOSTS="$(of boost)" -DCHANGES="$(of set)" -DWAITS="$(of waits)" $checks \
		"${solver[@]}" --slice-formula --unwinding-assertions --unwind "$((rounds + 1))" \
		--unwindset "gi_init.0:6,gi_decide.1:$(($(of calm) ? 1 : 5))" >"$report" 2>&1
}
of() { [[ $with == *,$1,* ]] && echo 1 || echo 0; }

# red: the properties that do not hold, once each.
red() {
	grep ': FAILURE$' "$report" | sed -E 's/^\[[^]]*\] line [0-9]+ //; s/: FAILURE$//' | sort -u
}

# known RUN: what it is proven of: the source, the run, the way of proving.
known() {
	{
		declare -f copy prove
		echo "$packages" "$1"
		(cd "$work/source" && cat policy.h core/* kinds/* proofs/*.h "proofs/${1%% *}.c")
	} | sha256sum | cut -c1-32
}

# keep RUN LINE: writes into proofs/proven.txt that RUN is proven of this source, in the place of what it said of another.
keep() {
	local key
	key=$(known "$1")
	(
		flock 9
		{
			grep -vF ": $1: " proofs/proven.txt || true
			echo "$key $(date +%F) $2"
		} | LC_ALL=C sort -t: -k2,3 >"$work/proven" && cat "$work/proven" >proofs/proven.txt
	) 9<proofs/runs.txt
}

# proof RUN: proves it, and says so on a line.
proof() {
	local run=$1 start=$SECONDS line took count
	if line=$(grep "^$(known "$run") " proofs/proven.txt); then
		took=${line##*, } took=${took% s}
		if $all || ((took > 120 || (done + 10#$(date +%j)) % 7)); then
			echo "${line#* }"
			return
		fi
	fi
	read -r harness call order kinds bits with <<<"$run"
	prove "$harness" "$call" "$order" "$kinds" "$bits" "${with-}"
	if grep -q '^VERIFICATION SUCCESSFUL' "$report"; then
		count=$(grep -oE 'of [0-9]+ failed' "$report" | grep -o '[0-9]*')
		line="proven: $run: $count properties, $((SECONDS - start)) s"
		echo "$line"
		! $all || keep "$run" "$line"
	else
		echo "NOT PROVEN: $run"
		red
		grep -q ': FAILURE$' "$report" || tail -3 "$report"
		false
	fi
}

case "${1-}" in
'' | --all | --faults) ;;
*) echo "policy/prove.sh $1: expected nothing, --all or --faults" >&2; exit 2 ;;
esac
failed=0 done=0 report=$work/report all=false longest=1200 # seconds of one proof
touch proofs/proven.txt
solver=()
if [ "${1-}" = --all ]; then
	all=true longest=20000 solver=(--external-sat-solver "$work/solver")
	loader=$libraries/ld-linux-x86-64.so.2
	printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" -q "$@"\n' \
		"$loader" "$libraries" "$store/usr/bin/kissat" >"$work/solver"
	chmod +x "$work/solver"
fi
if [ "${1-}" = --faults ]; then
	while IFS= read -r line; do
		[[ $line == *' :: '* && $line != '#'* ]] || continue
		IFS=$'\x1f' read -r name file script run expected <<<"${line// :: /$'\x1f'}"
		if ! copy "$file" "$script"; then
			echo "proofs/faults.txt: '$name' must change one place of $file; correct its script" >&2
			failed=$((failed + 1))
			continue
		fi
		start=$SECONDS done=$((done + 1))
		read -r harness call order kinds bits with <<<"$run"
		prove "$harness" "$call" "$order" "$kinds" "$bits" "${with-}"
		if red | grep -qF "$expected"; then
			echo "| $file | $name | $expected | $((SECONDS - start)) s |"
		else
			echo "| $file | $name | NOT NOTICED by '$expected' in: $run; $(red | head -3 | tr '\n' ';') $(tail -1 "$report") |"
			failed=$((failed + 1))
		fi
	done <proofs/faults.txt
	echo "$done faults, $((done - failed)) noticed"
else
	copy
	while read -r mark run; do
		case $mark in
		'*') ;;
		-) $all || continue ;;
		*) continue ;;
		esac
		done=$((done + 1))
		# As many at a time as there are cores.
		while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
		(report=$work/report.$done && proof "$run" || touch "$work/failed.$done") </dev/null &
	done <proofs/runs.txt
	wait
	failed=$(find "$work" -name 'failed.*' | wc -l)
	echo "$done proofs, $((done - failed)) hold: 3 servers, 2 cores, 2 chunks, times of 8 bits below 2^(bits + 2)"
fi
[ "$done" -gt 0 ] && [ $failed = 0 ]
