# weighed DOMAIN: its weight and quotas while it runs; none where libvirt has no controller cpu
weighed() {
	virsh schedinfo --domain "$1" --live 2>/dev/null |
		awk '$2 == ":" && /shares|period|quota/ { print $1 "=" ($1 ~ /quota/ && $3 > 1e9 ? -1 : $3) }'
}
# looked DOMAIN VCPUS: it runs, has a configuration, and so many virtual CPUs
looked() {
	[ "$(virsh domstate --domain "$1" 2>/dev/null | head -n 1)" = running ] ||
		stop "domain $1 does not run; expected all of these: virsh start --domain '$1'"
	virsh dominfo --domain "$1" | grep -q '^Persistent: *yes' ||
		stop "domain $1 has no configuration; expected one: virsh define"
	[ "$(virsh vcpucount --domain "$1" --live --current)" -ge "$2" ] ||
		stop "domain $1 has $(virsh vcpucount --domain "$1" --live --current) virtual CPUs; expected $2, as the site says"
}
# record DOMAIN VCPUS NUMBER: how it was
record() {
	virsh dumpxml --domain "$1" --inactive --security-info >"found/$3.xml"
	virsh vcpupin --domain "$1" --live | awk 'NR > 2 && NF == 2 { sub(":", "", $1); print }' >"found/$3.vcpus"
	virsh emulatorpin --domain "$1" --live | awk 'NR > 2 && NF == 2 { print $2 }' >"found/$3.emulator"
	virsh iothreadinfo --domain "$1" --live 2>/dev/null | awk 'NR > 2 && NF == 2' >"found/$3.iothreads"
	weighed "$1" >"found/$3.sched"
	printf '%s\n' "$1" >"found/$3.name"
}
# note DOMAIN VCPUS NUMBER: how it is now, so that what others change later is not taken back
note() {
	virsh dumpxml --domain "$1" --inactive --security-info >"found/$3.set"
}
