stop() {
	echo "${0##*/}: $*" >&2
	exit 1
}
# From here on all goes back where something fails.
begin() {
	trap 'code=$?; [ $code = 0 ] || { echo "${0##*/}: it failed; all goes back" >&2; ./undo.sh; }; exit $code' EXIT
	trap 'exit 1' HUP INT TERM
	mkdir found
}
# Everything is looked at before anything is set.
[ ! -e found ] || stop "it is applied: found/ has how it was; expected ./undo.sh first"
for core in $cores; do
	[ -d "/sys/devices/system/cpu/cpu$core" ] || stop "this machine has no core $core; expected the host of the site"
done
