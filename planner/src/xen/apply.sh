#!/bin/sh
# Has Xen's scheduler RTDS serve domains as a plan of Giusto says. Run it as root in the control domain: after a domain was
# started, and after each export. Where all is as planned it changes nothing. Every change is read back.
#   apply.sh           what servers.txt beside it says
#   apply.sh --undo    what was there before the first time, which is in /run/giusto-xen: a boot begins anew, as Xen does
# Exit: 0 all is so, 2 it was called otherwise, 3 no RTDS, or what is planned does not run, 4 something failed or is in the
# way.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")" || exit 4
state=/run/giusto-xen
say() { echo "apply.sh: $*" >&2; }
case "$#${1-}" in
0) undo= ;;
1--undo) undo=1 ;;
*) say "expected nothing or --undo" && exit 2 ;;
esac
if [ -n "$undo" ] && ! [ -e $state/before.txt ]; then
	say "there is nothing to undo: no $state/before.txt"
	exit 0
fi
if [ -z "$undo" ] && ! [ -e servers.txt ]; then
	say "there is no servers.txt beside it: copy the whole folder that 'giusto export xen' wrote"
	exit 4
fi

# One at a time: a second one would raise while the first waits.
mkdir -p $state || exit 4
if ! mkdir $state/lock 2>/dev/null; then
	other=$(cat $state/lock/pid 2>/dev/null)
	if [ -z "$other" ] || kill -0 "$other" 2>/dev/null; then
		say "another apply.sh is at work (process ${other:-unknown}): call this again;" \
			"if there is none, remove $state/lock"
		exit 4
	fi
	rm -rf $state/lock
	mkdir $state/lock || exit 4
fi
echo $$ >$state/lock/pid
work=$state/lock
trap 'rm -rf $state/lock' EXIT
trap 'exit 4' HUP INT TERM

asked() { # FILE WORD...: what xl prints
	file=$1
	shift
	xl "$@" >"$work/$file" 2>"$work/why" || {
		say "'xl $*' fails; run this as root in the control domain. It says: $(head -1 "$work/why")"
		exit 4
	}
}
asked info info
scheduler=$(awk '$1 == "xen_scheduler" { print $3 }' $work/info)
last=$(awk '$1 == "max_cpu_id" { print $3 }' $work/info)
if [ "$scheduler" != rtds ]; then
	say "Xen's scheduler is '$scheduler', not rtds: boot a Xen that has it with sched=rtds (docs/xen.md)"
	exit 3
fi

