stop() {
	echo "apply.sh: $*" >&2
	exit 1
}
# Everything is looked at before anything is set.
[ "$(id -u)" = 0 ] || stop "it sets units of the system; expected root: sudo ./apply.sh"
[ ! -e found ] || stop "it is applied: found/ has how it was; expected ./undo.sh first"
version=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
[ "${version:-0}" -ge 250 ] || stop "systemd is '$version'; expected 250 or newer"
for controller in cpu cpuset; do
	grep -qw $controller /sys/fs/cgroup/cgroup.controllers 2>/dev/null ||
		stop "/sys/fs/cgroup has no controller $controller; expected cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
done
for core in $cores; do
	[ -d "/sys/devices/system/cpu/cpu$core" ] || stop "this machine has no core $core; expected the host of the site"
done
for unit in $adopted; do
	[ "$(systemctl show --property LoadState --value -- "$unit")" = loaded ] ||
		stop "there is no unit $unit, which the site adopts; expected one: install it first, or correct the site"
done
for unit in $own; do
	# A slice without a file is loaded, too.
	[ -z "$(systemctl show --property FragmentPath --value -- "$unit")" ] ||
		stop "there is a unit $unit already; expected none: remove that one, or name the service otherwise"
done
for file in $files; do
	[ ! -e "$to/$file" ] || stop "$to/$file is there already; expected none: undo the export that it is of"
done

trap 'code=$?; [ $code = 0 ] || { echo "apply.sh: it failed; all goes back" >&2; ./undo.sh; }; exit $code' EXIT
trap 'exit 1' HUP INT TERM
mkdir found
: >found/active
for unit in $adopted; do
	! systemctl is-active --quiet -- "$unit" || echo "$unit" >>found/active
done
for folder in units drop-ins; do
	[ ! -d $folder ] || cp -r $folder/. "$to/"
done
systemctl daemon-reload
[ -z "$restart" ] || systemctl restart -- $restart
