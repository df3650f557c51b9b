[ "$(id -u)" = 0 ] || stop "it sets units of the system; expected root: sudo ./apply.sh"
version=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
[ "${version:-0}" -ge 250 ] || stop "systemd is '$version'; expected 250 or newer"
for controller in cpu cpuset; do
	grep -qw $controller /sys/fs/cgroup/cgroup.controllers 2>/dev/null ||
		stop "/sys/fs/cgroup has no controller $controller; expected cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
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

# Before anything may be taken back: undo.sh stops what is not in here.
active=$(for unit in $adopted; do
	case $(systemctl show --property ActiveState --value -- "$unit") in
	active | activating | reloading) echo "$unit" ;;
	esac
done)
begin
printf '%s\n' "$active" >found/active
for folder in units drop-ins; do
	[ ! -d $folder ] || cp -r $folder/. "$to/"
done
systemctl daemon-reload
[ -z "$restart" ] || systemctl restart -- $restart
