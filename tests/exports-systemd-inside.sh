#!/bin/bash
# Inside the guest of tests/exports-systemd.sh, as root under systemd: 3 cores.
set -euo pipefail
exec >/dev/console 2>&1
trap 'code=$?; echo "guest exit code: $code"; sleep 1' EXIT
fail() {
	echo "FAILED: $*"
	exit 1
}
await() { # until COMMAND succeeds, for a minute at most
	local turns=0
	until "$@"; do
		turns=$((turns + 1))
		[ $turns -lt 120 ] || fail "waited in vain for: $*"
		sleep 0.5
	done
}
units=(giusto-alpha search giusto-beta giusto-batch)
main() { systemctl show -P MainPID "$1"; }
used() { # ns of UNIT, which has one process
	cut -d ' ' -f 1 "/proc/$(main "$1")/schedstat"
}
# shares: thousandths of a core that each unit has, over some seconds; in the array share
declare -A share
shares() {
	local -A before
	local begin end unit
	begin=$(date +%s%N)
	for unit in "${units[@]}"; do before[$unit]=$(used "$unit"); done
	sleep 6
	end=$(date +%s%N)
	for unit in "${units[@]}"; do
		share[$unit]=$(((($(used "$unit") - before[$unit]) * 1000) / (end - begin)))
	done
	echo "$1: $(for unit in "${units[@]}"; do echo -n "$unit ${share[$unit]}, "; done)thousandths of a core"
}
between() { # UNIT LEAST MOST
	[ "${share[$1]}" -ge "$2" ] && [ "${share[$1]}" -le "$3" ] ||
		fail "$1 has ${share[$1]} thousandths of a core, expected $2 to $3"
}
cat >/etc/systemd/system/search.service <<'UNIT'
[Service]
ExecStart=/bin/sh -c "while :; do :; done"
UNIT
# What else there is on the machine: it takes all that it can get.
for number in 1 2 3; do systemd-run -q --unit=noise$number sh -c 'while :; do :; done'; done
cp -r /export/units/. /etc/systemd/system/
systemctl daemon-reload
systemctl start "${units[@]}" giusto-hostile
shares "without the export"
[ "${share[giusto-alpha]}" -lt 850 ] || fail "alpha has a core without the export"

cp -r /export/drop-ins/. /etc/systemd/system/
systemctl daemon-reload
for file in /export/units/*.service search.service; do
	said=$(systemd-analyze verify --man=no "/etc/systemd/system/${file##*/}" 2>&1) || fail "$file: $said"
	[ -z "$said" ] || fail "$file: systemd-analyze verify: $said"
done
said=$(systemd-analyze verify --man=no /etc/systemd/system/giusto.slice 2>&1)
[ -z "$said" ] || fail "giusto.slice: $said"
echo "ok: systemd-analyze verify has nothing to say to $(find /export/units /export/drop-ins -type f | wc -l) files"

systemctl restart "${units[@]}" giusto-hostile
await test -e /run/hostile
cmp /run/hostile /expected || fail "words: $(od -c /run/hostile | head -40)"
[ "$(systemctl show -P TasksMax giusto-hostile)" = 16 ] || fail "limits"
echo "ok: words, variables and limits are those of the site"
# A core to itself: the highest priority there, whatever else is there.
pid=$(main giusto-alpha)
chrt -p "$pid" | grep -q SCHED_FIFO || fail "alpha: $(chrt -p "$pid")"
[ "$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$pid/status")" = 2 ] || fail "alpha is not on core 2"
for unit in search giusto-beta giusto-batch; do
	pid=$(main $unit)
	[ "$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$pid/status")" = 1 ] || fail "$unit is not on core 1"
done
pid=$(main noise1)
[ "$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$pid/status")" = 0,2 ] || fail "others may run on core 1"
shares "with it"
# The kernel takes 5 % from real-time threads; emulated processors have less than that of this machine, as much as it is busy, and
# their clocks err by some percent then. Each has what sets it apart from a third, which it had without.
between giusto-alpha 650 1150
between search 120 240
between giusto-beta 50 125
between giusto-batch 400 860
echo "ok: shares are those that the files say"

# With Giusto in the place of the drop-ins: all share one core, and each has its budget in every period.
systemctl stop noise1 noise2 noise3
(cd /export/drop-ins && find . -type f) | while read -r file; do rm "/etc/systemd/system/$file"; done
cp -r /export/giusto/giusto@* /etc/systemd/system/
install -D /export/giusto/guest.yaml /etc/giusto/guest.yaml
groupadd -f giusto
systemctl daemon-reload
said=$(systemd-analyze verify --man=no /etc/systemd/system/giusto@guest.service 2>&1)
[ -z "$said" ] || fail "giusto@: $said"
systemctl restart "${units[@]}"
systemctl start giusto@guest || fail "giusto@guest: $(journalctl --no-pager -n 20 -u giusto@guest)"
managed() {
	grep -q "giusto.$1" "/proc/$(main "$2")/cgroup" &&
		[ "$(awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$(main "$2")/status")" = 1 ]
}
all() { managed alpha giusto-alpha && managed search search && managed beta giusto-beta; }
await all
pid=$(main search)
systemctl restart search
again() { [ "$(main search)" != "$pid" ] && all; }
await again
shares "with Giusto instead"
between giusto-alpha 220 350
between search 140 240
between giusto-beta 60 125
systemctl stop giusto@guest
for unit in giusto-alpha search giusto-beta; do
	grep -q "$unit.service" "/proc/$(main $unit)/cgroup" || fail "$unit is not where it was"
done
echo "ok: giusto@guest adopts the units, also one that is started again, and leaves them as they were"
