// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What state.h says of every pool it says in the core's own words: gi_home, gi_rank, gi_event, gi_mixed_asks. These
 * mean, for any server that there may be, what README.md says: here that is stated without the core, by the names of
 * the kinds.
 */
#include "state.h"

/* Mixed criticality: a job with more for HI has consumed its optimistic budget, and no boost makes up for it. */
static int asks(const struct gi_server *s)
{
	int optimistic = (int)s->budget - (s->hi ? (int)s->more : 0);
	int consumed = (int)granted(s) - (int)s->left;

	return s->kind == GI_MIXED && s->ready && !s->boost_until && s->more > s->cut && consumed >= optimistic;
}

/* Where it waits: who may run, who burns, who runs on what others leave. */
static gi_u32 home(const struct gi_server *s)
{
	int budget = s->left > 0;

	if (s->ready && s->boost_until)
		return GI_OUTSIDE;
	switch ((enum gi_kind)s->kind) {
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
		return !budget ? GI_OUTSIDE : s->ready ? GI_READY : GI_IDLE;
	case GI_PERIODIC_RECLAIMING:
		return s->ready ? (budget ? GI_READY : GI_DRY) : budget ? GI_IDLE : GI_OUTSIDE;
	case GI_POLLING:
	case GI_DEFERRABLE:
	case GI_SPORADIC:
	case GI_CONSTANT_BANDWIDTH:
		return s->ready && budget ? GI_READY : GI_OUTSIDE;
	case GI_UNLIMITED:
		return !s->ready ? GI_OUTSIDE : ORDER == GI_MIXED_CRITICALITY ? GI_LAST_RESORT : GI_READY;
	case GI_MIXED:
		if (!s->ready)
			return GI_OUTSIDE;
		if (s->high)
			return budget ? GI_READY : GI_DRY;
		return budget && pool.mode == GI_LO ? GI_READY : GI_LAST_RESORT;
	case GI_FREE:
		return GI_OUTSIDE;
	}
	return GI_OUTSIDE;
}

/* Of servers in one heap: those of a smaller class first, and of these those of an earlier time. */
static int class_of(const struct gi_server *s)
{
	if (ORDER != GI_MIXED_CRITICALITY || home(s) != GI_LAST_RESORT)
		return 0;
	return s->kind == GI_UNLIMITED ? 2 : s->left <= 0;
}

static int time_of(const struct gi_server *s)
{
	if (ORDER == GI_FIXED_PRIORITY)
		return (int)s->priority;
	if (s->kind == GI_UNLIMITED)
		return 1 << WIDTH;
	if (s->high && pool.mode == GI_LO)
		return s->deadline > s->lead ? (int)s->deadline - (int)s->lead : 0;
	return (int)s->deadline;
}

/* When a decision has to replenish it: when a change waits for that, and when what it may do depends on it. */
static gi_u64 event(const struct gi_server *s)
{
	gi_u64 change = s->next_budget ? s->deadline : GI_NEVER;

	switch ((enum gi_kind)s->kind) {
	case GI_PERIODIC_STRICT:
	case GI_PERIODIC_CONSERVING:
	case GI_PERIODIC_RECLAIMING: /* idle, with a full budget and a fixed priority, it is as it will be */
		return s->ready || ORDER == GI_EDF || s->left != (gi_s64)s->budget ? s->deadline : change;
	case GI_POLLING:
	case GI_DEFERRABLE:
		return s->ready ? s->deadline : change;
	case GI_SPORADIC:
		change = s->next_budget ? s->next_at : GI_NEVER;
		return s->ready && s->left <= 0 && s->chunk[0].time < change ? s->chunk[0].time : change;
	case GI_CONSTANT_BANDWIDTH:
		return s->ready && s->left <= 0 ? s->deadline : change;
	case GI_MIXED: /* one that asks in LO waits for HI, which the next decision begins */
		return s->ready && s->left <= 0 && (pool.mode == GI_HI || !asks(s)) ? s->deadline : change;
	case GI_UNLIMITED:
	case GI_FREE:
		return GI_NEVER;
	}
	return GI_NEVER;
}

int main(void)
{
	const struct gi_server *a, *b;
	gi_u32 i, j;
	int first;

	any_pool(SERVERS, 1);
	for (i = 0; i < SERVERS; i++) {
		a = split(&pool, i);
		HOLDS((gi_mixed_asks(a) != 0) == asks(a), "who asks has consumed its optimistic budget");
		HOLDS(gi_home(a) == home(a), "a server waits where its budget and its kind put it");
		HOLDS(gi_event(&pool, a) == event(a), "a replenishment is due when something depends on it");
		for (j = 0; j < SERVERS; j++) {
			b = split(&pool, j);
			if (i == j || home(a) != home(b) || home(a) == GI_OUTSIDE)
				continue;
			first = class_of(a) != class_of(b) ? class_of(a) < class_of(b)
				: time_of(a) != time_of(b) ? time_of(a) < time_of(b)
							   : i < j;
			HOLDS((gi_rank(&pool, a) < gi_rank(&pool, b) ||
			       (gi_rank(&pool, a) == gi_rank(&pool, b) && i < j)) == first,
			      "of two in a heap, the first is that of the earlier deadline or the higher priority");
		}
	}
	return 0;
}
