#!/usr/bin/env bash
# Inside the root of tests/package.sh: the life of a package, from installation to purge.
set -euo pipefail
fail() {
	echo "FAILED: $*" >&2
	exit 1
}
# Every file but those of this test and what apt, man and others keep for themselves.
files() {
	find / -xdev \( -path /proc -o -path /run/adduser -o -path /run/systemd -o -path /tmp -o -path /var/cache -o -path /var/log -o -path /var/lib/apt \
		-o -path '/var/lib/dpkg/*-old' -o -path '/etc/*-' \) -prune -o -print | LC_ALL=C sort
}

lintian --allow-root --tag-display-limit 0 --fail-on error,warning /tmp/giusto.deb || fail "lintian, see above"
echo "ok: lintian"

before=$(files)
apt-get install -y -qq /tmp/giusto.deb >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; fail "apt-get install"; }
giusto --version
[ "$(systemctl is-enabled giusto 2>&1)" = disabled ] || fail "a fresh package must not be enabled"
getent group giusto >/dev/null || fail "no group giusto"
[ ! -e /etc/giusto/site.yaml ] || fail "a fresh package must not bring a site"
(cd / && md5sum --quiet -c /var/lib/dpkg/info/giusto.md5sums)
echo "ok: installed, nothing enabled"

sites=0
for file in /usr/share/doc/giusto/examples/*.yaml; do
	if grep -q '^giusto-agent:' "$file"; then # an agent's file: read up to its key, which no package brings
		said=$(giusto agent "$file" 2>&1) && fail "giusto agent $file without a key"
		grep -q 'make one with' <<<"$said" || fail "giusto agent $file: $said"
	else
		said=$(giusto check "$file" 2>&1) || fail "giusto check $file: $said"
		sites=$((sites + 1))
	fi
done
[ $sites -ge 10 ] || fail "only $sites examples are sites"
echo "ok: giusto check takes every example"

pages=0
for page in giusto $(giusto --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/giusto-\1/p' | grep -v -- -help); do
	file=$(man -w "$page") || fail "no manual page $page"
	text=$(man --warnings "$page" 2>/tmp/warnings | cat)
	[ ! -s /tmp/warnings ] || fail "$page: $(cat /tmp/warnings)"
	for section in NAME SYNOPSIS EXAMPLES 'EXIT STATUS' FILES; do
		grep -qx "$section" <<<"$text" || fail "$file has no section $section"
	done
	pages=$((pages + 1))
done
[ $pages -ge 10 ] || fail "only $pages verbs have a page"
echo "ok: $pages manual pages with their sections"

completed=$(bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader giusto
	COMP_WORDS=(giusto expl); COMP_CWORD=1; _giusto giusto expl giusto; echo "${COMPREPLY[@]}"')
[ "$completed" = explain ] || fail "bash completes 'giusto expl' to '$completed'"
echo "ok: bash completes"

unit=/lib/systemd/system/giusto.service
said=$(systemd-analyze verify $unit 2>&1) || fail "systemd-analyze: $said"
[ -z "$said" ] || fail "systemd-analyze: $said"
echo "ok: systemd-analyze verify"
said=$(systemd-analyze security --offline=true --threshold=49 $unit 2>&1) || fail "systemd-analyze security: $(tail -1 <<<"$said")"
grep -q 'Overall exposure level for giusto.service: [0-4]\.[0-9] OK' <<<"$said" || fail "$(tail -1 <<<"$said")"
echo "ok: systemd-analyze security: $(tail -1 <<<"$said" | grep -o '[0-9.]* OK')"

# The unit's commands where nothing can be enforced: planned, refused with 3, nothing left.
cp /usr/share/doc/giusto/examples/walk.yaml /etc/giusto/site.yaml
mkdir -p /var/lib/giusto
code=0
(cd /var/lib/giusto && $(sed -n 's/^ExecStart=//p' $unit)) >/tmp/run.log 2>&1 || code=$?
[ $code = 3 ] || { cat /tmp/run.log; fail "ExecStart without cgroups ends with $code, expected 3"; }
grep -q cpusets /tmp/run.log || fail "it does not say that cpusets are missing: $(cat /tmp/run.log)"
$(sed -n 's/^ExecStopPost=//p' $unit) >/dev/null
[ "$(ls /run/giusto)" = journal ] || fail "left in /run/giusto: $(ls /run/giusto)"
echo "ok: ExecStart refuses where it can enforce nothing, ExecStopPost leaves an empty journal"

# Under a giusto that runs the package is not removed.
flock -F /run/giusto/journal sleep 60 &
until [ -n "$(cat /proc/locks)" ] && ! flock -n /run/giusto/journal true; do sleep 0.1; done
if apt-get remove -y -qq giusto >/tmp/apt.log 2>&1; then fail "removed although a giusto runs"; fi
grep -q 'runs on this host already' /tmp/apt.log || { cat /tmp/apt.log; fail "it does not say why it stays"; }
giusto --version >/dev/null
kill $! && wait $! 2>/dev/null || true
echo "ok: it stays while a giusto runs, and says so"

systemctl --quiet enable giusto
apt-get remove -y -qq giusto >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; fail "apt-get remove"; }
[ -e /etc/giusto/site.yaml ] || fail "the site has gone with a mere removal"
apt-get purge -y -qq giusto >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; fail "apt-get purge"; }
left=$(diff <(echo "$before") <(files)) || fail "after purge (> is left, < is lost): $left"
! getent group giusto || fail "the group is left"
echo "ok: purged without a trace"
