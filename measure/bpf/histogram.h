/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Histograms of times that programs count and user space reads (../src/passive/histogram.rs). */
#ifndef GIUSTO_HISTOGRAM_H
#define GIUSTO_HISTOGRAM_H

/* Log-linear: values below 2^7 ns exactly, above in 2^7 buckets an octave (at most 0.8 % wide), up to 2^38 ns (275 s).
 */
#define BUCKET_BITS 7
#define BUCKETS ((38 - BUCKET_BITS + 1) << BUCKET_BITS)

static __always_inline __u32 bucket(__u64 ns)
{
	__u32 octave;

	if (ns >> 38)
		return BUCKETS - 1;
	if (ns < (1 << BUCKET_BITS))
		return ns;
	octave = 63 - __builtin_clzll(ns) - BUCKET_BITS;
	return ((octave + 1) << BUCKET_BITS) + ((ns >> octave) & ((1 << BUCKET_BITS) - 1));
}

static __always_inline void count(__u64 *histogram, __u64 ns)
{
	__u32 at = bucket(ns);

	barrier_var(at); /* the check is to stay, and with the value that is used */
	if (at < BUCKETS)
		__sync_fetch_and_add(&histogram[at], 1);
}

#endif
