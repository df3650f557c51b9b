/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The scheduler of bpf/servers.bpf.c, loaded from a test, and threads that work in its servers. */
#ifndef GIUSTO_TEST_SCHEDULER_H
#define GIUSTO_TEST_SCHEDULER_H

#include "loader.h"

enum { MS = 1000000, EXIT_CANNOT = 77 };

struct scheduler {
	struct loader loader;
	struct gi_pool *pools; /* the kernel's, mapped to be read */
	struct statistics *statistics;
	size_t pool_bytes, statistics_bytes; /* from one to the next */
	struct ring_buffer *ring;
	int crowds;
	int count;		/* of pools */
	struct gi_pool *native; /* the pools again, as the calls recorded make them */
	unsigned long replayed, differ, in_hi;
	unsigned long by_call[16];
};

/* Ends the test with a message. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

void wait_for_state(const char *wanted);

extern const char *object; /* of BPF */
/* Loads and attaches it. */
void load(struct scheduler *s, const struct wanted *wanted);
struct statistics *statistics(const struct scheduler *s, int pool);
/* Threads of a server that run or wait, as the kernel's side counts them. */
unsigned awake(const struct scheduler *s, int pool, gi_u32 server);
gi_u64 random_below(gi_u64 *seed, gi_u64 limit);
int last_cpu(void);
/* BPF programs that are loaded, now and before the first scene. */
int programs(void);
extern int programs_at_first;
/* Waits until sched_ext is disabled and no program is left. */
void all_gone(void);
void unload(struct scheduler *s);
/* Has a call made by the kernel and returns what it returned. */
gi_s64 order(struct scheduler *s, int pool, struct gi_call call);
gi_s64 add(struct scheduler *s, int pool, gi_u32 kind, gi_u64 budget, gi_u64 period, gi_u32 priority);
/* Puts a process of one thread under a server. */
void join(struct scheduler *s, pid_t pid, int pool, gi_u32 server);
/* Makes what was recorded natively; counts what differs. */
void replay(struct scheduler *s);
/* And compares the pools, byte by byte, when nothing happens any more. */
void replay_all(struct scheduler *s);
void print_late(const struct scheduler *s, int pool);
gi_u64 percentile(const gi_u64 *histogram, double part);

/* A process that waits, then works in steps that are counted. */
struct worker {
	pid_t pid;
	int go;			/* written to begin */
	volatile gi_u64 *steps; /* of work done; [1]: by its child */
};
enum work { SPIN, TWINS, SPIN_AND_SLEEP, PERIODIC, FORK };
/* `seed` of what it does at random; PERIODIC: steps every 10 ms. */
void start(struct worker *w, enum work work, gi_u64 seed);
void begin(struct worker *w);
void stop(struct worker *w);

/* The scenes: each ends the test if something is not as it has to be. */
void shares(void);
void deadline(void);
void criticality(void);
void calls(void);
void alone(void);
void twins(void);
void fair_first(void);
void comings(void);
void killed(void);
void starved(void);
void many(void);
void hotplug(void);

#endif
