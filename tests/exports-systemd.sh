#!/usr/bin/env bash
# 'giusto export systemd', applied to a real systemd in a guest with Debian 12 and cgroup v2: every file verified, words with
# signs come back as they were, and shares of cores measured without the export, with it, undone, and with Giusto instead:
# tests/exports-systemd-inside.sh. Exit 77 where Debian cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Signs that a shell, systemd or YAML would read; the service writes down what came to it.
/usr/bin/python3 - "$work" <<'SITE'
import json
import sys
from pathlib import Path
work = Path(sys.argv[1])
words = ["a b", "%n %%", "$HOME ${X} $$", '"q"', "it's", "\\", "\\n", ";", "#", "-", "@x", "é\u2028", "{a: [b]}", "]]>", "a%"]
words.append("tail\\")
value = 'v "a" \\ %h $Y \'s\' \\x41 '
script = 'printf "%s\\0" "$@" "$X" >/run/hostile.new; mv /run/hostile.new /run/hostile; exec sleep infinity'
(work / "expected").write_bytes("".join(word + "\0" for word in [*words, value]).encode())
busy = '[sh, -c, "while :; do :; done"]'
hostile = f"""
  hostile:
    start: {json.dumps(["sh", "-c", script, "sh", *words], ensure_ascii=True)}
    environment: {{X: {json.dumps(value, ensure_ascii=True)}}}
    user: root
    directory: /
    limits: {{tasks: 16, memory: 64M, nofile: 100}}
    promise: leftovers
"""
# Weights say who has how much of one core: there is no quota. The virtual machines, which others start, share another.
work.joinpath("site.yaml").write_text(f"""giusto: 1
hosts: {{guest: {{cores: 1-3}}}}
services:
  alpha: {{start: {busy}, promise: {{supply: 40ms/100ms}}}}
  search: {{adopt: {{systemd: search.service}}, promise: {{supply: 30ms/100ms}}, cap: soft}}
  beta: {{start: {busy}, promise: {{supply: 15ms/100ms}}, cap: soft}}
  one: {{adopt: {{libvirt: one}}, promise: {{supply: [35ms/100ms]}}}}
  two: {{adopt: {{libvirt: two}}, promise: {{supply: [35ms/100ms]}}}}
  batch: {{start: {busy}, promise: leftovers, at-least: 20%}}{hostile}""")
# With Giusto: all on one core, each with its budget.
work.joinpath("own.yaml").write_text(f"""giusto: 1
hosts: {{guest: {{cores: 1-2}}}}
services:
  alpha: {{start: {busy}, promise: {{supply: 30ms/100ms}}}}
  search: {{adopt: {{systemd: search.service}}, promise: {{supply: 20ms/100ms}}}}
  beta: {{start: {busy}, promise: {{supply: 10ms/100ms}}}}
  batch: {{start: {busy}, promise: leftovers, at-least: 20%}}{hostile}""")
SITE
for site in site own; do target/release/giusto export systemd "$work/$site.yaml" --out "$work/$site" >>"$work/files"; done
target/release/giusto export libvirt "$work/site.yaml" --out "$work/machines" >>"$work/files"
# Beside others it takes as long as they let it.
GUEST_TIMEOUT=${GUEST_TIMEOUT:-1200} GUEST_CORES=4 tests/debian-guest.sh tests/exports-systemd-inside.sh \
	"$work/site/guest" /export "$work/own/guest" /own \
	"$work/machines/guest" /machines "$work/expected" /expected target/release/giusto /usr/bin/giusto
