"""Distances and intervals of `giusto verify` beside SciPy's.

Distances are compared with scipy.stats.wasserstein_distance and ks_2samp: they must agree to rounding. Intervals of medians
hold the exact ones of independent jobs (order statistics, scipy.stats.binom), and are wider by what cannot be known of how far
jobs depend on each other from 8 to 64 batches. Intervals of distances are compared with scipy.stats.bootstrap on independent
jobs. Both are random: an end of ours is the k-th of 200 resampled values, so it has the standard deviation sqrt(q (1 - q) /
200) / f(q), f the density of the resampled values there (a normal one is assumed), and SciPy's of 4000 the same with 4000. Ours
are resampled in blocks of b neighbours, which estimates a variance to sqrt(4 b / 3 n), as every estimate with Bartlett's window
(Priestley 1981, section 6.2): with b up to 8 of 400 jobs 16 %, 8 % of the interval. No end may be off by more than 5 of these,
nor the ends of all samples together by more than 3.5 of their mean."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

GIUSTO = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release/giusto"
RESAMPLES, THEIRS = 200, 4000


def write(folder, name, times):
    file = Path(folder) / f"{name}.csv"
    at = np.arange(len(times), dtype=np.int64) * 10_000_000
    lines = [f"0,{n},{a},{a},{a + t}" for n, (a, t) in enumerate(zip(at, times))]
    file.write_text("\n".join(["task,job,due_ns,release_ns,finish_ns", *lines]) + "\n")
    return file


def giusto(*args):
    done = subprocess.run([GIUSTO, "verify", *map(str, args), "--json"], capture_output=True, text=True)
    assert done.returncode in (0, 5, 6), done.stderr
    return json.loads(done.stdout)


def draw(rng, number):
    """Response times in ns of many kinds, ties among them."""
    n = int(rng.integers(400, 1500))
    kind = number % 4
    times = (rng.exponential(50_000, n) if kind == 0 else rng.lognormal(11, 0.7, n) if kind == 1 else
             rng.integers(100, 130, n) * 1000.0 if kind == 2 else rng.gamma(3, 20_000, n))
    return 100_000 + times.astype(np.int64)


def noise(q, spread):
    """Standard deviation of the difference of both tools' end at the quantile q, of values with this standard deviation."""
    density = stats.norm.pdf(stats.norm.ppf(q)) / spread
    return np.hypot(np.sqrt(q * (1 - q) * (1 / RESAMPLES + 1 / THEIRS)) / density, 0.08 * abs(stats.norm.ppf(q)) * spread)


class Ends:
    """How far ends of intervals are off, in standard deviations."""

    def __init__(self, what):
        self.what, self.off = what, []

    def add(self, ours, theirs, deviation):
        off = (ours - theirs) / deviation
        assert abs(off) < 5, f"{self.what}: {ours} beside {theirs}, {off:.1f} standard deviations"
        self.off.append(off)

    def tell(self):
        together = np.sum(self.off) / np.sqrt(len(self.off))
        print(f"{self.what}: {len(self.off)} ends, off by {np.std(self.off):.2f} standard deviations, all together by {together:+.2f}")
        assert abs(together) < 3.5, self.what


def main(samples):
    rng = np.random.default_rng(7)
    distance, greatest = Ends("Wasserstein"), Ends("Kolmogorov-Smirnov")
    worst, wider = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(samples):
            a, b = draw(rng, number), draw(rng, number + int(rng.integers(0, 2)))
            files = write(folder, "a", a), write(folder, "b", b)
            two = giusto(*files, "--seed", number)
            w1, ks = stats.wasserstein_distance(a, b), stats.ks_2samp(a, b).statistic
            worst = max(worst, abs(two["w1_ns"]["value"] / w1 - 1), abs(two["ks"]["value"] - ks))
            # What chance may add to a distance is the norm of the resampled error, and the ends are d - e and d + e (see compare()).
            grid = np.unique(np.concatenate([a, b]))
            gaps = np.diff(grid)

            def apart(x, y):
                return np.searchsorted(np.sort(x), grid, "right") / len(x) - np.searchsorted(np.sort(y), grid, "right") / len(y)
            observed = apart(a, b)
            error = {"w1": lambda x, y: np.sum(np.abs(apart(x, y) - observed)[:-1] * gaps), "ks": lambda x, y: np.abs(apart(x, y) - observed).max()}
            for key, name, ends, value in (("w1", "w1_ns", distance, w1), ("ks", "ks", greatest, ks)):
                found = stats.bootstrap((a, b), error[key], n_resamples=THEIRS // 4, vectorized=False, method="percentile",
                                        confidence_level=0.9, random_state=np.random.default_rng(number))
                most, spread = np.quantile(found.bootstrap_distribution, 0.95), np.std(found.bootstrap_distribution)
                # A quarter of the resamples, and errors that are no normal numbers: their tail is longer.
                deviation = 2 * noise(0.95, spread)
                ends.add(two[name]["high"], min(value + most, 1 if key == "ks" else np.inf), deviation)
                if value - most > 3 * deviation:
                    ends.add(two[name]["low"], value - most, deviation)
            for side, times in (("a", a), ("b", b)):
                if len(np.unique(times)) < 100:
                    continue  # of ties the ends are ties too
                median, n = two[side][0], len(times)
                assert median["value_ns"] == np.quantile(times, 0.5, method="inverted_cdf")
                exact = stats.binom.ppf([0.025, 0.975], n, 0.5)
                # Of so many jobs the normal distribution is off by a rank.
                ranks = np.searchsorted(np.sort(times), [median["low_ns"], median["high_ns"]], "right")
                assert ranks[0] <= exact[0] + 1 and ranks[1] >= exact[1] - 1, (ranks, exact)
                wider.append((ranks[1] - ranks[0]) / (exact[1] - exact[0]))
    print(f"distances of {samples} pairs: off by {worst:.1e} at most")
    assert worst < 1e-9
    print(f"intervals of {len(wider)} medians: {np.mean(wider):.2f} times as wide as of independent jobs, "
          f"{max(wider):.2f} times at most")
    assert np.mean(wider) < 1.7 and max(wider) < 2.5
    for ends in (distance, greatest):
        ends.tell()


if __name__ == "__main__":
    main(int(sys.argv[1]))
