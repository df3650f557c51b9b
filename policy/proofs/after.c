// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* What holds after a decision, in any pool for which nothing was due: with a late driver, with unneeded decisions. */
#include "state.h"

/* Law 3: no server gets deeper into debt than the driver is late. */
static void late(void)
{
	gi_s64 before[SERVERS];
	gi_u64 now = any_time();
	int lateness;
	gi_u32 i;

	for (i = 0; i < SERVERS; i++)
		before[i] = (gi_s64)(split(&pool, i)->left + (int)split(&pool, i)->forgive);
	now = gi_advance(&pool, now);
	lateness = now > pool.until ? (int)now - (int)pool.until : 0;
	for (i = 0; i < SERVERS; i++) {
		gi_bill(&pool, split(&pool, i));
		HOLDS(split(&pool, i)->left + (int)split(&pool, i)->forgive >=
			  (before[i] < -lateness ? before[i] : -lateness),
		      "debt is at most the driver's lateness");
	}
}

struct world {
	struct gi_pool pool;
	struct gi_server server[SERVERS];
	struct set ready, idle, dry, refill, first;
};

static struct world kept(void)
{
	struct world w;
	gi_u32 i;

	w.pool = pool;
	for (i = 0; i < SERVERS; i++)
		w.server[i] = *split(&pool, i);
	w.ready = set[GI_READY];
	w.idle = set[GI_IDLE];
	w.dry = set[GI_DRY];
	w.refill = set[GI_REFILL];
	w.first = set[GI_FIRST];
	return w;
}

/*
 * Law 6: a decision at a, between this one and a later one at b, both before `until`, changes nothing that can be seen.
 * How far they are apart is given: with numbers for them the proof is minutes shorter.
 */
static void again(void)
{
	gi_u64 a = NOW + BETWEEN, b = a + BEYOND;
	struct world start, one;
	struct gi_server x, y;
	gi_u32 i;

	GIVEN(b < pool.until);
	start = kept();
	gi_decide(&pool, b);
	one = kept();
	pool = start.pool;
	for (i = 0; i < SERVERS; i++)
		*split(&pool, i) = start.server[i];
	set[GI_READY] = start.ready;
	set[GI_IDLE] = start.idle;
	set[GI_DRY] = start.dry;
	set[GI_REFILL] = start.refill;
	set[GI_FIRST] = start.first;
	gi_decide(&pool, a);
	HOLDS(!pool.changed, "an unneeded decision changes no core");
	gi_decide(&pool, b);
	HOLDS(pool.until == one.pool.until, "the next decision is due as without it");
	for (i = 0; i < CORES; i++)
		HOLDS(pool.core[i].runs == one.pool.core[i].runs && pool.core[i].payer == one.pool.core[i].payer,
		      "the same servers run as without it");
	for (i = 0; i < SERVERS; i++) {
		x = *split(&pool, i);
		y = one.server[i];
		gi_bill(&pool, &x);
		gi_bill(&one.pool, &y);
		gi_show(&x, pool.now);
		gi_show(&y, pool.now);
		HOLDS(x.left == y.left && x.deadline == y.deadline && x.boost_ns == y.boost_ns && x.used == y.used,
		      "each server is as without it");
	}
}

int main(void)
{
	enum { LATE, AGAIN };

	any_pool(SERVERS, 1);
	gi_decide(&pool, 0);
	if (CALL == LATE)
		late();
	else
		again();
	return 0;
}
