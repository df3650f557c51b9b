"""The printed algorithms of [LiH21, chapter 4], in plain NumPy, beside giusto's answer for the same grid, in turns.

Base case: lambda = 0.4, d = 1, P = 2, B = 1.2, N = 20. Algorithm 1 is iterated until a period changes nothing by more than 1e-12,
Algorithm 2 walks (work, budget) slot by slot, eq. 4.13 adds up; with the corrections that specs and tests state (budget spent,
mass over M lost). Arrays, no loops over states.
"""
import json
import subprocess
import sys
import time

import numpy as np

RATE, SERVICE, PERIOD, BUDGET, N = 0.4, 1.0, 2.0, 1.2, 20
GATE = 300


def printed():
    """Pr{R <= x} by slots."""
    d, period, budget = N, round(N * PERIOD / SERVICE), round(N * BUDGET / SERVICE)
    eta, most = RATE * SERVICE / N, 60 * N
    start = np.zeros(most)
    start[0] = 1.0
    while True:
        now = start
        for n in range(period):
            came = np.zeros(most)
            came[d:] = now[:-d]
            now = (1 - eta) * now + eta * came
            if n >= period - budget:
                now = np.concatenate(([now[0] + now[1]], now[2:], [0.0]))
        moved = np.abs(now - start).sum()
        start = now
        if moved < 1e-12:
            break
    states = np.zeros((most, budget + 1))
    states[:, budget] = start
    law = np.zeros(4 * most)
    work, left = np.arange(most)[:, None] + d, np.arange(budget + 1)[None, :]
    for n in range(period):
        first = np.minimum(left, period - n)
        wait = period - n - first
        rest = work - first - budget
        gaps = np.where(work <= first, 0, wait + np.where(rest <= 0, 0, -(-rest // budget)) * (period - budget))
        law += np.bincount((work + gaps).ravel(), weights=states.ravel(), minlength=4 * most)[:4 * most] / period
        came = np.zeros_like(states)
        came[d:] = states[:-d]
        states = (1 - eta) * states + eta * came
        after = np.zeros_like(states)
        after[:-1, :-1] = states[1:, 1:]  # a slot of work and of budget
        after[0, :] += states[0, :]       # idle: the budget is kept
        after[1:, 0] += states[1:, 0]     # spent: the work waits
        states = after
    return np.cumsum(law)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2])
    numpy_s, giusto_s = [], {}
    for _ in range(rounds):
        begin = time.perf_counter()
        law = printed()
        numpy_s.append(time.perf_counter() - begin)
        text = subprocess.run([program, "--json"], check=True, capture_output=True, text=True).stdout
        for row in map(json.loads, text.splitlines()):
            giusto_s.setdefault(row["case"], []).append(row["seconds"])
            if row["case"] == "N=20":
                shares = row["cdf"]
    apart = max(abs(share - law[round(N * at)]) for at, share in shares)
    best, base = min(numpy_s), min(giusto_s["N=20"])
    print(f"plain NumPy of the printed algorithms, N = {N}: {best * 1e3:.1f} ms (best of {rounds})")
    for case, seconds in giusto_s.items():
        print(f"giusto, {case}: {min(seconds) * 1e3:.3f} ms")
    print(f"same distribution to {apart:.1e}; {best / base:.0f} x (gate: >= {GATE} x)")
    if apart > 1e-8:
        sys.exit("the two do not agree")
    if best < GATE * base:
        sys.exit("gate missed")


if __name__ == "__main__":
    main()
