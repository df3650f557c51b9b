/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The token bucket, by virtual scheduling: no timer refills it, every call computes what the time passed has brought.
 *
 * A rate r = num / den tokens a second and a burst b. The law: what is released at instants of any window [s, t], both
 * ends included, is at most b + r (t - s) tokens, exactly. A released token leaves at the least whole ns that keeps it.
 *
 * Pure integers, as in policy.h: no includes, clock, allocation, recursion or floating point, loops bounded, nothing
 * divides by what can be 0. Memory, lock and clock belong to the caller.
 *
 * Exact: the level is kept in 2^-20 tokens with the remainder. In 1 ns it grows by r 2^20 / 10^9 = num 2^11 / den 5^9
 * of those, so the remainder counts parts of den 5^9. Every rounding there is:
 *   - a release is rounded up, to the ns. What flows in between the exact instant and that ns is kept, except for what
 *     exceeds b, as always: with b = 1, tokens are whole ns apart, or two of them would break the law;
 *   - a new rate with another den rounds the remainder down, by less than 2^-20 / (den 5^9) tokens. With the same den
 *     nothing is rounded.
 */
#ifndef GIUSTO_BUCKET_H
#define GIUSTO_BUCKET_H

typedef __UINT64_TYPE__ gi_u64;
typedef __INT64_TYPE__ gi_s64;
typedef __UINT32_TYPE__ gi_u32;

/* Keeps the compiler from asking what a value is, where the BPF verifier would walk every path through the answers. */
#ifdef __bpf__
#define GI_BUCKET_KEEP(value) __asm__("" : "+r"(value))
#else
#define GI_BUCKET_KEEP(value) ((void)0)
#endif

/* Under a BPF spin lock nothing may be called. */
#define GI_BUCKET_INLINE static inline __attribute__((always_inline))

#define GI_BUCKET_TOKEN (1ull << 20) /* one token, in the unit of burst, fill and level */
#define GI_BUCKET_LAST (1ull << 62)  /* the last instant, and the largest burst */
#define GI_BUCKET_NUM (1ull << 52)   /* num is less than this: num 2^11 < 2^63 */
#define GI_BUCKET_DEN (1ull << 42)   /* den is less than this, and not 0: den 5^9 < 2^63 */

enum gi_bucket_refusal {
	GI_BUCKET_BAD_RATE = -1,  /* num or den out of range */
	GI_BUCKET_BAD_BURST = -2, /* out of range */
	GI_BUCKET_BAD_FILL = -3,  /* more than the burst */
	GI_BUCKET_BAD_TIME = -4,  /* after the last instant */
	GI_BUCKET_TOO_MANY = -5,  /* tokens at once: more than the burst, at no time will they be there */
	GI_BUCKET_NEVER = -6,	  /* not before the last instant */
};

/* All zeros is a bucket that releases nothing. No hidden padding: states are compared byte by byte. */
struct gi_bucket {
	gi_u64 num; /* the rate, in tokens a second; 0 hands out what is there and then nothing more */
	gi_u64 den;
	gi_u64 burst;
	gi_u64 at;    /* the latest time seen or release given; an earlier one counts as this */
	gi_u64 level; /* what is in it at `at`, at most burst */
	gi_u64 rest;  /* and this many parts of den 5^9 of a unit; 0 when full */
};

struct gi_bucket_wide {
	gi_u64 high;
	gi_u64 low;
};

GI_BUCKET_INLINE gi_u64 gi_bucket_num(const struct gi_bucket *b)
{
	return b->num << 11;
}

GI_BUCKET_INLINE gi_u64 gi_bucket_den(const struct gi_bucket *b)
{
	return b->den * 1953125u;
}

/* x * y in 128 bits, which BPF does not have. */
GI_BUCKET_INLINE struct gi_bucket_wide gi_bucket_product(gi_u64 x, gi_u64 y)
{
	gi_u64 low = (x & ~0u) * (y & ~0u);
	gi_u64 mid = (x >> 32) * (y & ~0u) + (low >> 32);
	gi_u64 mid2 = (x & ~0u) * (y >> 32) + (mid & ~0u);

	return (struct gi_bucket_wide){(x >> 32) * (y >> 32) + (mid >> 32) + (mid2 >> 32), x * y};
}

/*
 * x / d, rounded down, and what remains. The caller knows that it fits: x.high < d < 2^63, or d and x.high are 0. No
 * branch in the loop: the BPF verifier would walk every path through it.
 */
GI_BUCKET_INLINE gi_u64 gi_bucket_quotient(struct gi_bucket_wide x, gi_u64 d, gi_u64 *rest)
{
	gi_u64 less;
	gi_u32 i;

	*rest = 0;
	if (!d)
		return 0;
	if (!x.high) {
		*rest = x.low % d;
		return x.low / d;
	}
	for (i = 0; i < 64; i++) { /* the quotient's bits come in from the right */
		x.high = x.high << 1 | x.low >> 63;
		less = (x.high - d) >> 63;
		GI_BUCKET_KEEP(less);
		x.high -= d & (less - 1);
		x.low = x.low << 1 | (1 - less);
	}
	*rest = x.high;
	return x.low;
}

