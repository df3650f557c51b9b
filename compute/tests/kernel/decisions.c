// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Scenes: who gets how much, and that the core in the kernel decides as it does natively. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

#include "scheduler.h"

enum { PERIOD = 10, SERVERS = 4, WARM_UP = 200, WORKERS = 14, MOST = 24 };

/* Work done in a time, per server, as parts of all of it, in percent. */
static void measure(struct worker *worker, int count, gi_u64 length, double *percent)
{
	gi_u64 before[SERVERS], did[SERVERS], all = 0, at = now_ns() + WARM_UP * (gi_u64)MS;

	sleep_until(at);
	for (int i = 0; i < count; i++)
		before[i] = *worker[i].steps;
	sleep_until(at + length);
	for (int i = 0; i < count; i++)
		all += did[i] = *worker[i].steps - before[i];
	for (int i = 0; i < count; i++)
		percent[i] = 100.0 * (double)did[i] / (double)all;
}

static void judge(const char *what, const double *percent, const double *wanted, int count)
{
	double worst = 0;

	for (int i = 0; i < count; i++) {
		printf("%s: server %d did %.3f %% of the work instead of %.3f: %+.3f\n", what, i, percent[i], wanted[i],
		       percent[i] - wanted[i]);
		worst = fmax(worst, fabs(percent[i] - wanted[i]));
	}
	if (worst > 0.1)
		fail("a part is off by %.3f %% of the core", worst);
}

static void overruns(const struct scheduler *s)
{
	if (strcmp(state(), "enabled"))
		fail("the scheduler was thrown out: sched_ext is %s", state());
	print_late(s, 0);
	if (statistics(s, 0)->strays || percentile(statistics(s, 0)->over, 0.999) > 50)
		fail("budgets are overrun by more than 50 us, or servers ran that were not chosen");
}

/* Three servers and who takes what they leave, all without end: each has its part of the core, by work done. */
void shares(void)
{
	static const double part[SERVERS] = {30, 10, 20, 40};
	struct wanted wanted = {.order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = SERVERS};
	struct worker worker[SERVERS];
	struct scheduler s;
	double percent[SERVERS];

	load(&s, &wanted);
	for (gi_u32 i = 0; i < SERVERS; i++) {
		gi_u32 kind = i < SERVERS - 1 ? GI_CONSTANT_BANDWIDTH : GI_UNLIMITED;

		start(&worker[i], SPIN, i);
		join(&s, worker[i].pid, 0, (gi_u32)add(&s, 0, kind, (gi_u64)part[i] * MS / 10, PERIOD * MS, 0));
	}
	for (int i = 0; i < SERVERS; i++)
		begin(&worker[i]);
	measure(worker, SERVERS, 2000ull * MS, percent);
	judge("EDF", percent, part, SERVERS);
	overruns(&s);
	for (int i = 0; i < SERVERS; i++)
		stop(&worker[i]);
	unload(&s);
	wait_for_state("disabled");
}

/* The same under SCHED_DEADLINE, to be compared: nothing is asked of it. */
void deadline(void)
{
	static const double part[SERVERS] = {30, 10, 20, 40};
	struct {
		gi_u32 size, policy;
		gi_u64 flags;
		gi_u32 nice, priority;
		gi_u64 runtime, deadline, period;
	} attr = {.size = sizeof(attr), .policy = SCHED_DEADLINE, .deadline = PERIOD * MS, .period = PERIOD * MS};
	struct worker worker[SERVERS];
	double percent[SERVERS];

	for (gi_u32 i = 0; i < SERVERS; i++) {
		start(&worker[i], SPIN, i);
		attr.runtime = (gi_u64)part[i] * MS / 10;
		if (i < SERVERS - 1 && syscall(SYS_sched_setattr, worker[i].pid, &attr, 0))
			fail("SCHED_DEADLINE is refused: %s", strerror(errno));
	}
	for (int i = 0; i < SERVERS; i++)
		begin(&worker[i]);
	measure(worker, SERVERS, 2000ull * MS, percent);
	for (int i = 0; i < SERVERS; i++) {
		printf("SCHED_DEADLINE: server %d did %.3f %% of the work instead of %.3f: %+.3f\n", i, percent[i],
		       part[i], percent[i] - part[i]);
		stop(&worker[i]);
	}
}

