#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
"""Transcripts of token buckets with what the law, not an algorithm, says must come out, in exact arithmetic.

    bucket.py law SEED RUNS    random buckets, every magnitude, hostile arguments among them
    bucket.py drift CALLS      two long ones whose results have a closed form

The transcript goes to standard output, what it covers to standard error. For each window, by where it starts, the oracle
keeps how much may still be released in it; a release is the least ns at which no window is exceeded, and 1 ns earlier one
is. That the windows hold is checked once more from the finished run, in fractions. Exit 1 if something is not covered.
"""
import random
import sys
from collections import Counter
from fractions import Fraction

TOKEN, LAST, NUM, DEN = 1 << 20, 1 << 62, 1 << 52, 1 << 42
covered = Counter()


def tokens(units):
    return f"{units >> 20}+{units % TOKEN}" if units % TOKEN else str(units >> 20)


class Bucket:
    """Amounts are in 1 / (2^20 10^9 den) tokens, of which a unit has 10^9 den and num 2^20 flow in each ns."""

    def __init__(self, num, den, burst, fill, now):
        self.num, self.den, self.burst, self.at = num, den, burst, now
        self.windows = [fill * 10**9 * den]
        self.calls = [(0, Fraction(fill, TOKEN), Fraction(0))]  # (tokens, burst in force, inflow so far), for `check`
        self.inflow = Fraction(0)

    def level(self):
        return min(self.windows + [self.burst * 10**9 * self.den])

    def advance(self, now):
        if now <= self.at:
            return
        grown = (now - self.at) * self.num * TOKEN
        covered["products beyond 64 bits"] += grown >> 73 > 0
        full = self.burst * 10**9 * self.den
        covered["full"] += self.level() + grown >= full
        self.windows = [window + grown for window in self.windows]
        self.inflow += Fraction(self.num * (now - self.at), self.den * 10**9)
        self.at = now

    def conforms(self, amount, wait):
        return all(window + wait * self.num * TOKEN >= amount for window in self.windows)

    def take(self, n, now):
        if now > LAST:
            return "refused=bad_time"
        if n * TOKEN > self.burst:
            return "refused=too_many"
        self.advance(now)
        amount, wait = n * TOKEN * 10**9 * self.den, 0
        if not self.conforms(amount, 0):
            lack = amount - min(self.windows)
            if not self.num or self.at + -(-lack // (self.num * TOKEN)) > LAST:
                return "refused=never"
            wait = -(-lack // (self.num * TOKEN))
            assert self.conforms(amount, wait) and not self.conforms(amount, wait - 1)
            covered["delayed"] += 1
            covered["rounded up"] += lack % (self.num * TOKEN) > 0
            covered["full by rounding up"] += min(self.windows) + wait * self.num * TOKEN > self.burst * 10**9 * self.den
        else:
            covered["not delayed"] += 1
        self.advance(self.at + wait)
        self.release(n)
        return f"release={self.at}"

    def admit(self, n, now):
        if now > LAST or n * TOKEN > self.burst:
            return "no"
        self.advance(now)
        if not self.conforms(n * TOKEN * 10**9 * self.den, 0):
            covered["not admitted"] += 1
            return "no"
        covered["admitted"] += 1
        self.release(n)
        return "yes"

    def release(self, n):
        """Every window so far has it, and one starts here."""
        self.windows.append(self.burst * 10**9 * self.den)
        self.windows = [window - n * TOKEN * 10**9 * self.den for window in self.windows]
        self.calls.append((n, Fraction(self.burst, TOKEN), self.inflow))

    def set(self, num, den, burst, now):
        if num >= NUM or not 0 < den < DEN:
            return "refused=bad_rate"
        if burst > LAST:
            return "refused=bad_burst"
        if now > LAST:
            return "refused=bad_time"
        self.advance(now)
        before = self.level()
        least = min(burst, self.burst)  # a window may start between the old and the new
        self.windows.append(least * 10**9 * self.den)
        covered["update that shrinks" if burst < self.burst else "update that grows"] += 1
        covered["update that forfeits"] += before > least * 10**9 * self.den
        self.calls.append((0, Fraction(least, TOKEN), self.inflow))
        if den != self.den:  # down, to a 5^9 den-th of a unit
            exact = [Fraction(window * den, self.den * 512) for window in self.windows]
            self.windows = [int(window // 1) * 512 for window in exact]
            covered["update that rounds"] += any(window.denominator > 1 for window in exact)
        self.num, self.den, self.burst = num, den, burst
        return "ok"

    def check(self):
        """The law: what the calls i..j released is at most the burst at i and what flowed in from i to j."""
        released, least = 0, None
        for n, burst, inflow in self.calls:
            room = burst - inflow + released
            least = room if least is None else min(least, room)
            released += n
            assert released - inflow <= least, "a window is exceeded"

    def next_conforming(self, n):
        """The least instant at which n tokens are there, or None."""
        lack = n * TOKEN * 10**9 * self.den - min(self.windows)
        if n * TOKEN > self.burst or not self.num:
            return None
        return self.at + max(0, -(-lack // (self.num * TOKEN)))

    def state(self):
        level = self.level() // 512  # in parts
        return f"fill={tokens(level // (self.den * 5**9))} rest={level % (self.den * 5**9)} at={self.at}"


def any_size(rng, bits):
    return rng.getrandbits(rng.randint(0, bits))


def rate(rng, style):
    """num, den, burst. Tight: about a token a ns, so that rounding shows; real: what hosts use; wide: any there is."""
    if style == "tight":
        num, den = rng.randint(1, 20) * 10**9, rng.randint(1, 40)
        return num, den, rng.randint(1, 4) * TOKEN + rng.choice([0, 0, 1, TOKEN // 2, rng.randrange(TOKEN)])
    if style == "real":
        return rng.randint(0, 10**7), rng.choice([1, 7, 1000, 10**6]), rng.randint(1, 1000 * TOKEN)
    return any_size(rng, 52) % NUM, any_size(rng, 42) % (DEN - 1) + 1, any_size(rng, 62)


def law(seed, runs):
    rng = random.Random(seed)
    for _ in range(runs):
        style = rng.choice(["tight", "tight", "real", "wide"])
        num, den, burst = rate(rng, style)
        fill, now = rng.choice([burst, 0, rng.randint(0, burst)]), rng.choice([0, 0, any_size(rng, 60)])
        b = Bucket(num, den, burst, fill, now)
        print(f"at {now} bucket rate={num}/{den} burst={tokens(burst)} fill={tokens(fill)} -> ok {b.state()}")
        for _ in range(rng.randint(10, 80)):
            most = b.burst // TOKEN + 1
            n = rng.choice([1, 1, rng.randint(0, most), min(most, any_size(rng, 10))])
            gap = Fraction(b.den * 10**9, max(b.num, 1)) * max(n, 1)
            step = rng.choice([0, 1, rng.randint(0, 8), int(gap * Fraction(rng.random() * 1.9))])
            if style == "wide" and rng.random() < 0.3 or not b.num:
                step = any_size(rng, 58)
            now = min(max(now, b.at if rng.random() < 0.3 else 0) + step, LAST)
            at = max(0, now - rng.randint(1, 9)) if rng.random() < 0.05 else now
            if rng.random() < 0.01:
                at = rng.choice([LAST + 1, (1 << 64) - 1, any_size(rng, 64)])
            covered["a time before the last"] += at < b.at
            covered["no rate"] += not b.num
            earliest = b.next_conforming(n)
            kind = rng.choice(["take", "take", "take", "admit", "admit", "boundary", "boundary", "set"])
            if kind == "set" and rng.random() < 0.7:
                kind = "take"
            if kind == "boundary":  # a conformant stream is never delayed; 1 ns before, it is not conformant
                if earliest is None or earliest > LAST:
                    continue
                covered["just conformant"] += 1
                if earliest > b.at + 1:
                    covered["just not conformant"] += 1
                    print(f"at {earliest - 1} admit {n} -> {b.admit(n, earliest - 1)} {b.state()}")
                    assert b.next_conforming(n) == earliest
                result = b.take(n, earliest)
                assert result == f"release={earliest}"
                print(f"at {earliest} take {n} -> {result} {b.state()}")
            elif kind == "set":
                num, den, burst = rate(rng, style)
                if rng.random() < 0.5:
                    den = b.den
                if rng.random() < 0.05:
                    num, den, burst = rng.choice([(NUM, den, burst), (num, 0, burst), (num, DEN, burst), (num, den, LAST + 1)])
                result = b.set(num, den, burst, at)
                covered[result] += 1
                print(f"at {at} set rate={num}/{den} burst={tokens(burst)} -> {result} {b.state()}")
            else:
                result = getattr(b, kind)(n, at)
                covered[result] += 1
                print(f"at {at} {kind} {n} -> {result} {b.state()}")
        b.check()


def drift(calls):
    """Backlogged, the k-th token leaves at ceil((k - b) / r); polled each ns, floor(b + r t) tokens have left by t."""
    num, den, burst = 10999_700, 1000, 26 * TOKEN + 314159
    r, b = Fraction(num, den * 10**9), Fraction(burst, TOKEN)
    print(f"bucket rate={num}/{den} burst={tokens(burst)} fill={tokens(burst)} -> ok")
    for k in range(1, calls // 2 + 1):
        print(f"at 0 take 1 -> release={max(0, -((b - k) // r))}")
        covered["backlogged, closed form"] += 1
    num, den, burst = 299_999_999, 1, 3 * TOKEN + 1
    r, b = Fraction(num, den * 10**9), Fraction(burst, TOKEN)
    print(f"bucket rate={num}/{den} burst={tokens(burst)} fill={tokens(burst)} -> ok")
    left = 0
    for t in range(calls - calls // 2):
        conforms = left + 1 <= b + r * t
        left += conforms
        print(f"at {t} admit 1 -> {'yes' if conforms else 'no'}")
        covered["polled, closed form"] += 1


if __name__ == "__main__":
    must = ["backlogged, closed form", "polled, closed form"]
    if sys.argv[1] == "law":
        must = """delayed|not delayed|rounded up|full by rounding up|full|admitted|not admitted|just conformant
            just not conformant|update that shrinks|update that grows|update that forfeits|update that rounds
            a time before the last|products beyond 64 bits|refused=bad_rate|refused=bad_burst|refused=bad_time
            refused=too_many|refused=never|no rate""".replace("\n", "|").split("|")
        law(int(sys.argv[2]), int(sys.argv[3]))
    else:
        drift(int(sys.argv[2]))
    counts = {name.strip(): covered[name.strip()] for name in must}
    print("covers: " + ", ".join(f"{name} {count}" for name, count in counts.items()), file=sys.stderr)
    sys.exit(0 if all(counts.values()) else 1)
