// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* One call, of any arguments, in any state of a pool: what holds of every pool holds again. */
#include "state.h"

/* What a decision leaves behind besides: law 3. */
static void decided(void)
{
	const struct gi_server *s;
	gi_u32 i, idle = 0, strict = 0, lends = 0, runs;

	for (i = 0; i < CORES; i++) {
		s = split(&pool, pool.burner[i]);
		HOLDS(i >= pool.burners || (!s->ready && s->left > 0), "only the idle burn");
		strict += i < pool.burners && s->kind == GI_PERIODIC_STRICT;
		lends += i < pool.burners && s->kind == GI_PERIODIC_RECLAIMING;
		idle += pool.core[i].runs == GI_NOBODY;
	}
	HOLDS(idle >= strict, "a strict server's core stays empty");
	for (i = 0; i < CORES; i++) {
		runs = pool.core[i].runs;
		if (runs == GI_NOBODY)
			continue;
		s = split(&pool, runs);
		HOLDS(s->ready, "only the ready run");
		if (pool.core[i].payer == GI_NOBODY) {
			HOLDS(lends && s->kind == GI_PERIODIC_RECLAIMING,
			      "only a reclaiming server lends, to its kind");
		} else if (s->kind != GI_UNLIMITED && !s->boost_until) {
			HOLDS(s->left > 0, "who pays has budget");
			HOLDS(pool.until <= pool.now + s->left, "the next decision comes before a budget is exceeded");
		}
	}
	for (i = 0; i < SERVERS; i++) {
		s = split(&pool, i);
		HOLDS(idle <= strict || !s->ready || i == pool.core[0].runs || i == pool.core[1].runs ||
			  !(s->left > 0 || s->kind == GI_UNLIMITED || s->boost_until),
		      "a core idles only if nobody is eligible, or a strict server keeps it");
	}
	HOLDS(pool.until >= pool.now, "the next decision is not past");
}

/* And in the order of mixed criticality. */
static void decided_by_criticality(void)
{
	const struct gi_server *s = split(&pool, pool.core[0].runs), *other;
	gi_u32 i, runs = pool.core[0].runs;

	HOLDS(pool.mode == GI_HI || !pool.asking, "nobody asks in LO");
	HOLDS(pool.until >= pool.now, "the next decision is not past");
	for (i = 0; i < SERVERS; i++) {
		other = split(&pool, i);
		HOLDS(runs != GI_NOBODY || !other->ready, "the core idles only if nobody is ready");
		if (runs == GI_NOBODY || s->boost_until || !other->ready)
			continue;
		HOLDS(pool.mode == GI_LO || s->high || !other->high,
		      "in HI no low server runs while a high one is ready");
		HOLDS(s->high || !other->high || pool.mode == GI_HI || s->left > 0,
		      "on leftovers no low server runs while a high one is ready");
	}
	if (runs == GI_NOBODY)
		return;
	HOLDS(s->ready, "only the ready run");
	HOLDS(pool.core[0].payer != GI_NOBODY || s->left <= 0, "who has budget pays");
	if (pool.core[0].payer == GI_NOBODY || s->kind == GI_UNLIMITED || s->boost_until)
		return;
	HOLDS(s->left > 0, "who pays has budget");
	HOLDS(pool.until <= pool.now + s->left, "the next decision comes before a budget is exceeded");
	HOLDS(!s->asks || s->heated, "who runs and asks has heated the core");
	HOLDS(s->asks || !s->hi || pool.until <= pool.now + (int)s->left - (int)gi_mixed_extra(s) || !gi_mixed_extra(s),
	      "the next decision comes before it asks");
}

