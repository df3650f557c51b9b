# Inside the guest of tests/services-guest.sh, by busybox: containers that runc has made, adopted under cgroup v2. Their limits
# hold while giusto enforces, their runtime does what it always does, and afterwards they are where they were.
. "$(dirname "$0")/inside.sh"
export XDG_RUNTIME_DIR=/run
bundle=$2
mkdir -p "$bundle/rootfs/bin"
cp /bin/busybox "$bundle/rootfs/bin/"
for name in sh sleep seq; do ln -sf busybox "$bundle/rootfs/bin/$name"; done
echo '+memory +pids' >$tree/cgroup.subtree_control
run() { runc run --no-pivot --bundle "$bundle" -d "$1" </dev/null >/dev/null 2>&1; }
pid() { cat $tree/search/cgroup.procs $tree/search/giusto.search/cgroup.procs 2>/dev/null | head -1; }
held() { [ "$(cat $tree/search/giusto.search/cgroup.procs | wc -l)" -ge "$1" ]; }
used() { cut -d' ' -f1 "/proc/$(pid)/schedstat"; }
share() { # WHAT LEAST MOST: thousandths of a core; an emulated machine stands still now and then
	for _ in 1 2 3 4; do
		begin=$(used) from=$(cut -d' ' -f1 /proc/uptime)
		sleep 4
		end=$(used) to=$(cut -d' ' -f1 /proc/uptime)
		now=$(awk "BEGIN { printf \"%d\", ($end - $begin) / 1e6 / ($to - $from) }")
		[ "$now" -ge "$2" ] && [ "$now" -le "$3" ] && echo "$1: $now thousandths of a core" && return
	done
	fail "$1: $now thousandths of a core, expected $2 to $3"
	$giusto status
}
run search || fail "runc cannot start a container: $(runc run --no-pivot --bundle "$bundle" again 2>&1)"
share "without giusto" 500 1000
cat >/tmp/site.yaml <<'SITE'
giusto: 1
hosts: {guest: {cores: 1}}
services:
  search: {adopt: {cgroup: search}, promise: {supply: 30ms/100ms}}
SITE
begin_giusto() {
	$giusto run /tmp/site.yaml --backend manager --host guest --out /tmp/out >/tmp/log 2>&1 &
	giusto_pid=$!
	wait_for "it enforces" enforces
}
begin_giusto
share "with giusto" 250 330
held 1 || fail "it is not below its container's cgroup: $(cat "/proc/$(pid)/cgroup")"
# Its limits: more processes than it may have are refused, those that come by the runtime are taken in.
runc exec -d search sh -c 'for one in $(seq 60); do sleep 1000 & done; wait' </dev/null >/dev/null 2>&1 || fail "runc exec"
wait_for "those that it may have are there, under the server" held 12
refused() { [ "$(cat $tree/search/pids.events)" != "max 0" ]; }
wait_for "one more is refused" refused
[ "$(cat $tree/search/pids.current)" -le 20 ] || fail "$(cat $tree/search/pids.current) tasks, 20 are allowed"
[ "$(cat $tree/search/memory.current)" -gt 0 ] || fail "its memory is not counted where its limit is"
# The runtime stops it and lets it go on.
runc pause search
before=$(used)
sleep 1
[ "$(used)" = "$before" ] || fail "a paused container ran on under giusto"
runc resume search
share "paused and resumed" 230 330
# It is made anew under the same name.
runc kill search KILL
wait_for "runc deletes it" runc delete search
[ ! -d $tree/search ] || fail "its cgroup is left"
run search || fail "runc cannot start it anew"
wait_for "it is adopted again" held 1
share "made anew" 250 330
# Giusto dies: its watchdog puts the process back.
kill -9 $giusto_pid
wait $giusto_pid
back() { [ "$(cat "/proc/$(pid)/cgroup")" = 0::/search ] && [ ! -d $tree/search/giusto.search ]; }
wait_for "the process is where it was" back
$giusto restore >/dev/null
share "after giusto" 500 1000
begin_giusto
share "with giusto again" 250 330
kill -INT $giusto_pid
wait $giusto_pid || fail "exit code $?: $(tail -5 /tmp/log)"
back || fail "it is not where it was: $(cat "/proc/$(pid)/cgroup")"
runc kill search KILL
wait_for "runc deletes it in the end" runc delete search
[ $failed = 0 ] && echo "ok: containers"
exit $failed
