#!/usr/bin/env bash
# Builds what a real Kubernetes consists of from pinned Go modules, and Giusto's part of it, into target/kubernetes. Cold it takes
# seven minutes on two cores, once; Debian has the rest, which this installs.
set -euo pipefail
cd "$(dirname "$0")"
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/kubernetes
mkdir -p "$out"
command -v go >/dev/null || {
	echo "kubernetes: go is missing: install Go 1.26 or later (go.dev/dl)" >&2
	exit 77
}
missing=()
for package in etcd-server containerd runc containernetworking-plugins busybox-static redis-server redis-tools openssl \
	iproute2; do
	dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if ((${#missing[@]})); then
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
		echo "kubernetes: ${missing[*]} are missing, and cannot be installed here" >&2
		exit 77
	}
	# Services are not started by being installed.
	policy=/usr/sbin/policy-rc.d
	[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && trap 'rm -f $policy' EXIT; }
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >"$out/apt.log" 2>&1 || {
		apt-get update >>"$out/apt.log" 2>&1
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >>"$out/apt.log" 2>&1
	} || { tail -n 5 "$out/apt.log" >&2; exit 77; }
fi
export CGO_ENABLED=0
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
to=k8s.io/component-base/version
flags="-s -w -X $to.gitVersion=$version -X $to.gitMajor=1 -X $to.gitMinor=$(cut -d. -f2 <<<"$version")"
stamp=$(cat go.mod go.sum | sha256sum)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ]; then
	echo "kubernetes $version is built from Go modules: minutes, once"
	for command in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
		go build -p 2 -ldflags "$flags" -o "$out/" k8s.io/kubernetes/cmd/$command
	done
	echo "$stamp" >"$out/stamp"
fi
cd ..
go build -p 2 -trimpath -ldflags '-s -w' -o "$out/" ./cmd/giusto-kubernetes
