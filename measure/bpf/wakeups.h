/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What wakeups.bpf.c shares with user space (../src/passive/wakeups.rs). Fixed widths; times are CLOCK_MONOTONIC's, in
 * ns. */
#ifndef GIUSTO_WAKEUPS_H
#define GIUSTO_WAKEUPS_H

#include "histogram.h"

#define SERVICES 1    /* observed at once; user space says how many when it loads the programs */
#define THREADS 16384 /* of all of them */

enum state {
	UNSEEN, /* it was there before it was watched, and has not slept since */
	ASLEEP,
	WOKEN,
	RUNS, /* it has had the processor since it was woken; it may wait for it again, or be stopped */
};

/* A thread that is watched. */
struct thread {
	__u64 begun; /* when its job began */
	__u64 ran;   /* its processor time before it */
	__u32 service;
	__u8 state;
	__u8 only_stops; /* it was woken to be stopped ... */
	__u8 stopped;	 /* ... and was */
	__u8 pad;
};

struct jobs {
	__u64 responses[BUCKETS]; /* from the wake-up to going back to sleep */
	__u64 waits[BUCKETS];	  /* ... to the processor */
	__u64 total;		  /* of responses */
	__u64 count;
	__u64 lost; /* threads that were born and found no place */
	__u64 pad[5];
};

#endif