/*
 * A high server that works for a while each period, beside a low one and an unlimited one without end. Beyond what is
 * expected of the high one the core is in HI; in both modes it does all of its work, and the low one has the rest.
 */
static void mixed(gi_u64 steps, bool exceeds)
{
	static const struct gi_call of_high = {.op = GI_OP_ADD_MIXED,
					       .budget = 2 * MS,
					       .worst = 6 * MS,
					       .period = PERIOD * MS,
					       .virtual_deadline = PERIOD / 2 * MS};
	static const struct gi_call of_low = {
	    .op = GI_OP_ADD_MIXED, .budget = 4 * MS, .period = PERIOD * MS, .virtual_deadline = PERIOD * MS};
	enum { PERIODS = 100 };
	struct wanted wanted = {
	    .order = GI_MIXED_CRITICALITY, .cpu = {last_cpu()}, .count = 1, .servers = SERVERS, .recording = true};
	double percent[3], did;
	struct worker worker[3];
	struct scheduler s;
	gi_s64 server[3];
	gi_u64 before;

	load(&s, &wanted);
	server[0] = order(&s, 0, of_high);
	server[1] = order(&s, 0, of_low);
	server[2] = add(&s, 0, GI_UNLIMITED, 0, 0, 0);
	for (gi_u32 i = 0; i < 3; i++) {
		start(&worker[i], i ? SPIN : PERIODIC, steps);
		join(&s, worker[i].pid, 0, (gi_u32)server[i]);
		begin(&worker[i]);
	}
	measure(worker, 3, 100ull * MS, percent);
	before = *worker[0].steps;
	measure(worker, 3, (PERIODS * PERIOD - WARM_UP) * (gi_u64)MS, percent);
	did = (double)(*worker[0].steps - before) / (double)steps;
	replay(&s);
	printf("%s: the high server did the work of %.2f of %d periods; %.3f, %.3f, %.3f %% of all; %lu calls in HI\n",
	       exceeds ? "HI" : "LO", did, PERIODS, percent[0], percent[1], percent[2], s.in_hi);
	overruns(&s);
	if (fabs(did - PERIODS) > 1 || percent[2] > 0.1 || exceeds != (s.in_hi > 0))
		fail("the high server does not have what it needs, or the mode is wrong");
	for (int i = 0; i < 3; i++)
		stop(&worker[i]);
	sleep_until(now_ns() + 50ull * MS);
	replay_all(&s);
	unload(&s);
	wait_for_state("disabled");
}

void criticality(void)
{
	mixed(3000, false);
	mixed(20000, true);
}

/*
 * A call of any kind, as a daemon may order it while threads work. All servers together fit on a core: who waits for 20
 * s has the kernel throw the scheduler out.
 */
static struct gi_call any_call(gi_u64 *seed, gi_u32 pool_order, gi_u32 servers)
{
	gi_u64 period = 4 * MS + random_below(seed, 10 * MS),
	       budget = MS / 10 + random_below(seed, period / 25 - MS / 10);
	struct gi_call call = {.index = (gi_u32)random_below(seed, servers + 1),
			       .period = period,
			       .budget = budget,
			       .virtual_deadline = budget + random_below(seed, period - budget + 1),
			       .worst = random_below(seed, 2) ? budget + random_below(seed, budget) : 0,
			       .priority = (gi_u32)random_below(seed, 5),
			       .flag = (gi_u32)random_below(seed, 2)};
	bool mixed = pool_order == GI_MIXED_CRITICALITY;

