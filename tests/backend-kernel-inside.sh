# Inside the guest of tests/backend-kernel.sh, by busybox: services under the backend kernel have their budgets, are started again
# in their place and leave nothing; what throws the scheduler out is told.
. "$(dirname "$0")/inside.sh"
state() { [ "$(cat /sys/kernel/sched_ext/state)" = "$1" ]; }
under_ext() { # how many threads have SCHED_EXT
	grep -l '^policy.*: *7$' /proc/[0-9]*/task/*/sched 2>/dev/null | wc -l
}
used() { # SERVICE: us of processor time that its group has had
	find $tree -path "*giusto.$1.service/cpu.stat" -exec cat {} + | awk '$1 == "usage_usec" { us += $2 } END { print us + 0 }'
}
all_under() { [ "$(under_ext)" -ge "$1" ]; }
none_under() { [ "$(under_ext)" = 0 ]; }
quiet() { ! $giusto status | grep -q 'cannot keep the scheduler'; }
work='while :; do :; done'
# One that is adopted and outlives giusto; it forks one that stays after a while.
rest='while :; do sleep 1; done'
sh -c "sleep 8; (: adopted; $rest) & : adopted; $rest" &
adopted=$!
site() { # MORE OF half
	cat >/tmp/site.yaml <<-SITE
		giusto: 1
		hosts: {guest: {cores: 1}}
		services:
		  three:
		    start: [sh, -c, '(setsid sh -c "$work" &); (setsid sh -c "$work" &); $work']
		    promise: {supply: 10ms/50ms}
		  half: {start: [sh, -c, '$work'], promise: {supply: 20ms/50ms}$1}
		  own: {adopt: {pid: $adopted}, promise: {supply: 2ms/50ms}}
		  batch: {start: [sh, -c, '$work'], promise: leftovers}
	SITE
}
site ', server: periodic_strict'
$giusto doctor | grep -q 'backend kernel.*usable' || { fail "doctor does not call it usable"; $giusto doctor; }
start() { # BACKEND [PROCESSES]
	$giusto run /tmp/site.yaml --backend $1 --host guest --out /tmp/out >/tmp/log 2>&1 &
	pid=$!
	wait_for "it enforces" enforces
	wait_for "its processes" has_members three ${2-3}
}
# Both always want more. What the host takes from the guest it takes from both.
seen() { echo "$(used three) $(used half) $(awk '{ print $1 * 1000000 }' /proc/uptime)"; }
if [ "${2-}" = compare ]; then
	woken() { # how often threads of giusto began to wait
		cat /proc/$pid/task/*/status | awk '/^voluntary/ { times += $2 } END { print times }'
	}
	printf '%-12s %-10s %10s %10s %22s\n' period backend 'of 20 %' 'of 40 %' 'wake-ups of giusto'
	for period in 50 5; do
		cat >/tmp/site.yaml <<-SITE
			giusto: 1
			hosts: {guest: {cores: 1}}
			services:
			  three: {start: [sh, -c, '$work'], promise: {supply: $((period / 5))ms/${period}ms}}
			  half: {start: [sh, -c, '$work'], promise: {supply: $((2 * period / 5))ms/${period}ms}}
		SITE
		for backend in manager deadline kernel; do
			$giusto plan /tmp/site.yaml --backend $backend --host guest >/tmp/refused 2>&1 || {
				printf '%-12s %-10s %s\n' "$period ms" $backend "$(grep -m 1 -o 'backend.*' /tmp/refused)"
				continue
			}
			start $backend 1
			sleep 2
			before="$(seen) $(woken)"
			sleep 8
			echo "$before $(seen) $(woken)" | awk -v backend=$backend -v period="$period ms" '{
				passed = $7 - $3; three = 100 * ($5 - $1) / passed; half = 100 * ($6 - $2) / passed
				printf "%-12s %-10s %8.2f %% %8.2f %% ", period, backend, three, half
				printf "%20.0f/s\n", 1e6 * ($8 - $4) / passed }'
			kill -INT $pid
			wait $pid || fail "$backend: exit code $?: $(tail -5 /tmp/log)"
		done
	done
	exit $failed
fi
start kernel
state enabled || fail "sched_ext is $(cat /sys/kernel/sched_ext/state)"
grep -q giusto /sys/kernel/sched_ext/root/ops || fail "another scheduler: $(cat /sys/kernel/sched_ext/root/ops)"
wait_for "all under SCHED_EXT" all_under 6
shares() {
	awk '{
		three = ($4 - $1) / ($6 - $3); half = ($5 - $2) / ($6 - $3)
		printf "three: %.2f %% of a core, 20 reserved; half: %.2f, 40 reserved\n", 100 * three, 100 * half
		exit !(three > 0.1 && half / three > 1.6 && half / three < 2.4 && three < 0.24 && half < 0.48) }'
}
before=$(seen)
sleep 3
echo "$before $(seen)" | shares || fail "not what is reserved"
leader=$(members three | head -1)
kill -9 "$leader"
wait_for "it is started again" other_than three "$leader" 3
state enabled || fail "thrown out when a service ended"
# Let go and reserved for anew, beside one that takes all that is left.
site ''
$giusto reload || fail "a reload: $(tail -5 /tmp/log)"
before=$(seen)
sleep 3
echo "$before $(seen)" | shares || fail "not what is reserved, after a reload"
state enabled || fail "thrown out by a reload"
kill -INT $pid
wait $pid || fail "exit code $?: $(tail -5 /tmp/log)"
wait_for "the scheduler is gone" state disabled
wait_for "no thread has SCHED_EXT after the end" none_under
[ "$(ps -o args | grep -c "[:] adopted")" -ge 2 ] || fail "what was adopted, or its child, has ended"

start kernel
wait_for "all under SCHED_EXT" all_under 7
kill -9 $pid
wait_for "the scheduler is gone with who loaded it" state disabled
wait_for "what was recorded is undone" none_under

start kernel
echo S >/proc/sysrq-trigger # throws any scheduler out
wait_for "its loss is told" grep -q 'thrown it out' /tmp/log
leader=$(members three | head -1)
kill -9 "$leader" # while it is lost
wait_for "it is started again" other_than three "$leader" 3
wait_for "it is loaded again" state enabled
wait_for "what is told is over" quiet
before=$(seen)
sleep 3
echo "$before $(seen)" | shares || fail "not what is reserved, after it was thrown out"
killall -9 giusto-kernel
wait_for "the loader's end is told" grep -q 'giusto-kernel has ended' /tmp/log
wait_for "it is loaded again" state enabled
wait_for "what is told is over" quiet
before=$(seen)
sleep 3
echo "$before $(seen)" | shares || fail "not what is reserved, after it was loaded again"
kill -INT $pid
wait $pid || fail "exit code $?: $(tail -5 /tmp/log)"
wait_for "the scheduler is gone" state disabled
wait_for "no thread has SCHED_EXT after the end" none_under
grep -e 'thrown it out' -e 'has ended' /tmp/log | head -2
[ $failed = 0 ] && echo "backend kernel: passed"
exit $failed