/* What must flow in, in parts, before the level is `level`, which it is not yet. */
GI_BUCKET_INLINE struct gi_bucket_wide gi_bucket_lack(const struct gi_bucket *b, gi_u64 level)
{
	struct gi_bucket_wide lack = gi_bucket_product(level - b->level, gi_bucket_den(b));

	lack.high -= lack.low < b->rest;
	lack.low -= b->rest;
	return lack;
}

/* Brings `at` and level to now <= GI_BUCKET_LAST, if that is later. Any number of calls in between give the same. */
GI_BUCKET_INLINE void gi_bucket_refill(struct gi_bucket *b, gi_u64 now)
{
	struct gi_bucket_wide gain, lack;

	if (now <= b->at)
		return;
	gain = gi_bucket_product(now - b->at, gi_bucket_num(b));
	lack = gi_bucket_lack(b, b->burst);
	b->at = now;
	if (gain.high > lack.high || (gain.high == lack.high && gain.low >= lack.low)) {
		b->level = b->burst;
		b->rest = 0;
		return;
	}
	gain.low += b->rest;
	gain.high += gain.low < b->rest;
	b->level += gi_bucket_quotient(gain, gi_bucket_den(b), &b->rest);
}

/*
 * A new rate and burst, from now on, or from `at` if that is later, since releases given stand. What is in the bucket
 * stays, up to the new burst: no update adds a token. Returns 0, or a refusal and changes nothing.
 */
GI_BUCKET_INLINE int gi_bucket_set(struct gi_bucket *b, gi_u64 num, gi_u64 den, gi_u64 burst, gi_u64 now)
{
	gi_u64 lost;

	if (num >= GI_BUCKET_NUM || !den || den >= GI_BUCKET_DEN)
		return GI_BUCKET_BAD_RATE;
	if (burst > GI_BUCKET_LAST)
		return GI_BUCKET_BAD_BURST;
	if (now > GI_BUCKET_LAST)
		return GI_BUCKET_BAD_TIME;
	gi_bucket_refill(b, now);
	if (den != b->den)
		b->rest = gi_bucket_quotient(gi_bucket_product(b->rest, den), b->den, &lost);
	b->num = num;
	b->den = den;
	b->burst = burst;
	if (b->level >= burst) {
		b->level = burst;
		b->rest = 0;
	}
	return 0;
}

/*
 * A bucket with `fill` in it: the burst for one that stands alone; for a share of one, what was taken out elsewhere.
 * The memory need not be zero. Returns 0, or a refusal and changes nothing.
 */
GI_BUCKET_INLINE int gi_bucket_init(struct gi_bucket *b, gi_u64 num, gi_u64 den, gi_u64 burst, gi_u64 fill, gi_u64 now)
{
	struct gi_bucket fresh = {0, den, fill, now, fill, 0};
	int refused;

	if (fill > burst)
		return GI_BUCKET_BAD_FILL;
	refused = gi_bucket_set(&fresh, num, den, burst, now);
	if (!refused)
		*b = fresh;
	return refused;
}

/*
 * Takes n tokens for what arrived now, and returns when it is released: now, or the least ns at which the tokens are
 * there, never before an earlier release. A refusal (< 0) takes nothing.
 */
GI_BUCKET_INLINE gi_s64 gi_bucket_take(struct gi_bucket *b, gi_u64 n, gi_u64 now)
{
	gi_u64 wait, rest, num = gi_bucket_num(b);
	struct gi_bucket_wide lack;

	if (now > GI_BUCKET_LAST)
		return GI_BUCKET_BAD_TIME;
	if (n > b->burst / GI_BUCKET_TOKEN)
		return GI_BUCKET_TOO_MANY;
	gi_bucket_refill(b, now);
	n *= GI_BUCKET_TOKEN;
	if (b->level < n) {
		lack = gi_bucket_lack(b, n);
		if (lack.high >= num / 2) /* 2^63 ns or more, or no rate at all */
			return GI_BUCKET_NEVER;
		wait = gi_bucket_quotient(lack, num, &rest);
		wait += rest > 0; /* up */
		if (wait > GI_BUCKET_LAST - b->at)
			return GI_BUCKET_NEVER;
		gi_bucket_refill(b, b->at + wait);
	}
	b->level -= n;
	return (gi_s64)b->at;
}

/*
 * Whether n tokens are there now; if so they are taken, else nothing changes. For what is dropped or marked instead of
 * delayed. Not on a bucket that also delays: there `at` may lie ahead, and now would count as that.
 */
GI_BUCKET_INLINE int gi_bucket_admit(struct gi_bucket *b, gi_u64 n, gi_u64 now)
{
	if (now > GI_BUCKET_LAST || n > b->burst / GI_BUCKET_TOKEN)
		return 0;
	gi_bucket_refill(b, now);
	if (b->level < n * GI_BUCKET_TOKEN)
		return 0;
	b->level -= n * GI_BUCKET_TOKEN;
	return 1;
}

#endif
