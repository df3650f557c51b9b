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
		idle += pool.core[i].runs == GI_NONE;
	}
	HOLDS(idle >= strict, "a strict server's core stays empty");
	for (i = 0; i < CORES; i++) {
		runs = pool.core[i].runs;
		if (runs == GI_NONE)
			continue;
		s = split(&pool, runs);
		HOLDS(s->ready, "only the ready run");
		if (pool.core[i].payer == GI_NONE) {
			HOLDS(lends && s->kind == GI_PERIODIC_RECLAIMING,
			      "only a reclaiming server lends, to its kind");
		} else if (s->kind != GI_UNLIMITED && !s->boost_until) {
			HOLDS((int)pool.core[i].charged_at + (int)s->left > (int)pool.now, "who pays has budget");
			HOLDS(pool.until <= pool.core[i].charged_at + s->left,
			      "the next decision comes before a budget is exceeded");
		}
	}
	for (i = 0; i < SERVERS; i++) {
		s = split(&pool, i);
		HOLDS(idle <= strict || !s->ready || i == pool.core[0].runs || i == pool.core[1].runs ||
			  !(s->left > 0 || s->kind == GI_UNLIMITED || s->boost_until),
		      "a core idles only if no server is eligible, or a strict server keeps it");
	}
	HOLDS(pool.until >= pool.now, "the next decision is not past");
}

/* And in the order of mixed criticality. */
static void decided_by_criticality(void)
{
	const struct gi_server *s = split(&pool, pool.core[0].runs), *other;
	gi_u32 i, runs = pool.core[0].runs;

	HOLDS(pool.mode == GI_HI || !pool.asking, "no server asks in LO");
	HOLDS(pool.until >= pool.now, "the next decision is not past");
	for (i = 0; i < SERVERS; i++) {
		other = split(&pool, i);
		HOLDS(runs != GI_NONE || !other->ready, "the core idles only if no server is ready");
		if (runs == GI_NONE || s->boost_until || !other->ready)
			continue;
		HOLDS(pool.mode == GI_LO || s->high || !other->high,
		      "in HI no low server runs while a high one is ready");
		HOLDS(s->high || !other->high || pool.mode == GI_HI || s->left > 0,
		      "on leftovers no low server runs while a high one is ready");
	}
	if (runs == GI_NONE)
		return;
	HOLDS(s->ready, "only the ready run");
	HOLDS(pool.core[0].payer != GI_NONE || s->left <= 0, "who has budget pays");
	if (pool.core[0].payer == GI_NONE || s->kind == GI_UNLIMITED || s->boost_until)
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

	for (i = 0; i < SERVERS; i++) {
		before[i] = *split(&pool, i);
		gi_bill(&pool, &before[i]);
	}
	GIVEN(index < SERVERS && !s->next_budget);
	if (s->kind == GI_MIXED)
		HOLDS(!gi_set_mixed(&pool, index, s->budget - (s->hi ? s->more : 0),
				    s->high ? s->budget + (s->hi ? 0 : s->more) : 0, s->period, s->period - s->lead,
				    any(1), 0),
		      "present parameters are not refused");
	else
		HOLDS(!gi_set(&pool, index, s->budget, s->period, s->priority, any(1), 0) || s->kind == GI_UNLIMITED,
		      "present parameters are not refused");
	for (i = 0; i < SERVERS; i++) {
		gi_bill(&pool, split(&pool, i));
		HOLDS(__CPROVER_equal(before[i], *split(&pool, i)),
		      "a change to the present parameters changes nothing");
	}
}

