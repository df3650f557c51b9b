[ -d found ] || {
	echo "undo.sh: nothing is applied from here; expected the folder found/, which apply.sh makes" >&2
	exit 1
}
failed=
for file in found/*.name; do
	[ -e "$file" ] || continue
	one=${file%.name}
	domain=$(cat "$file") bad=
	if [ "$(virsh domstate --domain "$domain" 2>/dev/null | head -n 1)" = running ]; then
		while read -r vcpu list; do
			virsh vcpupin --domain "$domain" --vcpu "$vcpu" --cpulist "$list" --live </dev/null ||
				bad=1
		done <"$one.vcpus"
		while read -r list; do
			virsh emulatorpin --domain "$domain" --cpulist "$list" --live </dev/null || bad=1
		done <"$one.emulator"
		while read -r thread list; do
			virsh iothreadpin --domain "$domain" --iothread "$thread" --cpulist "$list" --live </dev/null ||
				bad=1
		done <"$one.iothreads"
		while read -r setting; do
			# One that is as it was may be one that cannot be set.
			weighed "$domain" </dev/null | grep -qxF "$setting" ||
				virsh schedinfo --domain "$domain" --live --set "$setting" </dev/null >/dev/null ||
				bad=1
		done <"$one.sched"
	fi
	virsh dumpxml --domain "$domain" --inactive --security-info >"$one.now" || : >"$one.now"
	if cmp -s "$one.now" "$one.xml"; then
		:
	elif [ ! -e "$one.set" ] || cmp -s "$one.now" "$one.set"; then
		virsh define --file "$one.xml" >/dev/null || bad=1
	else
		echo "undo.sh: the configuration of $domain was changed since; how it was: $PWD/$one.xml" >&2
		bad=1
	fi
	[ -z "$bad" ] || failed="$failed $domain"
done
[ -z "$failed" ] || {
	echo "undo.sh: not as before:$failed; see above, then ./undo.sh again, or remove found/" >&2
	exit 1
}
rm -r found
