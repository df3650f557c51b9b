#!/usr/bin/env bash
# Packs the image of agent and extender into a docker archive, without a daemon and without a registry: the same bytes for the
# same programs. giusto is built before (make build).
#   kubernetes/image.sh FILE.tar [NAME:TAG]
set -euo pipefail
to=$(realpath -m "${1:?expected the file to write}") name=${2:-giusto-kubernetes:latest}
cd "$(dirname "$0")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../target}")
[ -x "$target/release/giusto" ] || { echo "giusto is not built: make build" >&2; exit 3; }
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$target/kubernetes/" ./cmd/giusto-kubernetes
PYTHONPATH=cluster python3 -c 'import sys, pathlib, images
own, giusto = map(pathlib.Path, sys.argv[3:])
images.archive(pathlib.Path(sys.argv[1]), sys.argv[2], images.giusto(own, giusto), ["/usr/bin/giusto-kubernetes"])' \
	"$to" "$name" "$target/kubernetes/giusto-kubernetes" "$target/release/giusto"
sha256sum "$to"