# Lists of cores: xl has "all" and "1-3", plans have 1,2,3.
lists='
function each(text, parts, ends, count, i, cpu, list) {
	if (text == "all") text = "0-" last
	count = split(text, parts, ",")
	for (i = 1; i <= count; i++) {
		if (split(parts[i], ends, "-") == 1) ends[2] = ends[1]
		for (cpu = ends[1] + 0; cpu <= ends[2] + 0; cpu++) list = list (list == "" ? "" : ",") cpu
	}
	return list
}'
# A line a virtual CPU that there is: DOMAIN VCPU CORES PERIOD BUDGET EXTRA CORES-BY-XL, times in us. Names may have blanks, as no
# planned one has.
now() {
	asked vcpus vcpu-list
	asked rtds sched-rtds -v all
	awk -v last="$last" "$lists"'
		function name(end, i, text) {
			for (i = 1; i <= end; i++) text = text (i == 1 ? "" : "?") $i
			return text
		}
		part == 1 && NF > 8 && $(NF - 1) == "/" && $(NF - 6) ~ /^[0-9]+$/ {
			by[name(NF - 8), $(NF - 6)] = $(NF - 2)
			listed++
		}
		part == 2 && NF > 5 && ($NF == "yes" || $NF == "no") {
			key = name(NF - 5)
			if (!((key, $(NF - 3)) in by)) exit lost = 1
			at = by[key, $(NF - 3)]
			print key, $(NF - 3), each(at), $(NF - 2), $(NF - 1), $NF == "yes" ? 1 : 0, at
			listed--
		}
		END { exit lost || listed != 0 }' part=1 $work/vcpus part=2 $work/rtds >"$1" && [ -s "$1" ] || {
		say "xl tells of other virtual CPUs each time it is asked: call this again"
		exit 4
	}
}
# The same of what is wanted of those that there are; "all" virtual CPUs of a domain are those that it has now. Undone, a domain
# that was not there then has what Xen gives to a new one.
planned() {
	if [ -n "$undo" ]; then
		awk -v every="0-$last" "$lists"'
			part == 1 { there[$1, $2]; next }
			part == 2 && ($1, $2) in there { print; done[$1, $2] }
			part == 3 && !/^#/ { ours[$1] }
			END {
				for (key in there) {
					split(key, at, SUBSEP)
					if (at[1] in ours && !(key in done))
						print at[1], at[2], each(every), 10000, 4000, 1, "all"
				}
			}
		' part=1 "$1" part=2 $state/before.txt part=3 $([ -e servers.txt ] && echo servers.txt)
	else
		awk 'part == 1 { there[$1, $2]; if ($2 >= count[$1]) count[$1] = $2 + 1; next }
			/^#/ { next }
			$2 != "all" { if (($1, $2) in there) print $0, $3; next }
			{ for (i = 0; i < count[$1]; i++) print $1, i, $3, $4, $5, $6, $3 }' part=1 "$1" part=2 servers.txt
	fi
}
now $work/before
planned $work/before >$work/target || exit 4

