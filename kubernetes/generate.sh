#!/usr/bin/env bash
# Writes what follows from api/: the copies of its types, and the manifests of its kinds.
set -euo pipefail
cd "$(dirname "$0")"
go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0 object crd paths=./api/... output:crd:dir=deploy/base
