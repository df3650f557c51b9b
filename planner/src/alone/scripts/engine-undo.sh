[ -d found ] || {
	echo "undo.sh: nothing is set from here; expected the folder found/, which update.sh makes" >&2
	exit 1
}
online=$(cat /sys/devices/system/cpu/online)
failed=
while IFS='|' read -r id name cpus period quota shares; do
	# One that was made anew under the name has what it was made with.
	[ "$("$engine" inspect --format '{{.Id}}' "$id" 2>/dev/null)" = "$id" ] || continue
	[ "$("$engine" inspect --format '{{.State.Running}}' "$id")" = true ] || {
		failed="$failed $name"
		continue
	}
	[ "$period" != 0 ] || period=100000
	[ "$quota" -gt 0 ] || quota=$unlimited period=100000
	[ "$shares" != 0 ] || shares=1024
	"$engine" update --cpuset-cpus="${cpus:-$online}" --cpu-period="$period" --cpu-quota="$quota" --cpu-shares="$shares" \
		"$id" >/dev/null || failed="$failed $name"
done <found/containers
[ -z "$failed" ] || {
	echo "undo.sh: not as before:$failed; see above, or start what does not run, then ./undo.sh again" >&2
	exit 1
}
rm -r found