# What no plan knows has 4 of 10 ms by default, for which no proof has room.
in_the_way() {
	awk -v last="$last" '
		part == 1 { if (!/^#/) { ours[$1]; if ($2 == "all") most[$1] = $7 }; next }
		part == 2 { target[$1, $2]; n = split($3, list, ","); if (list[n] > last) high = list[n]; next }
		{ vcpus[$1]++ }
		!(($1, $2) in target) && $5 * 1000 > $4 && !($1 in told) {
			told[$1]
			shown = $1
			gsub(/[?]/, " ", shown)
			more = " has a virtual CPU " $2 " that is not in the plan: "
			if ($1 == "Domain-0")
				print "the control domain" more "boot Xen with dom0_max_vcpus=" $2 \
					", or name a core for it in dom0 of the site"
			else if ($1 in ours)
				print "domain " shown more "start it with vcpus = " $2
			else
				print "domain " shown " is not in the plan and has a reservation: add it to the site" \
					" (promise: leftovers), or take it: xl sched-rtds -d \"" shown "\" -v all -p 50000 -b 50 -e 1"
		}
		END {
			if (high) print "the plan has core " high ", and this host has 0 to " last ": correct cores in the site"
			for (name in most) if (vcpus[name] > most[name])
				print "domain " name " of leftovers has " vcpus[name] " virtual CPUs, and the plan has room for" \
					" " most[name]
		}' part=1 servers.txt part=2 $work/target part=3 $work/before
}
# What is planned and is not there.
absent() {
	awk 'part == 1 { there[$1]; vcpu[$1, $2]; next }
		/^#/ || $1 in told { next }
		!($1 in there) { told[$1]; print "domain " $1 " does not run: call this again when it does" }
		$1 in there && $2 != "all" && !(($1, $2) in vcpu) {
			told[$1]
			print "domain " $1 " has no virtual CPU " $2 ": start it with as many as the plan has (vcpus in its .cfg)"
		}' part=1 $work/before part=2 servers.txt
}
if [ -z "$undo" ]; then
	in_the_way >$work/told || exit 4
	if [ -s $work/told ]; then
		while read -r line; do say "$line"; done <$work/told
		say "nothing was changed"
		exit 4
	fi
	[ -e $state/before.txt ] || { cp $work/before $work/found && mv $work/found $state/before.txt; } || exit 4
fi

# What changes, in two steps. In the first nothing asks for more in any window of time than before, nor than afterwards: the least
# budget of both, the longest period of both. In the second all is as wanted. One that goes to another core has the least that
# there is and extra time meanwhile; but for the control domain, which does all this: it is the last in the first step, and the first in
# the second. STEP: 1 or 2; each line has its period of now added.
changes() {
	awk -v step="$1" '
		part == 1 {
			was[$1, $2] = $3 " " $4 " " $5 " " $6
			cores[$1, $2] = $3
			by[$1, $2] = $7
			period[$1, $2] = $4
			budget[$1, $2] = $5
			next
		}
		was[$1, $2] == $3 " " $4 " " $5 " " $6 { next }
		{
			least = budget[$1, $2] < $5 ? budget[$1, $2] : $5
			longest = period[$1, $2] > $4 ? period[$1, $2] : $4
			between = longest " " least " " $6
			moves = cores[$1, $2] != $3
			if (moves && $1 != "Domain-0") between = longest " 10 1"
			line = ""
			who = $1 " " $2
			wanted = $4 " " $5 " " $6
			if (step == 1 && cores[$1, $2] " " between != was[$1, $2])
				line = who " " by[$1, $2] " " between " " period[$1, $2]
			if (step == 2 && (moves || between != wanted)) line = who " " $7 " " wanted " " longest
			if (line == "") next
			if ($1 != "Domain-0") others = others line "\n"
			else own = own line "\n"
		}
		END { printf "%s", step == 1 ? others own : own others }' part=1 $work/before part=2 $work/target
}
# A change counts from the next replenishment on, at the end of a period that runs. Until when such a one may last is kept, for
# who is killed meanwhile and calls again. FILE: of lines that change.
lasts() {
	up=$(cut -d. -f1 /proc/uptime) || exit 4
	more=$(awk '$7 > most { most = $7 } END { print int(most / 1000000) + 2 }' "$1") || exit 4
	until=$(cat $state/until 2>/dev/null || echo 0)
	[ "$until" -ge $((up + more)) ] || { echo $((up + more)) >$work/until && mv $work/until $state/until; } || exit 4
}
code=0
make() { # FILE
	while read -r domain vcpu cores period budget extra _; do
		echo "$domain $vcpu: core $cores, $budget of $period us$([ "$extra" = 1 ] && echo ', extra time')"
		xl vcpu-pin "$domain" "$vcpu" "$cores" >/dev/null &&
			xl sched-rtds -d "$domain" -v "$vcpu" -p "$period" -b "$budget" -e "$extra" || code=4
	done <"$1"
}
changes 1 >$work/first || exit 4
changes 2 >$work/second || exit 4
if [ -s $work/first ]; then
	lasts $work/first
	make $work/first
	if [ $code != 0 ]; then
		say "what is to be cut could not all be cut, so nothing was raised; see what xl says above"
		exit 4
	fi
fi
if [ -s $work/second ]; then
	wait=$(($(cat $state/until 2>/dev/null || echo 0) - $(cut -d. -f1 /proc/uptime)))
	[ $wait -le 0 ] || sleep $wait || exit 4
	lasts $work/second
	make $work/second
fi

now $work/before
planned $work/before >$work/target || exit 4
differ=$(awk 'part == 1 { is[$1, $2, $3, $4, $5, $6]; next } !(($1, $2, $3, $4, $5, $6) in is) { print $1, $2 }' \
	part=1 $work/before part=2 $work/target) || exit 4
if [ -n "$differ" ] || [ $code != 0 ]; then
	say "not as planned after all, by xl:" $differ
	exit 4
fi
if [ -n "$undo" ]; then
	rm $state/before.txt
	exit 0
fi
absent >$work/told || exit 4
while read -r line; do say "$line"; done <$work/told
[ -s $work/told ] && exit 3
exit 0
