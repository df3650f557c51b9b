#!/usr/bin/env bash
# Promises for pods on a real Kubernetes: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kubelet and containerd of
# this machine, Giusto's extender and agent as pods, Redis beside hogs. Built once from pinned Go modules, below
# target/kubernetes.
#   tests/kubernetes.sh [NAME ...]     only these tests, as unittest names them
# Exit 77: this machine lacks something that was told.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || {
	echo "kubernetes: root is missing: kubelet and containerd need it" >&2
	exit 77
}
kubernetes/cluster/build.sh
[ -x "${CARGO_TARGET_DIR:-target}/release/giusto" ] || {
	echo "kubernetes: giusto is not built: make build" >&2
	exit 77
}
exec /usr/bin/python3 tests/kubernetes.py "$@"
