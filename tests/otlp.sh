#!/usr/bin/env bash
# OpenTelemetry both ways, by its own Python packages: what giusto sends is decoded by them, and what they send is observed.
# They are put beside the build, in pinned versions. Exit: 0 held, 1 not, 77 they cannot be installed, or there is no root.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-target}/opentelemetry
pins='opentelemetry-proto==1.45.2 opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2'
if [ "$(cat "$venv/pins" 2>/dev/null)" != "$pins" ]; then
	rm -rf "$venv"
	# shellcheck disable=SC2086
	if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet $pins; }; then
		echo "OpenTelemetry's packages cannot be installed: they need Python 3.10, python3-venv and PyPI" >&2
		exit 77
	fi
	printf '%s' "$pins" >"$venv/pins"
fi
exec "$venv/bin/python" tests/otlp.py "$@"
