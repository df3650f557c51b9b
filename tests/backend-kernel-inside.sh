# Inside the guest of tests/backend-kernel.sh, by busybox: services under the backend kernel have their budgets, are started again in
# their place and leave nothing; what throws the scheduler out is told.
giusto=$1
tree=/sys/fs/cgroup
failed=0
export GIUSTO_STATE=/tmp/state
fail() {
	echo "FAILED: $*"
	failed=1
}
wait_for() { # WHAT COMMAND...
	what=$1
	shift
	for _ in $(seq 300); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	fail "not within half a minute: $what"
	$giusto status
	tail -20 /tmp/log
}
members() { # SERVICE: all that is below a group of its name
	find $tree -path "*giusto.$1.service*" -name cgroup.procs -exec cat {} + | sort -n
}
enforces() { $giusto status | grep -q -e enforcing -e degraded; }
has_members() { [ "$(members "$1" | wc -l)" -ge "$2" ]; }
other_than() { has_members three "$2" && ! members three | grep -qx "$1"; }
state() { [ "$(cat /sys/kernel/sched_ext/state)" = "$1" ]; }
under_ext() { # how many threads have SCHED_EXT
	grep -l '^policy.*: *7$' /proc/[0-9]*/task/*/sched 2>/dev/null | wc -l
}
used() { # SERVICE: us of processor time that its group has had
	find $tree -path "*giusto.$1.service/cpu.stat" -exec cat {} + | awk '$1 == "usage_usec" { us += $2 } END { print us + 0 }'
}
work='while :; do :; done'
cat >/tmp/site.yaml <<SITE
giusto: 1
hosts: {guest: {cores: 1}}
services:
  three: {start: [sh, -c, '(setsid sh -c "$work" &); (setsid sh -c "$work" &); $work'], promise: {supply: 10ms/50ms}}
  half: {start: [sh, -c, '$work'], promise: {supply: 20ms/50ms}, server: periodic_strict}
SITE
$giusto doctor | grep -q 'backend kernel.*usable' || { fail "doctor does not call it usable"; $giusto doctor; }
start() {
	$giusto run /tmp/site.yaml --backend kernel --host guest --out /tmp/out >/tmp/log 2>&1 &
	pid=$!
	wait_for "it enforces" enforces
	wait_for "three processes" has_members three 3
	state enabled || fail "sched_ext is $(cat /sys/kernel/sched_ext/state)"
}
start
grep -q giusto /sys/kernel/sched_ext/root/ops || fail "another scheduler: $(cat /sys/kernel/sched_ext/root/ops)"
wait_for "all four under SCHED_EXT" [ "$(under_ext)" = 4 ]
# Both always want more. What the host takes from the guest it takes from both.
seen() { echo "$(used three) $(used half) $(awk '{ print $1 * 1000000 }' /proc/uptime)"; }
shares() {
	awk '{
		three = ($4 - $1) / ($6 - $3); half = ($5 - $2) / ($6 - $3)
		printf "three: %.2f %% of a core, 20 reserved; half: %.2f, 40 reserved\n", 100 * three, 100 * half
		exit !(three > 0 && half / three > 1.8 && half / three < 2.2 && three < 0.22 && half < 0.44) }'
}
before=$(seen)
sleep 3
echo "$before $(seen)" | shares || fail "not what is reserved"
leader=$(members three | head -1)
kill -9 "$leader"
wait_for "it is started again" other_than "$leader" 3
state enabled || fail "thrown out when a service ended"
kill -INT $pid
wait $pid || fail "exit code $?: $(tail -5 /tmp/log)"
wait_for "the scheduler is gone" state disabled
[ "$(under_ext)" = 0 ] || fail "$(under_ext) threads have SCHED_EXT after the end"

start
kill -9 $pid
wait_for "the scheduler is gone with who loaded it" state disabled
wait_for "what was recorded is undone" [ "$(under_ext)" = 0 ]

start
echo S >/proc/sysrq-trigger # throws any scheduler out
wait_for "its loss is told" grep -q 'thrown it out' /tmp/log
wait_for "it is loaded again" state enabled
wait_for "all four are under it again" [ "$(under_ext)" = 4 ]
wait_for "what is told is over" enforces
killall -9 giusto-kernel
wait_for "the loader's end is told" grep -q 'giusto-kernel has ended' /tmp/log
wait_for "it is loaded again" state enabled
sleep 2
before=$(seen)
sleep 3
echo "$before $(seen)" | shares || fail "not what is reserved, after it was loaded again"
kill -INT $pid
wait $pid || fail "exit code $?: $(tail -5 /tmp/log)"
wait_for "the scheduler is gone" state disabled
[ "$(under_ext)" = 0 ] || fail "$(under_ext) threads have SCHED_EXT after the end"
grep -e 'thrown it out' -e 'has ended' /tmp/log | head -2
[ $failed = 0 ] && echo "backend kernel: passed"
exit $failed
