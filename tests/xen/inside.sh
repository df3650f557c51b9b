# In the control domain: domains that spin have what site.yaml and after.yaml say, by Xen's own accounts.
set -u
cd /work
failed=0
check() { # WHAT, as a condition that follows
	what=$1
	shift
	if "$@"; then echo "ok: $what"; else echo "FAILED: $what" && failed=1; fi
}
is() { [ "$1" = "$2" ] || { echo "  $1, expected $2" && return 1; }; }
within() { # VALUE EXPECTED TOLERANCE
	awk -v is="$1" -v wanted="$2" -v by="$3" 'BEGIN { exit !(is - wanted <= by && wanted - is <= by) }' ||
		{ echo "  $1, expected $2 +- $3" && return 1; }
}
start() {
	printf 'name = "%s"\nkernel = "/work/spin"\ntype = "pv"\nmemory = 16\nvcpus = 1\non_crash = "preserve"\n' "$1" >"$1.cfg"
	xl create -q "$1.cfg"
}
used() { xl list "$1" | awk 'NR == 2 { print $NF }'; }
shares() { # SECONDS: of each domain, in percent of the core
	for domain in large small rest; do used $domain; done >from
	begin=$(cut -d' ' -f1 /proc/uptime)
	sleep "$1"
	for domain in large small rest; do used $domain; done >to
	end=$(cut -d' ' -f1 /proc/uptime)
	paste from to | awk -v time="$begin $end" 'BEGIN { split(time, t) } { printf "%.2f ", 100 * ($2 - $1) / (t[2] - t[1]) }'
}

echo "--- before"
start large && start small && start rest
xl sched-rtds -v all >asfound
xl vcpu-list | awk '{ print $1, $3, $(NF - 2), $NF }' >asfound-cores
sh site/x1/apply.sh >log 2>&1
check "the plan is applied" is "$? $(grep -o "^[a-z]*" log | sort -u | tr "\n" " ")" "0 large rest small "
cat log
sh site/x1/apply.sh >log 2>&1
check "applied again, it changes nothing" is "$?$(cat log)" 0
set -- $(shares 20)
echo "large $1 %, small $2 %, rest $3 %"
check "large has 25 %" within "$1" 25 0.5
check "small has 10 %" within "$2" 10 0.5
check "rest has what is left, but for what the control domain takes" within "$3" 64 2

echo "--- another plan"
sh after/x1/apply.sh >log 2>&1
check "the other plan is applied" is "$?" 0
cat log
check "what is cut is cut first" is "$(grep -o '^[a-z]*' log | head -1)" large
set -- $(shares 20)
echo "large $1 %, small $2 %, rest $3 %"
check "large has 10 %" within "$1" 10 0.5
check "small has 25 %" within "$2" 25 0.5

echo "--- killed on the way back"
sh site/x1/apply.sh >log 2>&1 &
pid=$!
sleep 0.3
kill -9 $pid
sh site/x1/apply.sh >log 2>&1
check "after kill -9 it is applied whole" is "$?" 0
set -- $(shares 10)
check "large has 25 % again" within "$1" 25 1

echo "--- what is in the way"
start stranger
sh site/x1/apply.sh >log 2>&1
check "a domain that no plan knows is refused" is "$? $(grep -c 'domain stranger is not in the plan' log)" "4 1"
xl destroy stranger
xl destroy small
sh site/x1/apply.sh >log 2>&1
check "a domain that does not run is told" is "$? $(grep -c 'domain small does not run' log)" "3 1"
start small
sh site/x1/apply.sh >log 2>&1
check "when it runs it has its share again" is "$? $(grep -c '^small' log)" "0 1"

echo "--- back"
sh site/x1/apply.sh --undo >log 2>&1
check "it is undone" is "$?" 0
sh after/x1/apply.sh --undo >log 2>&1
check "undone again, it changes nothing" is "$? $(grep -c nothing log)" "0 1"
xl sched-rtds -v all | awk '{ print $1, $3, $4, $5, $6 }' | sort >after.txt
awk '{ print $1, $3, $4, $5, $6 }' asfound | sort | cmp - after.txt
check "all is as it was found" is "$?" 0
xl vcpu-list | awk '{ print $1, $3, $(NF - 2), $NF }' | sort >after.txt
sort asfound-cores | cmp - after.txt
check "cores are as they were found" is "$?" 0
exit $failed
