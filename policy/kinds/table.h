/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which kinds of servers there are, and the rules of each. Nothing in core/ names a kind: it asks for a fact or tells
 * of an event. A new kind is a file of its own beside this one and a case in each switch here, none of which has a
 * default, so that the compiler says what is missing; giusto_model's kind.rs has the same kinds in the same order.
 */
#ifndef GIUSTO_POLICY_TABLE_H
#define GIUSTO_POLICY_TABLE_H

#include "constant_bandwidth.h"
#include "grid.h"
#include "mixed_criticality.h"
#include "sporadic.h"

enum gi_kind {
	GI_PERIODIC_STRICT,	/* PTPS: idle, it keeps the core and burns its budget */
	GI_PERIODIC_CONSERVING, /* WCPS: idle, it burns its budget while the next server runs on its own */
	GI_PERIODIC_RECLAIMING, /* CRPS: idle, it lends its budget to others of its kind */
	GI_POLLING,
	GI_DEFERRABLE,
	GI_SPORADIC,
	GI_CONSTANT_BANDWIDTH,
	GI_UNLIMITED,
	GI_MIXED, /* of high or low criticality, in a pool of that order only */
	GI_KINDS,
	GI_FREE = GI_KINDS, /* a slot whose server was removed */
};

/* Its name, as in files; 0: there is no such kind. */
static inline const char *gi_kind_name(gi_u32 kind)
{
	switch ((enum gi_kind)kind) {
	case GI_PERIODIC_STRICT:
		return "periodic_strict";
	case GI_PERIODIC_CONSERVING:
		return "periodic_conserving";
	case GI_PERIODIC_RECLAIMING:
		return "periodic_reclaiming";
	case GI_POLLING:
		return "polling";
	case GI_DEFERRABLE:
		return "deferrable";
	case GI_SPORADIC:
		return "sporadic";
	case GI_CONSTANT_BANDWIDTH:
		return "constant_bandwidth";
	case GI_UNLIMITED:
		return "unlimited";
	case GI_MIXED:
		return "mixed";
	case GI_FREE:
		break;
	}
	return 0;
}

/* What a kind stores, and what becomes of it. Of the first four it has one. */
enum gi_fact {
	GI_ENDLESS = 1 << 0,	 /* no budget: never throttled */
	GI_ON_GRID = 1 << 1,	 /* a budget that is replenished at first + kP, whatever happens */
	GI_AT_DEADLINE = 1 << 2, /* a budget that is replenished at the deadline, but only if it was used up */
	GI_IN_CHUNKS = 1 << 3,	 /* a queue of chunks, each with its time */
	GI_LOSES = 1 << 4,	 /* idle, it loses what is left */
	GI_BURNS = 1 << 5,	 /* idle with budget and chosen, it consumes it as if it ran */
	GI_GIVES_WAY = 1 << 6,	 /* and the next server has its core meanwhile */
	GI_LENDS = 1 << 7,	 /* for which no budget is needed by one that lends, too */
	GI_BY_MODE = 1 << 8,	 /* its budget depends on the mode of its core; for a pool of mixed criticality only */
};

static inline gi_u32 gi_facts(gi_u32 kind)
{
	switch ((enum gi_kind)kind) {
	case GI_PERIODIC_STRICT:
		return GI_ON_GRID | GI_BURNS;
	case GI_PERIODIC_CONSERVING:
		return GI_ON_GRID | GI_BURNS | GI_GIVES_WAY;
	case GI_PERIODIC_RECLAIMING:
		return GI_ON_GRID | GI_BURNS | GI_GIVES_WAY | GI_LENDS;
	case GI_POLLING:
		return GI_ON_GRID | GI_LOSES;
	case GI_DEFERRABLE:
		return GI_ON_GRID;
	case GI_SPORADIC:
		return GI_IN_CHUNKS;
	case GI_CONSTANT_BANDWIDTH:
		return GI_AT_DEADLINE;
	case GI_MIXED:
		return GI_AT_DEADLINE | GI_BY_MODE;
	case GI_UNLIMITED:
	case GI_FREE:
		return GI_ENDLESS;
	}
	return GI_ENDLESS;
}

static inline int gi_is(const struct gi_server *s, enum gi_fact fact)
{
	return (gi_facts(s->kind) & fact) != 0;
}

/* Time has passed: books what became due by now. */
static inline void gi_settle(struct gi_server *s, gi_u64 now)
{
	switch ((enum gi_kind)s->kind) {
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
	case GI_PERIODIC_RECLAIMING:
	case GI_DEFERRABLE:
		gi_replenish(s, now);
		break;
	case GI_POLLING:
		gi_poll_settle(s, now);
		break;
	case GI_SPORADIC:
		gi_sporadic_settle(s, now);
		break;
	case GI_CONSTANT_BANDWIDTH:
		gi_cbs_settle(s, now);
		break;
	case GI_MIXED:
		gi_mixed_settle(s, now);
		break;
	case GI_UNLIMITED:
	case GI_FREE:
		break;
	}
}

/* Its workload is about to become ready or to go idle: what became due before. */
static inline void gi_turn(struct gi_server *s, gi_u32 is_ready, gi_u64 now)
{
	switch ((enum gi_kind)s->kind) {
	case GI_POLLING:
		if (!is_ready)
			gi_settle(s, now); /* what became due while it was ready */
		else if (now)
			gi_poll_idle(s, now - 1, now); /* before this instant it was not */
		break;
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
	case GI_PERIODIC_RECLAIMING:
	case GI_DEFERRABLE:
	case GI_SPORADIC:
	case GI_CONSTANT_BANDWIDTH:
	case GI_MIXED:
	case GI_UNLIMITED:
	case GI_FREE:
		break;
	}
}

/* It has become ready, and what was due is booked. */
static inline void gi_wake(struct gi_server *s, gi_u64 now)
{
	switch ((enum gi_kind)s->kind) {
	case GI_SPORADIC:
		gi_sporadic_wake(s, now);
		break;
	case GI_CONSTANT_BANDWIDTH:
		gi_cbs_wake(s, now);
		break;
	case GI_MIXED:
		gi_mixed_wake(s, now);
		break;
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
	case GI_PERIODIC_RECLAIMING:
	case GI_POLLING:
	case GI_DEFERRABLE:
	case GI_UNLIMITED:
	case GI_FREE:
		break;
	}
}

/* It has gone idle. */
static inline void gi_sleep(struct gi_server *s, gi_u64 now)
{
	switch ((enum gi_kind)s->kind) {
	case GI_POLLING:
		gi_poll_sleep(s, now);
		break;
	case GI_SPORADIC:
		gi_sporadic_sleep(s, now);
		break;
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
	case GI_PERIODIC_RECLAIMING:
	case GI_DEFERRABLE:
	case GI_CONSTANT_BANDWIDTH:
	case GI_MIXED:
	case GI_UNLIMITED:
	case GI_FREE:
		break;
	}
}

/* Its reservation has changed at once, and what is left with it. */
static inline void gi_changed(struct gi_server *s, gi_u64 now)
{
	switch ((enum gi_kind)s->kind) {
	case GI_CONSTANT_BANDWIDTH: /* it keeps its deadline, if the wake-up rule does */
		if (s->ready)
			gi_cbs_wake(s, now);
		break;
	case GI_SPORADIC:
		gi_sporadic_roll(s, now);
		break;
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
	case GI_PERIODIC_RECLAIMING:
	case GI_POLLING:
	case GI_DEFERRABLE:
	case GI_MIXED: /* gi_mixed_change */
	case GI_UNLIMITED:
	case GI_FREE:
		break;
	}
}

#endif
