#!/usr/bin/python3
"""The status pages: what Giusto claims, the command that shows it, its last result, and whether that is older than the code.

  scripts/status.py                 writes docs/status.md and docs/status/ROOM.md from the claims and their last results
  scripts/status.py check           whether claims and results belong together (in 'make lint')
  scripts/status.py run [WORD]...   runs the commands of claims whose result is older than their code, or of those whose text has
                                    all words; records what they print; writes the pages ('make status'). What 'make test' ran at
                                    this commit is not run again
  scripts/status.py take            the same with nothing run: what 'make test' showed at this commit

docs/status/ROOM.toml has the claims: 'promise', 'command' (in words,
        the commands to run in backquotes) and, where it differs from
the room's, 'about': the folders that the claim speaks of. 'shows' is a pattern: the lines of the output that are the result.
docs/status/ROOM.json has the results, by promise; this program writes it. A command that fails leaves the result as it was and is
shown as failed.
"""
import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/status"
LOG = ROOT / "target/test.log"
# A command in backquotes that can be run as it stands; others are shown only.
RUNS = re.compile(r"`((?:[A-Z_]+=\S+ )*(?:cargo|make|tests/|/usr/bin/python3|policy/|scripts/|kubernetes/|mvn|go test)[^`]*)`")
# Without 'shows': the sums of test programs.
SUMS = r"^(test result: .*|.*\d+ (?:passed|ran|held|killed)\b.*|OK.*|PASS)$"
LIMIT = 40 * 60  # seconds a command
LONGEST = 400  # characters of a result


class Claim:
    def __init__(self, room, table, about, result):
        self.room, self.promise, self.command = room, table["promise"], table["command"]
        self.about = table.get("about", about)
        self.shows = re.compile(table.get("shows", SUMS), re.MULTILINE)
        self.result = result

    def newer(self):
        """How many commits have changed what it speaks of since its result."""
        since = self.result.get("commit")
        done = git("log", "--format=%h", f"{since}..HEAD", "--", *self.about) if since else None
        return None if done is None else len(done.split())

    def state(self):
        if "failed" in self.result:
            return f"🔴 **failed**: {self.result['failed']}"
        newer = self.newer()
        if newer is None:
            return "🔴 of a commit that is not in this history" if self.result else "🔴 never run"
        return "🟢 current" if newer == 0 else f"🔴 older than its code by {newer} commit{'s' if newer > 1 else ''}"

    def commands(self):
        return RUNS.findall(re.sub(r"\([^()]*\)", "", self.command))  # what is in brackets says more of it

    def run(self, done):
        """Runs its commands, each once a run of this program: `done` has the output of those that ran."""
        commands = self.commands()
        where = ROOT / "messaging" if "in `messaging/`" in self.command else ROOT
        for command in commands:
            if plain(command) not in done:
                print(f"... {command}", flush=True)
                start = time.monotonic()
                try:
                    ran = subprocess.run(command, shell=True, cwd=where, capture_output=True, text=True, timeout=LIMIT,
                            executable="/bin/bash")
                    done[plain(command)] = (ran.returncode, ran.stdout + ran.stderr)
                except subprocess.TimeoutExpired:
                    done[plain(command)] = (124, f"not done within {LIMIT} s")
                print(f"    exit {done[plain(command)][0]} after {time.monotonic() - start:.0f} s", flush=True)
        failed = [(command, *done[plain(command)]) for command in commands if done[plain(command)][0] not in (0, 77)]
        if failed:
            command, code, output = failed[0]
            self.result["failed"] = f"`{command}` exit {code}: {(output.strip().splitlines() or ['no output'])[-1][:LONGEST]}"
        elif commands:
            shown = [line[0].strip() for command in commands for line in self.shows.finditer(done[plain(command)][1])]
            self.result.pop("failed", None)
            text = "; ".join(dict.fromkeys(shown))[:LONGEST] or "exit 0"
            self.result.update(result=text, commit=git("rev-parse", "--short=8", "HEAD").strip(), date=time.strftime("%Y-%m-%d"))
        return bool(commands)