/* A change to the present parameters, at once or later, leaves every server as it is. */
static void set_again(gi_u32 index)
{
	static struct gi_server before[SERVERS];
	const struct gi_server *s = split(&pool, index);
	gi_u32 i;

	for (i = 0; i < SERVERS; i++)
		before[i] = *split(&pool, i);
	GIVEN(index < SERVERS && !s->next_budget);
	if (s->kind == GI_MIXED)
		HOLDS(!gi_set_mixed(&pool, index, s->budget - (s->hi ? s->more : 0),
				    s->high ? s->budget + (s->hi ? 0 : s->more) : 0, s->period, s->period - s->lead,
				    any(1), 0),
		      "present parameters are not refused");
	else
		HOLDS(!gi_set(&pool, index, s->budget, s->period, s->priority, any(1), 0) || s->kind == GI_UNLIMITED,
		      "present parameters are not refused");
	for (i = 0; i < SERVERS; i++)
		HOLDS(__CPROVER_equal(before[i], *split(&pool, i)),
		      "a change to the present parameters changes nothing");
}

/* A server goes; its bandwidth is free when it would have had a full budget in a new period, had it stayed, idle. */
static void removed(gi_u32 index)
{
	struct gi_server was = *split(&pool, index);

	int existed = gi_exists(&pool, index), done = gi_remove(&pool, index, 0);

	HOLDS(done == (existed ? 0 : GI_UNKNOWN), "only servers are removed");
	if (!existed)
		return;
	HOLDS(!gi_exists(&pool, index), "who was removed is gone");
	HOLDS(pool.freed >= pool.now, "bandwidth is not free in the past");
	gi_refill(&was, pool.now);
	if (was.kind == GI_UNLIMITED || was.kind == GI_SPORADIC || was.kind == GI_POLLING || !was.begun)
		return;
	was.next_budget = was.ready = 0;
	HOLDS(pool.freed >= was.deadline || pool.freed >= GI_LAST, "bandwidth is not free before the period ends");
	gi_refill(&was, pool.freed);
	if (was.kind == GI_CONSTANT_BANDWIDTH)
		gi_cbs_wake(&was, pool.freed);
	if (was.kind == GI_MIXED)
		gi_mixed_wake(&was, pool.freed);
	HOLDS(was.left == (gi_s64)was.budget || pool.freed >= GI_LAST,
	      "bandwidth is free when the budget would be full again");
}

int main(void)
{
	enum { INIT, ADD, TICK, CHARGE, READY, SET, SET_AGAIN, BOOST, DECIDE, LOOK, REMOVE, OWE };
	gi_u32 index = any(2);

	any_pool(CALL == ADD ? any(2) % SERVERS : SERVERS, CALL != TICK && CALL != CHARGE);
	switch (CALL) {
	case INIT:
		gi_init(&pool, ORDER, CORES);
		break;
	case ADD:
		if (KIND2 == GI_MIXED)
			gi_add_mixed(&pool, any_time(), any_time(), any_time(), any_time(), any_time(), 0);
		else
			gi_add(&pool, KIND2, any_time(), any_time(), any_time(), any(2), 0);
		break;
	case TICK:
		gi_tick(&pool, any_time());
		break;
	case CHARGE:
		gi_charge(&pool, any(1), any_time(), 0);
		break;
	case OWE:
		gi_owe(&pool, index, any_time(), 0);
		break;
	case READY:
		gi_ready(&pool, index, any(1), 0);
		break;
	case SET:
		if (KIND0 == GI_MIXED)
			gi_set_mixed(&pool, index, any_time(), any_time(), any_time(), any_time(), any(1), 0);
		else
			gi_set(&pool, index, any_time(), any_time(), any(2), any(1), 0);
		break;
	case SET_AGAIN:
		set_again(index);
		break;
	case BOOST:
		gi_boost(&pool, index, any_time(), 0);
		break;
	case DECIDE:
		gi_decide(&pool, 0);
		if (ORDER == GI_MIXED_CRITICALITY)
			decided_by_criticality();
		else
			decided();
		break;
	case LOOK:
		gi_look(&pool, index);
		break;
	case REMOVE:
		removed(index);
		break;
	}
	invariant();
	return 0;
}
