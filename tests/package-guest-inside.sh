#!/bin/bash
# Inside the guest of tests/package-guest.sh, as root under systemd.
set -euo pipefail
exec >/dev/console 2>&1
trap 'code=$?; [ $code = 0 ] || journalctl --no-pager -n 30 -u giusto; echo "guest exit code: $code"; sleep 1' EXIT
fail() {
	echo "FAILED: $*"
	exit 1
}
# until COMMAND succeeds, for a minute at most
await() {
	local turns=0
	until "$@"; do
		turns=$((turns + 1))
		[ $turns -lt 120 ] || fail "waited in vain for: $*"
		sleep 0.5
	done
}
core=/sys/fs/cgroup/giusto.core1
isolated() { [ "$(cat $core/cpuset.cpus.partition 2>/dev/null)" = root ]; }
# What an enforced plan may change, to be compared.
state() {
	grep -ow cpuset /sys/fs/cgroup/cgroup.subtree_control || true
	find /sys/fs/cgroup -name 'giusto*'
	for file in /proc/[0-9]*/cmdline; do
		grep -lsz '^infinity$' "$file" || true
	done
}
main() { systemctl show -P MainPID giusto; }

dpkg -i /giusto.deb >/dev/null
before=$(state)
systemctl start giusto
[ "$(systemctl is-active giusto)" = inactive ] || fail "it runs without a site"
echo "ok: without a site nothing starts"

cat >/etc/giusto/site.yaml <<'SITE'
giusto: 1
hosts: {guest: {cores: 1}}
services:
  beat: {start: sleep infinity, tasks: [{wcet: 1ms, period: 20ms}], promise: as-if-alone}
  batch: {start: [sh, -c, "while :; do :; done"], promise: leftovers}
SITE
if giusto run --help | grep -q -- --metrics; then
	notifies=yes
else
	notifies=
	echo "NOTE: this giusto does not speak sd_notify yet: READY, reload and the watchdog are not tried"
	mkdir -p /etc/systemd/system/giusto.service.d
	printf '[Service]\nType=exec\nWatchdogSec=0\n' >/etc/systemd/system/giusto.service.d/silent.conf
	systemctl daemon-reload
fi
systemctl start giusto || fail "systemctl start"
[ -z "$notifies" ] || isolated || fail "READY was said before the core was isolated"
await isolated
beat() { cat $core/cgroup.procs | while read -r pid; do grep -qz '^infinity$' /proc/"$pid"/cmdline && echo "$pid"; done; }
reserved() { chrt -p "$(beat)" 2>/dev/null | grep -q SCHED_DEADLINE; }
await reserved
echo "ok: started, core 1 is a partition, its service is under SCHED_DEADLINE"

[ "$(stat -c %a /run/giusto)" = 710 ] || fail "/run/giusto has mode $(stat -c %a /run/giusto)"
[ -e /var/lib/giusto/out/plan.json ] || fail "no plan in /var/lib/giusto"
# Whatever makes systemd go over its cgroups again must leave the partition alone.
systemctl daemon-reload
systemctl set-property --runtime system.slice IOWeight=200 MemoryHigh=900M
systemd-run -q --scope -p MemoryMax=50M true
isolated && reserved || fail "systemd has undone the partition: $(cat $core/cpuset.cpus.partition)"
echo "ok: the partition outlives daemon-reload and changed controllers"

if [ -n "$notifies" ]; then
	pid=$(main)
	systemctl reload giusto
	sleep 2
	[ "$(main)" = "$pid" ] && isolated && reserved || fail "after a reload"
	echo "ok: reloaded"
fi

pid=$(main)
systemctl kill -s KILL --kill-who=main giusto
again() { [ "$(main)" != 0 ] && [ "$(main)" != "$pid" ] && isolated && reserved; }
await again
[ "$(systemctl show -P NRestarts giusto)" = 1 ] || fail "restarted $(systemctl show -P NRestarts giusto) times"
journalctl -u giusto | grep -q 'undid [0-9]* changes' || fail "ExecStopPost has undone nothing"
echo "ok: after kill -9 it was undone by ExecStopPost and started again"

systemctl stop giusto
[ "$(systemctl is-active giusto)" = inactive ] || fail "after stop it is $(systemctl is-active giusto)"
after=$(state)
[ "$after" = "$before" ] || fail "after stop: $after; before: $before"
[ "$(ls /run/giusto)" = journal ] || fail "left in /run/giusto: $(ls /run/giusto)"
echo "ok: stopped, the host is as it was"

# By hand, in a scope that asks for cpusets as the unit does. What it leaves when killed is undone when the package goes.
(cd /tmp && exec systemd-run -q --scope -p Delegate=cpuset giusto run /etc/giusto/site.yaml >/dev/null) &
await isolated
systemctl daemon-reload
isolated || fail "systemd has undone the partition of a giusto in a scope"
kill -9 $!
wait $! 2>/dev/null || true
systemctl -q enable giusto
dpkg --purge giusto >/dev/null || fail "dpkg --purge"
[ "$(state)" = "$before" ] || fail "after purge: $(state); before: $before"
[ ! -e /run/giusto ] && [ ! -e /var/lib/giusto ] && [ ! -e /etc/giusto ] || fail "files are left"
echo "ok: purged with a dead giusto's changes in force, the host is as it was"