def taken():
    """Exit code and output of each command that 'make test' ran, if it was at this commit with no changes."""
    text = LOG.read_text(errors="replace") if LOG.exists() else ""
    if not text.startswith(f"commit {git('rev-parse', 'HEAD')}"):
        return {}
    found = re.findall(r"^=== (.*)\n\$ (.*)\n((?:.*\n)*?)--- \1: (passed|SKIPPED|FAILED)", text, re.MULTILINE)
    return {plain(command): ({"passed": 0, "SKIPPED": 77, "FAILED": 1}[end], output) for _, command, output, end in found}


def plain(command):
    return command.removeprefix("/usr/bin/python3 ")


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def rooms():
    """The claims of each room."""
    found = {}
    for file in sorted(FOLDER.glob("*.toml")):
        table = tomllib.loads(file.read_text())
        results_file = file.with_suffix(".json")
        results = json.loads(results_file.read_text()) if results_file.exists() else {}
        claims = table["claim"]
        found[file.stem] = [Claim(file.stem, claim, table["about"], results.get(claim["promise"], {})) for claim in claims]
    return found


def save(room, claims):
    text = json.dumps({claim.promise: claim.result for claim in claims}, indent=1, ensure_ascii=False)
    (FOLDER / f"{room}.json").write_text(text + "\n")


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def render(found):
    commit = git("rev-parse", "--short=8", "HEAD")
    asof = f"As of {time.strftime('%Y-%m-%d')}" + (f", commit {commit.strip()}" if commit else "")
    index = [
        "# Status", "",
        "Each promise, the command that shows it, its last result with date and commit, and whether the code that it speaks of",
        "has changed since. Written by `make status` from `docs/status/*.toml`. Absolute figures are of noisy virtual machines",
        "with two cores. Long campaigns are in [soak.txt](soak.txt).", "",
        f"{asof}:", "",
        "| room | promises | current | older than their code | failed |",
        "|---|---|---|---|---|",
    ]
    for room, claims in found.items():
        states = [claim.state() for claim in claims]
        counts = [sum(word in state for state in states) for word in ("current", "older", "failed")]
        index.append(f"| [{room}](status/{room}.md) | {len(claims)} | {' | '.join(map(str, counts))} |")
        page = [f"# Status: {room}", "", f"{asof}. Written by `make status`.", "",
                "| promise | command that shows it | last result | of | state |",
                "|---|---|---|---|---|"]
        for claim, state in zip(claims, states):
            of = f"{claim.result.get('date') or ''} {claim.result.get('commit', '')}".strip()
            page.append(f"| {' | '.join(map(cell, (claim.promise, claim.command, claim.result.get('result', ''), of, state)))} |")
        (FOLDER / f"{room}.md").write_text("\n".join(page) + "\n")
    (ROOT / "docs/status.md").write_text("\n".join(index) + "\n")


def check(found):
    """Results without a claim and claims that are made twice, in words."""
    wrong = []
    for room, claims in found.items():
        promises = [claim.promise for claim in claims]
        wrong += [f"docs/status/{room}.toml: made twice: {one}" for one in sorted(set(promises)) if promises.count(one) > 1]
        file = FOLDER / f"{room}.json"
        results = json.loads(file.read_text()) if file.exists() else {}
        wrong += [f"docs/status/{room}.json: no such promise in {room}.toml: {one}" for one in results if one not in promises]
        about = [path for claim in claims for path in claim.about]
        wrong += [f"docs/status/{room}.toml: no such folder: {path}" for path in about if not (ROOT / path).exists()]
    return wrong


def main(arguments):
    if arguments[:1] not in ([], ["run"], ["take"], ["check"]):
        sys.exit(__doc__)
    found = rooms()
    if arguments == ["check"]:
        wrong = check(found)
        sys.exit("\n".join(wrong) or None)
    if arguments:
        words, done, take = arguments[1:], taken(), arguments == ["take"]
        def wanted(claim):
            text = f"{claim.room} {claim.promise} {claim.command}"
            if take:
                return claim.commands() and all(plain(command) in done for command in claim.commands())
            return all(word in text for word in words) if words else claim.newer() != 0
        chosen = [claim for claims in found.values() for claim in claims if wanted(claim)]
        print(f"{len(chosen)} claims", flush=True)
        for claim in chosen:
            if claim.run(done):
                save(claim.room, found[claim.room])
                print(f"  {claim.room}: {claim.promise[:80]}: {claim.result.get('failed') or claim.result['result']}", flush=True)
    render(found)


if __name__ == "__main__":
    main(sys.argv[1:])
