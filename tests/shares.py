"""Real services on a share of a core beside the same on a whole one: the studies vas-redis and vas-spark in their quick size.
Their claims are judged and printed. What the machine decides, how near the two are in so short a time, is not asserted; that they
are nearer than without a plan is.

  tests/shares.py [STUDY...]        needs root, two cores, Redis, Java and Maven
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
KEPT, FAILS, CANNOT_TELL = 0, 5, 6


def judged(study):
    """What is said of each claim of a study that was played now."""
    with tempfile.TemporaryDirectory() as out:
        words = [str(GIUSTO), "study", "run", study, "--quick", "--json", "--out", out]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (KEPT, FAILS, CANNOT_TELL):
        sys.exit(f"{study} was not played: exit {done.returncode}: {done.stderr}")
    return {claim["says"]: [one["finding"] for one in claim["judgements"]] for claim in json.loads(done.stdout)["claims"]}


def main():
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        return 77
    studies, failed = sys.argv[1:] or ["vas-redis", "vas-spark"], []
    if "vas-spark" in studies:
        subprocess.run([str(ROOT / "scripts" / "spark.sh")], check=True)
    for study in studies:
        claims = judged(study)
        for says, findings in claims.items():
            print(f"{study}: {', '.join(findings)}: {says}")
        nearer = [findings for says, findings in claims.items() if "nearer" in says and "without a plan" in says]
        if nearer != [["holds"]]:
            failed.append(f"{study}: nearer than without a plan: {nearer}")
    if failed:
        sys.exit("\n".join(failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
