/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the scheduler in the kernel (servers.bpf.c) and who loads it share. Times are of CLOCK_MONOTONIC, in ns. */
#ifndef GIUSTO_SERVERS_H
#define GIUSTO_SERVERS_H

#include "call.h"

#define SERVERS_CPUS 256u   /* numbers of processors that it can look after */
#define SERVERS_ORDERS 32u  /* orders that may wait for a pool */
#define SERVERS_STEPS 1024u /* of a histogram, 1 us each; the last one is for all beyond */
#define SERVERS_RECORDS (16u << 20)

/* Written before it is loaded; in a section of its own. */
struct settings {
	gi_u32 cpus;	  /* numbers of processors that there are */
	gi_u32 pools;	  /* pools that there are */
	gi_u32 servers;	  /* that a pool may have */
	gi_u32 recording; /* whether all calls of the core are recorded */
};

/* What a thread is of. The loader writes pool and server before it gives the thread to the class SCHED_EXT. */
struct membership {
	gi_u32 pool;
	gi_u32 server;
	gi_u32 counted; /* 1 + the server in which it counts as awake, or 0 */
	gi_u32 pad;
};

/* A processor. All of it is written under the lock of its run queue, but for `pool`, which the loader writes. */
struct processor {
	gi_u32 pool;   /* 1 + the pool whose only core it is, or 0 */
	gi_u32 server; /* 1 + the server whose thread ran last, or 0 */
	gi_u64 began;  /* the thread that runs is of a server, and accounted for up to here; 0: it is not */
	gi_u64 ran;    /* the server had the processor for so long since the core was told */
	gi_u64 turn;   /* when the thread that runs got its turn among those of its server */
	gi_u64 armed;  /* when the timer goes off, or GI_NEVER */
	gi_u32 due;    /* the core has to be asked */
	gi_u32 pad;
};

/* A server, as its threads make it. */
struct crowd {
	gi_u32 awake;  /* threads that run or wait */
	gi_u32 told;   /* whether the core was told that it is ready */
	gi_u32 queued; /* it is among those that the core has to be told of */
	gi_u32 pad;
};

/* Servers of a pool that have become ready or idle since the core was told, oldest first; each is in it once. */
struct news {
	gi_u32 first;
	gi_u32 last;
	gi_u32 server[GI_CAPACITY];
};

/* A call that the loader wants to be made, not before the call's `now`; and what it returned. */
struct order {
	struct gi_call call;
	gi_s64 value;
};

/* Orders of a pool; `given` is counted by the loader, `done` by the scheduler. */
struct orders {
	gi_u64 given;
	gi_u64 done;
	struct order order[SERVERS_ORDERS];
};

/* For who has given orders: the processor of their pool. */
struct wake {
	int cpu;
};

/* A call that was made, and the answer. */
struct record {
	struct gi_call call;
	gi_s64 value;
	gi_u64 until;
	gi_u64 freed;
	gi_u32 runs;
	gi_u32 payer;
	gi_u32 pool;
	gi_u32 mode;
};

/* Of a processor, for who reads. */
struct statistics {
	gi_u64 decisions;
	gi_u64 calls;
	gi_u64 unrecorded; /* calls that found the ring full */
	gi_u64 timers;
	gi_u64 strays;		    /* a thread ran that is of another server than the core had chosen */
	gi_u64 late[SERVERS_STEPS]; /* how late timers went off */
	gi_u64 over[SERVERS_STEPS]; /* by how much budgets were overrun */
};

#endif
