# Inside the guest of tests/services-guest.sh, by busybox. Each backend: services are contained, are started again in their place, and
# leave nothing.
. "$(dirname "$0")/inside.sh"
told() { $giusto status --json | grep -q "$1"; }
for backend in manager deadline; do
	# Two grandchildren in sessions of their own, and itself; a reservation is for one thread that does the work.
	work='while :; do :; done' many=3
	double="'(setsid sh -c \"$work\" &); (setsid sh -c \"$work\" &); $work'"
	[ $backend = deadline ] && double="'$work'" many=1
	promise='promise: {supply: 10ms/50ms}'
	[ $backend = deadline ] && promise="$promise, server: constant_bandwidth"
	cat >/tmp/site.yaml <<SITE
giusto: 1
hosts: {guest: {cores: 1}}
services:
  double: {start: [sh, -c, $double], $promise, limits: {tasks: 16, memory: 64M}}
  batch: {start: [sh, -c, 'while :; do :; done'], promise: leftovers$([ $backend = manager ] && echo ', at-most: 30%')}
SITE
	$giusto run /tmp/site.yaml --backend $backend --host guest --out /tmp/out >/tmp/log 2>&1 &
	pid=$!
	wait_for "$backend enforces" enforces
	wait_for "$backend: $many processes in its groups" has_members double $many
	for one in $(members double); do
		grep -q 'Cpus_allowed_list:.*	1$' /proc/$one/status || fail "$backend: process $one is not on core 1: $(cat /proc/$one/cgroup)"
	done
	[ "$(cat $tree/giusto.double.service/pids.max)" = 16 ] || fail "no limit of tasks"
	leader=$(members double | head -1)
	before=$(members batch)
	kill -9 "$leader"
	wait_for "$backend: it is started again" other_than double "$leader" $many
	wait_for "$backend: status tells" told '"restarts": *1'
	[ "$(members batch)" = "$before" ] || fail "$backend: the other one was disturbed"
	[ $backend = deadline ] && wait_for "reserved again" sh -c "chrt -p \$(cat $tree/giusto.core1/giusto.double.service/cgroup.procs | head -1) | grep -q DEADLINE"
	all=$(members double; members batch)
	kill -INT $pid
	wait $pid || fail "$backend: exit code $?: $(tail -5 /tmp/log)"
	for one in $all; do [ ! -d /proc/$one ] || fail "$backend: process $one is left"; done
	left=$(find $tree -name 'giusto*')
	[ -z "$left" ] || fail "$backend: left: $left"
	# The same after kill -9: the first processes die with giusto, restore ends the rest.
	$giusto run /tmp/site.yaml --backend $backend --host guest --out /tmp/out >/tmp/log 2>&1 &
	pid=$!
	wait_for "$backend enforces again" enforces
	wait_for "$backend: $many processes again" has_members double $many
	all=$(members double; members batch)
	kill -9 $pid
	wait $pid
	$giusto restore
	for one in $all; do [ ! -d /proc/$one ] || fail "$backend: process $one is left after kill -9"; done
	left=$(find $tree -name 'giusto*')
	[ -z "$left" ] || fail "$backend: left after kill -9: $left"
	[ $failed = 0 ] && echo "ok: $backend"
done
exit $failed
