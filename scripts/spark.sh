#!/usr/bin/env bash
# Installs what the study vas-spark runs: Spark's jars, pinned in studies/vas-spark/pom.xml, and its query, into
# target/vas-spark. Needs Maven and a JDK of 17 or later. Nothing is done where it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
built=target/vas-spark/vas-spark-0.1.0.jar
if [[ -f $built && -z $(find studies/vas-spark/pom.xml studies/vas-spark/src -newer $built) ]]; then
	exit 0
fi
exec mvn -q -B -f studies/vas-spark/pom.xml package
