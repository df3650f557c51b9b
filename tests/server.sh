#!/usr/bin/env bash
# Builds giusto-zookeeper's server where it is not built yet: tests of messages run over it. Without Maven or Java nothing
# is built.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v mvn >/dev/null && command -v java >/dev/null || exit 0
mkdir -p target
exec 9>target/server.lock
flock 9
ls coordination/server/target/giusto-zookeeper-*.jar >/dev/null 2>&1 ||
	mvn -B -q -f coordination/pom.xml -pl server package -DskipTests
