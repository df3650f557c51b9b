#!/usr/bin/env bash
# The full campaigns, of which `make test` runs a fixed sample. The result file is committed with seed and commit.
set -euo pipefail
cd "$(dirname "$0")/.."
export GIUSTO_SOAK=1
result=docs/soak.txt
{
	echo "commit $(git rev-parse --short HEAD), $(uname -r), $(nproc) cores, $(date -u +%F)"
	cargo test --release --locked -p giusto-compute -p giusto-network -p giusto-daemon -- --nocapture 2>&1 | grep -E '^real:|Plug: |died|deaths|middle|made:|times in|panicked'
	tests/v2.sh 2>&1 | grep -E "^real: [0-9]" || true
	cargo test --release --locked -p giusto-analysis --test response --test response_corners --test response_played -- --nocapture 2>&1 | grep -E '^test result|refused$|panicked'
	cargo test --release --locked -p giusto-analysis --test path_played --test path_every -- --nocapture 2>&1 |
		grep -E '^test |paths; |nets, |panicked'
	cargo test --release --locked -p giusto-verify --test coverage -- --nocapture 2>&1 | grep -E 'asked for|panicked'
	tests/exports-systemd.sh 2>&1 | grep -E "^ok|thousandths|FAILED" || [ ${PIPESTATUS[0]} = 77 ]
	tests/backend-kernel.sh 2>&1 | grep -E "^three|^backend" || [ ${PIPESTATUS[0]} = 77 ]
	tests/packets-guest.sh 2>&1 | grep -E "^real: [0-9]" || true
	GUEST_DEBIAN=13 tests/packets-guest.sh 2>&1 | grep -E "^real: [0-9]" || true
	tests/kernel-guest.sh 2>&1 | grep -E "^passed|^kernel" || [ ${PIPESTATUS[0]} = 77 ]
	CALLS=1000000 GUEST_TIMEOUT=2000 tests/kernel-guest.sh 1 calls 2>&1 | grep -E '^replayed|^kernel' || true
	KILLS=50 GUEST_TIMEOUT=2000 tests/kernel-guest.sh 2 killed 2>&1 | grep -E 'loaders killed|^kernel' || true
	tests/kernel-mutants.sh 2>&1 | tail -1
	/usr/bin/python3 tests/xen-changes.py 1 100 && /usr/bin/python3 tests/xen-changes.py --broken | grep -c '^found'
	tests/xen.sh 2>&1 | grep -E '^(ok|FAILED|large)' || [ ${PIPESTATUS[0]} = 77 ]
	tests/scipy.sh 200 2>&1 || [ $? = 77 ]
	tests/curves.sh 5000 2>&1 || [ $? = 77 ]
	cargo test --release --locked -p giusto-planner --test percentiles -- --nocapture 2>&1 | grep -E '^test|panicked|alone'
	cargo test --release --locked -p giusto-planner --test standing -- --nocapture 2>&1 | grep -E '^test|panicked'
	cargo test --release --locked -p giusto-studies --test quick 2>&1 | grep -E '^test|panicked'
	cargo test --release --locked -p giusto-modes --test explore -- --nocapture 2>&1 | grep -E '^explored|panicked'
	tests/toys.sh 2>&1 | grep -E '^toy '
	policy/mutants.sh --all | tail -1
	policy/prove.sh --all | tail -1 || [ $? = 77 ]
	policy/prove.sh --faults | tail -1 || [ $? = 77 ]
	/usr/bin/python3 tests/first.py 20 | grep -E "of 20$|the truth"
	/usr/bin/python3 tests/stalls.py 2>&1 | grep -E '^test_|^Ran|FAILED' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/loop.py 2>&1 | grep -E 'jobs in|FAILED' || [ ${PIPESTATUS[0]} = 77 ]
	for engine in docker podman; do
		GIUSTO_ENGINE=$engine /usr/bin/python3 tests/exports_containers.py 2>&1 |
			grep -E '^Ran|FAILED|of a core' || [ ${PIPESTATUS[0]} = 77 ]
	done
	/usr/bin/python3 tests/exports_libvirt.py 2>&1 | grep -E '^test_|^Ran|FAILED' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/doctor.py Kept 2>/dev/null | grep -E "kept|cannot tell"
	/usr/bin/python3 tests/e2e.py ThisHost 2>&1 | tail -3
	scripts/spark.sh || true
	/usr/bin/python3 tests/shares.py 2>&1 | grep -E '^vas|SKIPPED' || [ ${PIPESTATUS[0]} = 77 ]
	for study in csa-period csa-etf csa-arinc m2-static-cost mdds1-sweep mdds1-select mdds1-synthetic mdds1-measured mdds1-redis \
		srtm-penalty srtm-concentration srtm-maxmin srtm-correlation srtm-convergence vatc-packetrate vatc-interference \
		vatc-bucket vatc-rebalance \
		m2-latency m2-deadline-misses akita-quality akita-memcached akita-multi akita-shares akita-scale \
		vas-synthetic vas-redis vas-spark placement paths-split paths-tightness; do
		target/release/giusto study run $study | sed -n '1p;/ FAIL$/p' || [[ ${PIPESTATUS[0]} = [36] ]]
	done
	tests/messaging.sh soak | grep -E '^((bucket|gate|broker|holder|ledger|distribute|simulate|predict|store|distributor|client|fleet|messaging): |(--- )?FAIL|ok)' || [ ${PIPESTATUS[0]} = 77 ]
	tests/messaging-clock.sh 40 2>&1 | grep -E '^(broker: |FAIL|guest exit)' || [ ${PIPESTATUS[0]} = 77 ]
	tests/coordination.sh soak 2>&1 |
		grep -E '^(seed|campaign|[A-Z_]+: 3 servers|epochs|etcd|image|giusto|gate)|VIOLATED' || [ ${PIPESTATUS[0]} = 77 ]
	tests/package-guest.sh 2>&1 | grep -E "^ok|FAILED" || true
	/usr/bin/python3 tests/loop.py sites/ros2.yaml 600 2>&1 | grep -E 'jobs|^FAILED|SKIPPED' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/modes.py Deaths 2>&1 | grep -E '^test_|killed|Ran' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/hostile.py 2>&1 | grep -E 'hostile|FAILED|^ |^[a-z0-9-]+ +[0-9.]' || [ ${PIPESTATUS[0]} = 77 ]
	GIUSTO_RELOADS=3000 GIUSTO_MODE_CHANGES=97000 /usr/bin/python3 tests/truth.py 2>&1 | grep -E '^test_|reloads in|changes of mode in|Ran' || [ ${PIPESTATUS[0]} = 77 ]
	cargo test --release --locked -p giusto-measure --test streams 2>&1 | grep -E '^test |panicked'
	/usr/bin/python3 tests/causes.py 25 2>&1 | grep -E '^(\{|FAILED|AssertionError)' || [ ${PIPESTATUS[0]} = 77 ]
	GIUSTO_PLAYS=1000 cargo test --release --locked -p giusto-network --test real -- 'random events' 2>&1 |
		grep -E '^real:|panicked'
	/usr/bin/python3 tests/attacks.py 2>&1 | grep -E '^\.*  |FAILED|Ran' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/hostile_agents.py 2>&1 | grep -E '^(test_|fault|forged|killed|member|strangers|process id|quiet|Ran)|^ +[a-z].*  ' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/path.py 2>&1 | grep -E '^a trial of|FAILED|Ran' || [ ${PIPESTATUS[0]} = 77 ]
	/usr/bin/python3 tests/deaths.py 2>&1 | grep -E '^test_|seed|passed' || [ ${PIPESTATUS[0]} = 77 ]
} | tee $result
