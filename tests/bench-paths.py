"""How long `giusto plan` takes for many paths over many hosts: random chains of two to four services, on random hosts of 12
cores.

  tests/bench-paths.py [PATHS [HOSTS]]    1000 over 100 by default
"""
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def site(paths, hosts):
    chance = random.Random(5)
    links, services, told = set(), [], []
    for nth in range(paths):
        at = [chance.randrange(hosts) for _ in range(chance.randint(2, 4))]
        times = [chance.randrange(2, 30) * 100 for _ in at]
        rate = chance.uniform(0.05, 0.2) / (max(times) * 1e-6)
        names = [f"p{nth}-{stage}" for stage in range(len(at))]
        for name, host, took in zip(names, at, times):
            services.append(f"  {name}: {{start: /bin/true, on: h{host}, execution: {took}us}}")
        links |= {(one, other) for one, other in zip(at, at[1:]) if one != other}
        promise = max(60, sum(times) * chance.uniform(20, 60) / 1000)
        through = ", ".join(f"{{service: {name}}}" for name in names)
        told.append(f"  path{nth}: {{source: {{poisson: {rate:.3f}/s}}, through: [{through}], "
                    f"promise: {{p99: {promise:.1f}ms}}}}")
    lines = ["giusto: 1", "hosts:", *(f"  h{host}: {{cores: 0-11}}" for host in range(hosts)), "links:"]
    lines += [f"  h{one} to h{other}: {{worst: 300us}}" for one, other in sorted(links)]
    return "\n".join([*lines, "services:", *services, "paths:", *told]) + "\n"


def main():
    paths, hosts = (*map(int, sys.argv[1:]), *(1000, 100)[len(sys.argv) - 1:])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "site.yaml"
        file.write_text(site(paths, hosts))
        begin = time.monotonic()
        words = [str(ROOT / "target/release/giusto"), "plan", str(file), "--out", f"{folder}/plan.json"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        print(f"{paths} paths over {hosts} hosts are planned in {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
