# What tests of started services inside a guest share, for busybox. $1 is giusto.
giusto=$1
tree=/sys/fs/cgroup
failed=0
export GIUSTO_STATE=/tmp/state
fail() {
	echo "FAILED: $*"
	failed=1
}
wait_for() { # WHAT COMMAND...
	what=$1
	shift
	for _ in $(seq 600); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	fail "not within a minute: $what"
	$giusto status
	tail -20 /tmp/log
}
members() { # SERVICE: all that is below a group of its name
	find $tree -path "*giusto.$1.service*" -name cgroup.procs -exec cat {} + | sort -n
}
enforces() { $giusto status | grep -q -e enforcing -e degraded; }
has_members() { [ "$(members "$1" | wc -l)" -ge "$2" ]; }
other_than() { # SERVICE PID COUNT: it has so many processes, and not that one
	has_members "$1" "$3" && ! members "$1" | grep -qx "$2"
}
