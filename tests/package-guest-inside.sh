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
	changes
}
changes() {
	find /sys/fs/cgroup -name 'giusto*'
	for file in /proc/[0-9]*/cmdline; do
		grep -lsz '^infinity$' "$file" || true
	done
	chrt -p "$hog"
	taskset -p "$hog"
	cat /proc/"$hog"/cgroup
	grep State /proc/"$hog"/status
}
main() { systemctl show -P MainPID giusto; }
# settings NAME VALUE...: other settings of the unit than those of the package
settings() {
	mkdir -p /run/systemd/system/giusto.service.d
	printf '%s\n' '[Service]' "$@" >/run/systemd/system/giusto.service.d/test.conf
	systemctl daemon-reload
	systemctl reset-failed giusto 2>/dev/null || true # its starts are counted
}
journalled() { journalctl -u giusto | grep -q "$1"; }
budgets() { giusto status --json | grep -o '"budget_ns": *[0-9]*'; }

dpkg -i /giusto.deb >/dev/null
# A service that giusto did not start, and adopts later.
systemd-run -q --unit=hog sh -c 'while :; do :; done'
hog=$(systemctl show -P MainPID hog)
before=$(state) unchanged=$(changes)
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
systemctl start giusto || fail "systemctl start"
isolated || fail "READY was said before the core was isolated"
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

# reload OLD NEW: the same process, another budget
reload() {
	local pid before
	pid=$(main) before=$(budgets)
	sed -i "s|$1|$2|" /etc/giusto/site.yaml
	systemctl reload giusto
	changed() { [ "$(budgets)" != "$before" ]; }
	await changed
	[ "$(main)" = "$pid" ] || fail "a reload has started it anew"
	[ "$(systemctl show -P ActiveState giusto)" = active ] || fail "after a reload"
}
reload 'wcet: 1ms' 'wcet: 2ms'
isolated && reserved || fail "after a reload"
echo 'nonsense' >>/etc/giusto/site.yaml
before_reload=$(budgets) pid=$(main)
systemctl reload giusto
refused() { journalled 'site.yaml:[0-9]'; }
await refused
[ "$(main)" = "$pid" ] && [ "$(budgets)" = "$before_reload" ] && isolated && reserved || fail "after a bad site"
sed -i '$d' /etc/giusto/site.yaml
echo "ok: reloaded, with another budget; a bad site changes nothing"

pid=$(main)
systemctl kill -s KILL --kill-who=main giusto
again() { [ "$(main)" != 0 ] && [ "$(main)" != "$pid" ] && isolated && reserved; }
await again
[ "$(systemctl show -P NRestarts giusto)" = 1 ] || fail "restarted $(systemctl show -P NRestarts giusto) times"
journalctl -u giusto | grep -q 'undid [0-9]* changes' || fail "ExecStopPost has undone nothing"
echo "ok: after kill -9 it was undone by ExecStopPost and started again"

# One that hangs without a manager is noticed by systemd only.
settings WatchdogSec=10
systemctl restart giusto
again || await again
pid=$(main)
kill -STOP "$pid"
await again
journalled 'Watchdog timeout' || fail "systemd's watchdog has not barked"
echo "ok: systemd's watchdog ends what hangs, and it is started again"

systemctl stop giusto
[ "$(systemctl is-active giusto)" = inactive ] || fail "after stop it is $(systemctl is-active giusto)"
after=$(state)
[ "$after" = "$before" ] || fail "after stop: $after; before: $before"
[ "$(ls /run/giusto)" = journal ] || fail "left in /run/giusto: $(ls /run/giusto)"
echo "ok: stopped, the host is as it was"

cp /etc/giusto/site.yaml /root/alone.yaml
# The manager, for an adopted service and one that giusto starts.
cat >/etc/giusto/site.yaml <<'SITE'
giusto: 1
hosts: {guest: {cores: 1}}
services:
  hog: {adopt: {cgroup: system.slice/hog.service}, promise: {supply: 4ms/20ms}}
  beat: {start: sleep infinity, promise: {supply: 2ms/20ms}}
SITE
settings Restart=on-failure
managed() { grep -q giusto.hog /proc/"$hog"/cgroup 2>/dev/null && taskset -p "$hog" | grep -q ' 2$'; }
again() { [ "$(main)" != 0 ] && [ "$(main)" != "$pid" ] && managed && giusto status >/dev/null; }
pid=0
systemctl start giusto || fail "systemctl start with the manager"
managed || fail "READY was said before the service was managed: $(state)"
giusto status --json | grep -q '"backend": *"manager"' || fail "another backend than the manager: $(giusto status)"
reload 'supply: 4ms' 'supply: 8ms'
managed || fail "after a reload"
echo "ok: managed when READY is said, also after a reload"

pid=$(main)
kill -STOP "$pid"
await again
journalled 'has stalled' || fail "giusto's own watchdog has not noticed that it hangs"
echo "ok: giusto's watchdog ends what hangs, and it is started again"

# systemd kills what is left in the unit, giusto's watchdog too, whatever that has undone by then; ExecStopPost does the rest.
settings Restart=no
ended() { [ "$(systemctl show -P ActiveState giusto)" = failed ]; }
for turn in 1 2 3; do
	managed || fail "turn $turn: not managed"
	if [ $turn = 3 ]; then
		echo 0 >/sys/devices/system/cpu/cpu1/online
		await ended
		echo 1 >/sys/devices/system/cpu/cpu1/online
	else
		systemctl kill -s KILL --kill-who=main giusto
		await ended
	fi
	# The controller goes when systemd next looks over its cgroups, not yet with a unit that has failed.
	after=$(changes)
	[ "$after" = "$unchanged" ] || fail "turn $turn: $after; before: $unchanged"
	left=$(cat /sys/fs/cgroup/system.slice/giusto.service/cgroup.procs 2>/dev/null || true)
	[ -z "$left" ] || fail "turn $turn: left in the unit: $left"
	systemctl reset-failed giusto
	systemctl start giusto || fail "turn $turn: systemctl start"
done
systemctl stop giusto
after=$(state)
[ "$after" = "$before" ] || fail "after stop: $after; before: $before"
echo "ok: killed twice, its core switched off, stopped: each time the host is as it was"

# By hand, in a scope that asks for cpusets as the unit does. What it leaves when it is killed, its watchdog before it, is
# undone when the package goes.
(cd /tmp && exec systemd-run -q --scope -p Delegate=cpuset giusto run /root/alone.yaml >/dev/null) &
await isolated
systemctl daemon-reload
isolated || fail "systemd has undone the partition of a giusto in a scope"
kill -9 "$(grep -lx giusto-watchdog /proc/[0-9]*/comm | cut -d / -f 3)" $!
wait $! 2>/dev/null || true
systemctl -q enable giusto
said=$(dpkg --purge giusto 2>&1) || fail "dpkg --purge: $said"
grep -q 'undid [1-9]' <<<"$said" || fail "nothing was left to be undone: $said"
[ "$(state)" = "$before" ] || fail "after purge: $(state); before: $before"
[ ! -e /run/giusto ] && [ ! -e /var/lib/giusto ] && [ ! -e /etc/giusto ] || fail "files are left"
echo "ok: purged with a dead giusto's changes in force, the host is as it was"
