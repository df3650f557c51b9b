#!/usr/bin/python3
"""What 'giusto export xen' writes, against a stand-in for xl and a model of RTDS.

From one random plan to the next the calls of apply.sh, played with virtual CPUs that wake up at the worst instants, cost none
that keeps its promise any of its budget. Killed at any call it can be called again; undone, all is as it was found; what is
in the way is told.

  xen-changes.py [SEED [PAIRS [PLAYS]]]   PLAYS of each change (default 1, 40, 25; a fixed seed is a fixed sample)
  xen-changes.py --broken [WORD...]  apply.sh with faults in it (those whose names have one of the words): each must be found out
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "xen"))
import rtds  # noqa: E402

ROOT = HERE.parent
GIUSTO = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/giusto"
PERIODS = [5, 10, 20, 40]  # ms
# What replaces what in apply.sh; the calls of each must break a promise, or leave something behind.
FAULTS = {
    "no wait between the steps": ("|| sleep $wait", "|| : $wait"),
    "called again it does not wait": (
        "if [ -s $work/second ]; then",
        "if [ -s $work/second ]; then\n[ -s $work/first ] || rm -f $state/until",
    ),
    "what could not be cut does not stop the rest": ("	if [ $code != 0 ]; then", "	if false; then"),
    "virtual CPUs that no plan knows": ("!(($1, $2) in target) &&", "!($1 in ours) &&"),
    "all at once": ("moves = cores[$1, $2] != $3", 'longest = $4; least = $5; between = $4 " " $5 " " $6; moves = 0'),
    "the least bandwidth instead of the least budget and the longest period": (
        "longest = period[$1, $2] > $4 ? period[$1, $2] : $4",
        "longest = $4",
    ),
    "one that moves keeps its budget": (
        'between = longest " 10 1"',
        'between = longest " " least " " $6',
    ),
    "budgets are not read back": ("differ=$(awk", "differ=; : $(awk"),
    "undo forgets cores": (
        'xl vcpu-pin "$domain" "$vcpu" "$cores" >/dev/null',
        '{ [ -n "$undo" ] || xl vcpu-pin "$domain" "$vcpu" "$cores"; }',
    ),
}


class Failed(Exception):
    pass


def require(holds, text):
    if not holds:
        raise Failed(text)


class Host:
    """A control domain: the stand-in for xl with its state, in a folder."""

    def __init__(self, folder, cores):
        self.folder, self.cores = folder, cores
        folder.mkdir()
        (folder / "bin").mkdir()
        for tool in ("xl", "sleep"):
            shutil.copy(HERE / "xen" / tool, folder / "bin" / tool)
        (folder / "cpus").write_text(f"{cores}\n")
        (folder / "scheduler").write_text("rtds\n")
        (folder / "log").write_text("")

    def begin(self, domains):
        """`domains`: name, virtual CPUs; all with Xen's defaults."""
        every = ",".join(map(str, range(self.cores)))
        each = [(name, number, vcpu) for number, (name, vcpus) in enumerate(domains) for vcpu in range(vcpus)]
        lines = [f"{name} {number} {vcpu} {every} 10000 4000 1\n" for name, number, vcpu in each]
        (self.folder / "domains").write_text("".join(lines))

    def state(self):
        """By domain and virtual CPU: cores, period, budget, extra time."""
        found = {}
        for line in (self.folder / "domains").read_text().splitlines():
            name, _, vcpu, cores, period, budget, extra = line.split()
            found[name, int(vcpu)] = (cores, int(period), int(budget), int(extra))
        return found

    def apply(self, script, *words, until=None):
        """Exit code, output and the calls that changed something; with `until`, killed after so many calls."""
        (self.folder / "log").write_text("")
        env = {**os.environ, "XEN": str(self.folder), "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(["sh", str(script), *words], env=env, start_new_session=True, **output)
        if until is not None:
            while process.poll() is None and len((self.folder / "log").read_text().splitlines()) < until:
                pass
            if process.poll() is None:
                os.killpg(process.pid, 9)
        text = process.communicate()[0]
        return process.returncode, text, (self.folder / "log").read_text().splitlines()


def draw(rng):
    """Periods in ms and percents of a core of five virtual CPUs."""
    return [(rng.choice(PERIODS), rng.randrange(3, 25)) for _ in range(5)]


def site(drawn, cores, dom0, scale):
    """A site of domains on so many cores, each with `scale` times what is drawn for it."""
    supply = [f"{min(int(period * 10 * share * scale), period * 1000)}us/{period}ms" for period, share in drawn]
    domains = [f"{supply[0]}, {supply[1]}", *supply[2:]]
    text = f"giusto: 1\nhosts:\n  x1: {{hypervisor: xen, cores: 0-{cores - 1}, dom0: {{cores: {dom0}, reserve: 1ms/20ms}}}}\n"
    text += "services:\n  rest: {adopt: {xen: rest}, promise: leftovers}\n"
    for number, supplies in enumerate(domains):
        text += f"  d{number}: {{adopt: {{xen: d{number}}}, promise: {{supply: [{supplies}]}}}}\n"
    return text


DOMAINS = [("Domain-0", 1), ("d0", 2), ("d1", 1), ("d2", 1), ("d3", 1), ("rest", 2)]


def export(folder, text, found):
    """The folder of a plan's files, or `None` where it does not fit; apply.sh keeps what it finds in `found`."""
    (folder / "site.yaml").write_text(text)
    out = folder / "out"
    done = subprocess.run([GIUSTO, "export", "xen", folder / "site.yaml", "--out", out], capture_output=True, text=True)
    require(done.returncode in (0, 1), f"export: {done.returncode}: {done.stderr}")
    if done.returncode:
        return None
    script = out / "x1" / "apply.sh"
    script.write_text(script.read_text().replace("state=/run/giusto-xen", f"state={found}"))
    return script


def full(drawn, cores, dom0, folder, found):
    """The files of a plan for hardly more than which there is room; `None`: not even a third of it fits."""
    for scale in (1.6, 1.45, 1.3, 1.15, 1, 0.85, 0.7, 0.5, 0.3):
        script = export(folder, site(drawn, cores, dom0, scale), found)
        if script is not None:
            return script
    return None


def wanted(script):
    """What servers.txt asks for."""
    found = {}
    for line in (script.parent / "servers.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, vcpu, cores, period, budget, extra = line.split()[:6]
            for each in range(2) if vcpu == "all" else [int(vcpu)]:
                found[name, each] = (cores, int(period), int(budget), int(extra))
    return found


HALF = 200_000  # us before the first call, and after it


def timed(rng, before, calls):
    """The calls with their instants, and for each virtual CPU from when on it has which period."""
    now, found = HALF, []
    periods = {key: [(0, period)] for key, (_, period, _, _) in before.items()}
    for call in calls:
        word, *rest = call.split()
        if word == "sleep":
            now += int(float(rest[0]) * 1_000_000)
            continue
        now += rng.randrange(20, 2_000)
        key = rest[0], int(rest[1])
        found.append((now, word, key, rest[2:]))
        if word == "set":
            periods[key].append((now, int(rest[2])))
    return found, periods


def back(periods, end, to):
    """The first renewal after `to` of those that lead to one at `end`, each by the period that is in force at it."""
    while True:
        begins = [end - period for nth, (since, period) in enumerate(periods) if since <= end - period]
        begins = [at for at in begins if at > to and in_force(periods, at) == end - at]
        if not begins:
            return end
        end = max(begins)


def in_force(periods, at):
    return [period for since, period in periods if since <= at][-1]


def against(rng, periods, victim):
    """Deadlines and instants of beginning or ending to work that make one wait the longest: its period begins when all others,
    which have kept their budgets, wake up, and ends with deadlines of all of them."""
    begin = rng.choice([since for each in periods.values() for since, _ in each[1:]] or [HALF]) + rng.randrange(-20_000, 20_000)
    end = begin + in_force(periods[victim], begin)
    found = {victim: (back(periods[victim], begin, 0), [])}
    for key, own in periods.items():
        if key == victim:
            continue
        first = back(own, end, begin)  # the deadline of what it has kept
        early = rng.randrange(max(first - in_force(own, begin), 1), begin) if first - in_force(own, begin) < begin - 1 else begin
        period = in_force(own, early)
        deadline = (first - 1) % period + 1
        # It wakes up and sleeps again before it has run, so that it holds the budget of that moment.
        found[key] = (deadline, [early, early, begin] if early < begin and rng.random() < 0.6 else [begin])
    return found


def by_chance(rng, periods):
    found = {}
    for key, own in periods.items():
        period, switches, at = own[0][1], [], 0
        style = rng.random()
        while at < 2 * HALF and style > 0.3:
            at += rng.randrange(1, 3 * period)
            switches.append(at)
        found[key] = (rng.randrange(period) + 1, switches)
    return found


def played(rng, before, after, calls):
    """Plays the calls from `before` to `after`: what a virtual CPU got of each of its periods is what the lesser of both has."""
    calls, periods = timed(rng, before, calls)
    victim = rng.choice(list(before))
    directed = rng.random() < 0.8
    times = against(rng, periods, victim) if directed else by_chance(rng, periods)
    vcpus = {}
    for key, (cores, period, budget, extra) in before.items():
        deadline, switches = times[key]
        has_work = not directed or key == victim
        vcpus[key] = rtds.Vcpu(period, budget, bool(extra), cores, deadline, switches, budget, had=budget, has_work=has_work)

    def change(word, vcpu, rest):
        if word == "pin":
            vcpu.core = rest[0]
        else:
            vcpu.period, vcpu.budget, vcpu.extra = int(rest[0]), int(rest[1]), rest[2] == "1"

    actions = [(at, lambda call=(word, vcpus[key], rest): change(*call)) for at, word, key, rest in calls]
    rtds.play(list(vcpus.values()), actions, (calls[-1][0] if calls else HALF) + HALF)
    checked = 0
    for key, vcpu in vcpus.items():
        (old_cores, old_period, old_budget, _), (new_cores, new_period, new_budget, _) = before[key], after[key]
        for begin, end, had, got, whole in vcpu.periods:
            if not whole:
                continue
            checked += 1
            require(got >= had, f"{key}: {got} of {had} us in the period from {begin} to {end}; changes from {HALF}")
            if old_cores == new_cores or key[0] == "Domain-0":
                least, longest = min(old_budget, new_budget), max(old_period, new_period)
                told = f"{key}: {had} in {end - begin} us, promised {least} in {longest}"
                require(had >= least and end - begin <= longest, told)
        require((vcpu.period, vcpu.budget) == (new_period, new_budget), f"{key} ends with {vcpu.period}, {vcpu.budget}")
    return checked


def run(seed, pairs, fault=None, plays=25):
    """How many cases of each sort there were. Errors: `Failed`."""
    rng = random.Random(seed)
    counted = ("pairs", "plans that do not fit", "calls", "periods of virtual CPUs", "moves", "kills", "kills between the steps")
    counts = dict.fromkeys(counted, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while counts["pairs"] < pairs:
            cores = rng.randrange(1, 4)
            here = folder / f"{counts['pairs']}-{counts['plans that do not fit']}"
            here.mkdir()
            scripts = []
            drawn = draw(rng)
            for part in ("one", "other"):
                (here / part).mkdir()
                script = full(drawn, cores, rng.randrange(cores), here / part, here / "found")
                # The other plan is a new one, or who had much has little.
                drawn = draw(rng) if rng.random() < 0.6 else drawn[1:] + drawn[:1]
                if script is None:
                    break
                if fault:
                    text = script.read_text()
                    require(fault[0] in text, f"apply.sh has no {fault[0]}")
                    script.write_text(text.replace(*fault))
                scripts.append(script)
            if len(scripts) < 2:
                counts["plans that do not fit"] += 1
                continue
            one_pair(rng, Host(here / "host", cores), scripts, counts, plays)
            counts["pairs"] += 1
    return counts


def one_pair(rng, host, scripts, counts, each):
    host.begin(DOMAINS)
    found = host.state()
    for nth, script in enumerate([*scripts, scripts[0]]):
        before, killed, plays = host.state(), [], each
        if nth == 2:
            # Killed after any of its calls, or as it waits between the steps, and called again.
            if rng.random() < 0.5:
                (host.folder / "dies").touch()
                code, text, killed = host.apply(script)
                (host.folder / "dies").unlink()
                counts["kills between the steps"] += code == -9
                plays *= 4  # where the wait matters most
            else:
                code, text, killed = host.apply(script, until=rng.randrange(1, 12))
                counts["kills"] += code == -9
        code, text, calls = host.apply(script)
        require(code == 0, f"apply.sh: {code}: {text}")
        after = host.state()
        require(after == wanted(script), f"it is {after}, wanted {wanted(script)}")
        counts["calls"] += len(calls)
        if nth > 0:
            counts["moves"] += sum(before[key][0] != after[key][0] for key in after)
            for _ in range(plays):
                counts["periods of virtual CPUs"] += played(rng, before, after, killed + calls)
        code, text, calls = host.apply(script)
        require(code == 0 and not calls and not text, f"called again: {code}: {text}{calls}")
    for how in ("fails", "ignores"):
        (host.folder / how).touch()
        code, text, calls = host.apply(scripts[1])
        require(code == 4, f"where xl {how}: {code}: {text}")
        (host.folder / how).unlink()
    code, text, _ = host.apply(scripts[0], "--undo")
    require(code == 0 and host.state() == found, f"undone: {code}: {text}, it is {host.state()}, was {found}")
    code, text, calls = host.apply(scripts[0], "--undo")
    require(code == 0 and not calls and "nothing to undo" in text, f"undone again: {code}: {text}")


def in_the_way(fault=None):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "site").mkdir()
        script = export(folder / "site", (HERE / "xen/site.yaml").read_text(), folder / "found")
        if fault:
            script.write_text(script.read_text().replace(*fault))
        host = Host(folder / "host", 1)
        names = [("Domain-0", 1), ("large", 1), ("small", 1), ("rest", 1)]
        nothing, some = False, True
        cases = [
            ("a domain that no plan knows", [*names, ("stranger", 1)], "", 4, "domain stranger is not in the plan", nothing),
            ("one with a blank", [*names, ("large?old", 1)], "", 4, "domain large old is not in the plan", nothing),
            ("a virtual CPU more", [("Domain-0", 2), *names[1:]], "", 4, "dom0_max_vcpus=1", nothing),
            ("a domain's virtual CPU more", [names[0], ("large", 2), *names[2:]], "", 4, "start it with vcpus = 1", nothing),
            ("leftovers with many", [*names[:3], ("rest", 5)], "", 4, "room for 4", nothing),
            ("a domain that does not run", names[:2] + names[3:], "", 3, "domain small does not run", some),
            ("another scheduler", names, "scheduler", 3, "Xen's scheduler is 'credit2', not rtds", nothing),
            ("xl that does not work", names, "down", 4, "run this as root in the control domain. It says: xencall", nothing),
            ("xl that lists nothing", names, "silent", 4, "call this again", nothing),
            ("a cut that fails", names, "fails-rest", 4, "nothing was raised", some),
            ("another one at work", names, "lock", 4, "another apply.sh is at work", nothing),
        ]
        for what, domains, spoilt, expected, told, acts in cases:
            host.begin(domains)
            spoil = {"scheduler": host.folder / "scheduler", "lock": folder / "found/lock"}.get(
                spoilt, host.folder / (spoilt or "none")
            )
            kept = spoil.read_text() if spoilt == "scheduler" else ""
            if spoilt == "lock":
                spoil.mkdir(parents=True)
                (spoil / "pid").write_text(f"{os.getpid()}\n")
            else:
                spoil.write_text("credit2\n")
            code, text, calls = host.apply(script)
            if spoilt == "lock":
                shutil.rmtree(spoil)
            elif kept:
                spoil.write_text(kept)
            else:
                spoil.unlink()
            require(code == expected and told in text and bool(calls) == acts, f"{what}: {code}: {text}{calls}")
            if spoilt == "fails-rest":
                raised = [call for call in calls if call.startswith("set large")]
                require(not [call for call in raised if int(call.split()[4]) > 4000], f"{what}: {calls}")
        # One that died leaves its lock; a domain that came later is a new one again when all is undone.
        host.begin(names[:2] + names[3:])
        (folder / "found/lock").mkdir(parents=True, exist_ok=True)
        (folder / "found/lock/pid").write_text("999999\n")
        require(host.apply(script)[0] == 3, "a lock that is left behind stops it")
        host.begin(names)
        require(host.apply(script)[0] == 0, "all run")
        code, text, _ = host.apply(script, "--undo")
        require(code == 0 and set(host.state().values()) == {("0", 10000, 4000, 1)}, f"undone: {code}: {text}{host.state()}")
        require(host.apply(script, "--force")[0] == 2, "an unknown word is taken")
        (script.parent / "servers.txt").unlink()
        code, text, calls = host.apply(script)
        require(code == 4 and "copy the whole folder" in text and not calls, f"no servers.txt: {code}: {text}")
        # A plan for more cores than there are.
        (folder / "large").mkdir()
        text = (HERE / "xen/site.yaml").read_text().replace("cores: 0, dom0: {cores: 0", "cores: 0-2, dom0: {cores: 2")
        script = export(folder / "large", text, folder / "found2")
        host.begin(names)
        code, text, calls = host.apply(script)
        require(code == 4 and "and this host has 0 to 0" in text and not calls, f"cores: {code}: {text}")
    return len(cases) + 6


def main(words):
    if words[:1] == ["--broken"]:
        survived = 0
        for name, fault in FAULTS.items():
            if not any(word in name for word in words[1:] or [""]):
                continue
            try:
                run(1, 40, fault)
                in_the_way(fault)
                survived += 1
                print(f"NOT FOUND: {name}", flush=True)
            except Failed as why:
                print(f"found: {name}: {str(why)[:110]}", flush=True)
        return 1 if survived else 0
    seed, pairs, plays = [int(given or default) for given, default in zip_longest(words, (1, 40, 25))]
    try:
        counts = run(seed, pairs, plays=plays)
        told = in_the_way()
    except Failed as why:
        print(f"FAILED with seed {seed}: {why}")
        return 1
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()) + f", {told} refusals: held")
    lacking = [what for what in ("moves", "kills", "kills between the steps") if not counts[what]]
    if lacking:
        print(f"FAILED: too few cases: no {', '.join(lacking)}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
