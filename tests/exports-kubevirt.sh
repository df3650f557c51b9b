#!/usr/bin/env bash
# 'giusto export kubevirt': KubeVirt's own types read what is written, strictly, also of a domain with a name that Kubernetes
# does not take. A cluster does not run here. Exit 77: no Go, or its modules cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v go >/dev/null || {
	echo "kubevirt: go is missing: install Go 1.24 or later (go.dev/dl)" >&2
	exit 77
}
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/kubevirt
mkdir -p "$out"
(cd tests/kubevirt && go mod download && CGO_ENABLED=0 go build -o "$out/kubevirt" .) || {
	echo "kubevirt: its modules cannot be fetched, see above" >&2
	exit 77
}
rm -rf "$out/site" && mkdir "$out/site"
sed 's/libvirt: guest}/libvirt: "My # guest: \\"1\\" é"}/' sites/machines.yaml >"$out/site/site.yaml"
target/release/giusto export kubevirt "$out/site/site.yaml" --out "$out/site/out" >/dev/null
read=$("$out/kubevirt" "$out/site/out/edge-1/"*.yaml)
echo "$read"
whole='"cores":2,"sockets":1,"threads":1,"dedicatedCpuPlacement":true,"numa":{"guestMappingPassthrough":{}}'
whole+=',"isolateEmulatorThread":true,"realtime":{"mask":"0-1"}'
for name in flight-1 my---guest---1; do
	grep -qF "{\"cpu\":{$whole},\"name\":\"$name\"" <<<"$read" || { echo "FAILED: $name is not as expected" >&2; exit 1; }
done
grep -q 'PRICE: 3 exclusive processors' "$out/site/out/edge-1/flight.yaml" || { echo "FAILED: no price" >&2; exit 1; }
# The check itself sees a key that KubeVirt does not have.
sed 's/isolateEmulatorThread/isolateEmulator/' "$out/site/out/edge-1/flight.yaml" >"$out/site/wrong.yaml"
! said=$("$out/kubevirt" "$out/site/wrong.yaml" 2>&1) && grep -q 'KubeVirt has no .*isolateEmulator$' <<<"$said" || {
	echo "FAILED: a wrong key is taken: $said" >&2
	exit 1
}
echo "ok: KubeVirt's types read what is written, and refuse another key"
