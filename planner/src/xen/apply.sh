#!/bin/sh
# Has Xen's scheduler RTDS serve domains as a plan of Giusto says. Run it as root in the control domain: after a domain was
# started, and after each export. Where all is as planned it changes nothing. Every change is read back.
#   apply.sh           what servers.txt beside it says
#   apply.sh --undo    what was there before the first time, which is in /run/giusto-xen: a boot begins anew, as Xen does
# Exit: 0 all is so, 2 it was called otherwise, 3 no RTDS, or a planned domain does not run, 4 something failed or is in the way.
set -u
cd "$(dirname "$0")" || exit 4
say() { echo "apply.sh: $*" >&2; }
wanted=servers.txt
found=/run/giusto-xen/before.txt
case "$#${1-}" in
0) ;;
1--undo) wanted=$found ;;
*) say "expected nothing or --undo" && exit 2 ;;
esac
if ! [ -e $wanted ]; then
	say "there is nothing to undo: no $found"
	exit 0
fi
scheduler=$(xl info 2>/dev/null | awk '$1 == "xen_scheduler" { print $3 }')
if [ "$scheduler" != rtds ]; then
	say "Xen's scheduler is '${scheduler:-unknown}', not rtds: boot a Xen that has it with sched=rtds (docs/xen.md)"
	exit 3
fi

# A line a virtual CPU that there is: DOMAIN VCPU CORES PERIOD BUDGET EXTRA, times in microseconds, EXTRA 0 or 1. xl has "all" and
# "1-3" for cores, here they are 1,2,3.
cpus=$(xl info | awk '$1 == "nr_cpus" { print $3 }')
now() {
	{ xl vcpu-list && xl sched-rtds -v all; } | awk -v cpus="$cpus" '
		function each(text, parts, ends, count, i, cpu, list) {
			if (text == "all") text = "0-" (cpus - 1)
			count = split(text, parts, ",")
			for (i = 1; i <= count; i++) {
				if (split(parts[i], ends, "-") == 1) ends[2] = ends[1]
				for (cpu = ends[1] + 0; cpu <= ends[2] + 0; cpu++) list = list (list == "" ? "" : ",") cpu
			}
			return list
		}
		/^Name .*Affinity/ { part = 1; next }
		/^Name .*Extratime/ { part = 2; next }
		/^Cpupool/ { next }
		part == 1 { cores[$1, $3] = each($(NF - 2)) }
		part == 2 { print $1, $3, ($1, $3) in cores ? cores[$1, $3] : each("all"), $4, $5, ($6 == "yes") }'
}
# The same of what is wanted; "all" of its virtual CPUs are those that the domain has now.
planned() {
	awk 'NR == FNR { if ($2 >= count[$1]) count[$1] = $2 + 1; next }
		/^#/ { next }
		$2 != "all" { if ($2 < count[$1]) print; next }
		{ for (i = 0; i < count[$1]; i++) print $1, i, $3, $4, $5, $6 }' "$before" $wanted
}
before=$(mktemp) || exit 4
target=$(mktemp) || exit 4
trap 'rm -f "$before" "$target"' EXIT
now >"$before" || exit 4
if ! [ -s "$before" ]; then
	say "xl tells of no domain; does it work: xl sched-rtds -v all?"
	exit 4
fi
planned >"$target" || exit 4

code=0
if [ $wanted = servers.txt ]; then
	# What no plan knows has 4 of 10 ms by default, which is in nobody's account.
	strange=$(awk 'NR == FNR { known[$1]; next } !($1 in known) && $5 * 1000 > $4 { print $1 }' servers.txt "$before" | sort -u)
	if [ -n "$strange" ]; then
		for domain in $strange; do
			say "domain $domain is not in the plan and has a reservation: add it to the site (promise: leftovers), or" \
				"take it: xl sched-rtds -d $domain -v all -p 10000 -b 10 -e 1"
		done
		exit 4
	fi
	for domain in $(awk 'NR == FNR { there[$1]; next } !/^#/ && !($1 in there) { print $1 }' "$before" servers.txt | sort -u); do
		say "domain $domain does not run: call this again when it does"
		code=3
	done
	[ -e $found ] || { mkdir -p "${found%/*}" && cp "$before" $found.new && mv $found.new $found; } || exit 4
fi

# What changes, in two steps. In the first nothing asks for more in any window of time than before, nor than afterwards: the least
# budget of both, the longest period of both. In the second all is as wanted. One that goes to another core has the least that there
# is and extra time meanwhile. STEP: 1 or 2; each line has its last period added.
changes() {
	awk -v step="$1" '
		NR == FNR { was[$1, $2] = $3 " " $4 " " $5 " " $6; cores[$1, $2] = $3; period[$1, $2] = $4; budget[$1, $2] = $5; next }
		was[$1, $2] == $3 " " $4 " " $5 " " $6 { next }
		{
			least = budget[$1, $2] < $5 ? budget[$1, $2] : $5
			longest = period[$1, $2] > $4 ? period[$1, $2] : $4
			between = $3 " " longest " " least " " $6
			if (cores[$1, $2] != $3) between = cores[$1, $2] " 10000 10 1"
			if (step == 1 && between != was[$1, $2]) print $1, $2, between, period[$1, $2]
			if (step == 2 && between != $3 " " $4 " " $5 " " $6) print $0, longest
		}' "$before" "$target"
}
make() {
	while read -r domain vcpu cores period budget extra _; do
		echo "$domain $vcpu: core $cores, $budget of $period us$([ "$extra" = 1 ] && echo ', extra time')"
		xl vcpu-pin "$domain" "$vcpu" "$cores" >/dev/null &&
			xl sched-rtds -d "$domain" -v "$vcpu" -p "$period" -b "$budget" -e "$extra" || code=4
	done
}
first=$(changes 1) || exit 4
second=$(changes 2) || exit 4
[ -z "$first" ] || make <<-FIRST
	$first
FIRST
if [ -n "$first" ] && [ -n "$second" ]; then
	# A change counts from the next replenishment on, which is at the end of the old period.
	sleep "$(echo "$first" | awk '$7 > most { most = $7 } END { printf "%.6f", most / 1000000 + 0.001 }')"
fi
[ -z "$second" ] || make <<-SECOND
	$second
SECOND

now >"$before" || exit 4
planned >"$target" || exit 4
differ=$(awk 'NR == FNR { is[$0]; next } !($0 in is)' "$before" "$target") || exit 4
if [ -n "$differ" ]; then
	say "not so after all, by xl:"
	echo "$differ" >&2
	exit 4
fi
[ $wanted = servers.txt ] || rm $found
exit $code