/* A server goes; its bandwidth is free when it would have had a full budget in a new period, had it stayed, idle. */
static void removed(gi_u32 index)
{
	int existed = gi_exists(&pool, index), done;
	struct gi_server was = *split(&pool, index);

	gi_bill(&pool, &was);
	done = gi_remove(&pool, index, 0);

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

/*
 * Who comes first of two servers that have budget, by the text alone: the smaller priority or the earlier deadline (the
 * virtual one of a high server in LO), low ones last in HI, ties to the lower index.
 */
static int comes_first(const struct gi_server *x, const struct gi_server *y, int tie)
{
	int a = (int)x->deadline, b = (int)y->deadline;

	if (ORDER == GI_FIXED_PRIORITY)
		return x->priority < y->priority || (x->priority == y->priority && tie);
	if (ORDER == GI_MIXED_CRITICALITY && pool.mode == GI_HI && x->high != y->high)
		return x->high;
	if (ORDER == GI_MIXED_CRITICALITY && pool.mode == GI_LO) {
		a = a > (int)x->lead ? a - (int)x->lead : 0;
		b = b > (int)y->lead ? b - (int)y->lead : 0;
	}
	return a < b || (a == b && tie);
}

/* Whether it has a claim by its budget, as it would stand if it woke now; it is in pool.seen then. */
static int has_claim(gi_u32 index)
{
	pool.seen = *split(&pool, index);
	if (!gi_exists(&pool, index))
		return 0;
	if (!pool.seen.ready)
		gi_show(&pool.seen, pool.now);
	return pool.seen.left > 0 || pool.seen.kind == GI_UNLIMITED;
}

/* The whole order, after a decision. */
static void places(gi_u32 capacity)
{
	gi_u32 i, index, cores = pool.m, seen = 0, runs, last = GI_NONE, few;
	struct gi_server one, other;

	gi_order(&pool, GI_CAPACITY);
	HOLDS(pool.placed <= SERVERS, "no more have a place than there are");
	for (i = 0; i < SERVERS && i < pool.placed; i++) {
		index = pool.place[i] & (GI_CAPACITY - 1u);
		HOLDS(gi_exists(&pool, index) && !(seen >> index & 1), "a server has one place");
		seen |= 1u << index;
		HOLDS(cores || ORDER == GI_MIXED_CRITICALITY || split(&pool, index)->ready ||
			  !(pool.place[i] & GI_KEEPS),
		      "no server keeps a core that is taken");
		runs = pool.core[0].runs == index || pool.core[1].runs == index;
		HOLDS(runs == (split(&pool, index)->ready && cores), "who runs is the first of the order");
		if (cores && (split(&pool, index)->ready || pool.place[i] & GI_KEEPS))
			cores--;
		if (!has_claim(index) || (split(&pool, index)->ready && split(&pool, index)->boost_until))
			continue;
		one = pool.seen;
		if (last != GI_NONE && has_claim(last)) {
			other = pool.seen;
			HOLDS(comes_first(&other, &one, last < index) || one.kind == GI_UNLIMITED ||
				  other.kind == GI_UNLIMITED,
			      "the order is that of priorities or deadlines");
		}
		last = index;
	}
	for (i = 0; i < SERVERS; i++)
		HOLDS(seen >> i & 1 || !has_claim(i) || pool.burners, "who has a budget has a place");
	for (i = 0; i < CORES; i++)
		HOLDS(pool.core[i].runs == GI_NONE || seen >> pool.core[i].runs & 1, "who runs has a place");
	few = pool.placed < capacity ? pool.placed : capacity;
	HOLDS(gi_order(&pool, capacity) == few, "as many places are told as were asked for");
}

/*
 * What becomes of a server on a grid or of constant bandwidth, by the text alone. Debt: each period that passes brings
 * one budget, so it is never smaller than before by more than that. Waking, constant bandwidth keeps what it has unless
 * using it up by its deadline would exceed B / P.
 */
static struct gi_server before;

static void watch(gi_u32 index)
{
	before = *split(&pool, index);
	gi_bill(&pool, &before);
}

static void compare(gi_u32 index, int wakes)
{
	const struct gi_server *s = split(&pool, index);
	int kept = s->deadline == before.deadline, time = (int)before.deadline - NOW, left = (int)before.left;

	if (index >= SERVERS || !gi_exists(&pool, index) || before.next_budget || before.forgive || !before.begun)
		return;
	if (s->kind > GI_DEFERRABLE && s->kind != GI_CONSTANT_BANDWIDTH)
		return;
	/* A wake-up may begin a new period once the debt is repaid. */
	if (left < 0 && s->period && !(wakes && s->kind == GI_CONSTANT_BANDWIDTH))
		HOLDS((int)s->left <=
			  left + ((int)s->deadline - (int)before.deadline) / (int)s->period * (int)s->budget,
		      "a debt is repaid by a budget a period");
	if (s->kind != GI_CONSTANT_BANDWIDTH || !wakes || before.ready || left <= 0)
		return;
	HOLDS(!kept || (time > 0 && left * (int)s->period <= time * (int)s->budget),
	      "waking, what is kept is within the bandwidth");
	HOLDS(kept || time <= 0 || left * (int)s->period > time * (int)s->budget,
	      "waking, a new period begins only where the bandwidth would be exceeded");
	HOLDS(kept ? s->left == before.left : s->left == (gi_s64)s->budget && (int)s->deadline == NOW + (int)s->period,
	      "waking, it keeps what it has or has a full budget for a period");
}

/* Where nothing is due, a decision gives nothing and forgets nothing. */
static void kept(gi_u32 index)
{
	struct gi_server after = *split(&pool, index);

	if (!CALM || ORDER == GI_MIXED_CRITICALITY || index >= SERVERS || !gi_exists(&pool, index) ||
	    after.kind == GI_SPORADIC)
		return;
	gi_bill(&pool, &after);
	HOLDS(after.left == before.left, "a decision forgets nothing that is owed");
}

int main(void)
{
	gi_u32 wakes;
	enum { INIT, ADD, TICK, CHARGE, READY, SET, SET_AGAIN, BOOST, DECIDE, LOOK, REMOVE, OWE, PLACES, TOUCH };
	gi_u32 index = any(2);

	any_pool(CALL == ADD ? any(2) % SERVERS : SERVERS, CALL != TICK && CALL != CHARGE && CALL != TOUCH);
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
	case TOUCH:
		gi_touch(&pool, index);
		HOLDS(!split(&pool, index)->core || booked(index) >= pool.full, "what is owed is charged");
		break;
	case OWE:
		gi_owe(&pool, index, any_time(), 0);
		break;
	case READY:
		watch(index);
		wakes = any(1);
		gi_ready(&pool, index, wakes, 0);
		compare(index, (int)wakes);
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
		watch(index);
		gi_decide(&pool, 0);
		compare(index, 0);
		kept(index);
		if (ORDER == GI_MIXED_CRITICALITY)
			decided_by_criticality();
		else
			decided();
		break;
	case PLACES:
		gi_decide(&pool, 0);
		places(any(2));
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
