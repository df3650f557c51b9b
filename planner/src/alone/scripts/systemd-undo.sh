[ -d found ] || {
	echo "undo.sh: nothing is applied from here; expected the folder found/, which apply.sh makes" >&2
	exit 1
}
kept=
# What was not put in its place is not there to be stopped.
[ -z "$own" ] || systemctl stop -- $own 2>/dev/null || :
[ -z "$own" ] || systemctl disable --quiet -- $own 2>/dev/null || :
for file in $files; do
	from=units/$file
	[ -e "$from" ] || from=drop-ins/$file
	[ -e "$to/$file" ] || continue
	if cmp -s "$from" "$to/$file"; then
		rm "$to/$file"
		case $file in */*) rmdir "$to/${file%/*}" 2>/dev/null || : ;; esac
	else
		kept="$kept $to/$file"
	fi
done
systemctl daemon-reload
# The kernel takes no empty list of cores for a group with processes, so systemd leaves the old one: all cores limit as little.
for file in $files; do
	unit=${file%%.d/*}
	case $unit in *.slice | *.scope) ;; *) continue ;; esac
	[ -z "$(systemctl show --property AllowedCPUs --value -- "$unit")" ] || continue
	group=$(systemctl show --property ControlGroup --value -- "$unit")
	[ -n "$group" ] && [ -n "$(cat "/sys/fs/cgroup$group/cpuset.cpus" 2>/dev/null)" ] || continue
	cat /sys/devices/system/cpu/possible >"/sys/fs/cgroup$group/cpuset.cpus" || kept="$kept $unit"
done
for unit in $restart; do
	[ -e found/active ] || break # nothing had been set when apply.sh ended
	case " $own " in *" $unit "*) continue ;; esac
	if grep -qxF -- "$unit" found/active; then
		systemctl restart -- "$unit" || kept="$kept $unit"
	else
		systemctl stop -- "$unit" || kept="$kept $unit"
	fi
done
[ -z "$kept" ] || {
	echo "undo.sh: not as it was, as it was changed since or does not start:$kept; see to it, then ./undo.sh again" >&2
	exit 1
}
rm -r found
