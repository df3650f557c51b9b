#!/bin/sh
# The first commands in a guest with cgroup v2: as root, as an unprivileged user, without capabilities, bound to one core.
# Usage: first-guest-inside.sh GIUSTO; prints "first commands: N passed".
giusto=$1 passed=0
expect() { # CODE TEXT COMMAND...: exits with CODE and prints TEXT
	code=$1 text=$2
	shift 2
	out=$("$@" 2>&1)
	got=$?
	if [ $got != "$code" ] || ! echo "$out" | grep -q "$text"; then
		printf 'FAILED: %s: exit %s, expected %s and "%s"\n%s\n' "$*" $got "$code" "$text" "$out"
		exit 1
	fi
	passed=$((passed + 1))
}
user='/usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups'
poor='/usr/bin/setpriv --bounding-set -all --inh-caps -all'
chmod 1777 /tmp
cd /tmp
expect 0 '"can_enforce": true' "$giusto" doctor --json
expect 0 'cgroup' "$giusto" doctor
expect 3 '"can_enforce": false' $user "$giusto" doctor --json
expect 3 '"can_enforce": false' $poor "$giusto" doctor --json
expect 0 '"cores"' taskset 1 "$giusto" doctor --json
for prefix in '' "$user" "$poor" 'taskset 1'; do
	expect 0 '^shared, Giusto ' $prefix "$giusto" demo --out "/tmp/demo-$passed.html"
done
echo "first commands: $passed passed"