	if (!call.worst)
		call.virtual_deadline = period;
	switch (random_below(seed, 10)) {
	case 0:
		call.op = GI_OP_BOOST;
		call.first = now_ns() + random_below(seed, 5 * MS);
		break;
	case 1:
		call.op = GI_OP_OWE;
		call.budget = random_below(seed, MS / 10);
		break;
	case 2:
		call.op = GI_OP_REMOVE; /* threads leave a server before it goes */
		call.index = WORKERS + (gi_u32)random_below(seed, servers - WORKERS + 1);
		break;
	case 3:
		call.op = GI_OP_ORDER;
		call.flag = GI_CAPACITY;
		break;
	case 4:
		call.op = mixed ? GI_OP_COOLING : GI_OP_LOOK;
		break;
	case 5:
	case 6:
		call.op = mixed ? GI_OP_SET_MIXED : GI_OP_SET;
		break;
	default:
		call.op = mixed && call.index ? GI_OP_ADD_MIXED : GI_OP_ADD;
		call.index = mixed ? GI_UNLIMITED : (gi_u32)random_below(seed, GI_KINDS);
	}
	return call;
}

/* Threads that work and sleep as they like, in servers of all kinds, in each order; all calls are made again natively.
 */
static void calls_in(gi_u32 pool_order, unsigned long wanted_calls, unsigned long by_call[16])
{
	struct wanted wanted = {.cpu = {last_cpu()}, .count = 1, .servers = MOST + 1, .recording = true};
	struct worker worker[WORKERS];
	struct scheduler s;
	gi_u64 seed = 2026 + pool_order, orders = 0;

	wanted.order = pool_order;
	load(&s, &wanted);
	for (gi_u32 i = 0; i < WORKERS; i++) {
		struct gi_call call = any_call(&seed, pool_order, MOST);

		call.op = pool_order == GI_MIXED_CRITICALITY && i ? GI_OP_ADD_MIXED : GI_OP_ADD;
		call.index = pool_order == GI_MIXED_CRITICALITY ? GI_UNLIMITED : i % GI_KINDS;
		order(&s, 0, call);
		start(&worker[i], i % 7 ? SPIN_AND_SLEEP : FORK, i);
		join(&s, worker[i].pid, 0, i);
		begin(&worker[i]);
	}
	while (s.replayed < wanted_calls && !s.differ) {
		struct gi_call call = any_call(&seed, pool_order, MOST);
		gi_u64 many = 0;

		for (gi_u32 i = 0; i < MOST; i++)
			many += s.native[0].server[i].kind != GI_FREE && i < s.native[0].count;
		if (many < MOST || (call.op != GI_OP_ADD && call.op != GI_OP_ADD_MIXED)) {
			order(&s, 0, call);
			orders++;
		}
		sleep_until(now_ns() + random_below(&seed, 3 * MS));
		replay(&s);
		if (strcmp(state(), "enabled"))
			fail("the scheduler was thrown out: sched_ext is %s", state());
	}
	print_late(&s, 0);
	printf("order %u: %llu calls ordered besides\n", pool_order, (unsigned long long)orders);
	for (int i = 0; i < WORKERS; i++)
		stop(&worker[i]);
	sleep_until(now_ns() + 50 * MS);
	replay_all(&s);
	for (int i = 0; i < 16; i++)
		by_call[i] += s.by_call[i];
	unload(&s);
	wait_for_state("disabled");
}

void calls(void)
{
	static const char *const name[16] = {"init", "add",	  "set",       "boost",	  "charge", "ready", "decide",
					     "look", "add_mixed", "set_mixed", "cooling", "remove", "owe",   "order"};
	const char *count = getenv("CALLS");
	unsigned long each = (count && *count ? strtoul(count, NULL, 0) : 60000) / 3, by_call[16] = {0};

	for (gi_u32 pool_order = GI_FIXED_PRIORITY; pool_order <= GI_MIXED_CRITICALITY; pool_order++)
		calls_in(pool_order, each, by_call);
	for (int i = 0; i < 14; i++) {
		printf("%s %lu%s", name[i], by_call[i], i < 13 ? ", " : "\n");
		if (!by_call[i])
			fail("no call of %s was made", name[i]);
	}
}
