/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What holds of every pool between two calls: once to choose any such pool, once to check what a call makes of it. So a
 * proof about one call is one about any number of them.
 */
#ifndef GIUSTO_POLICY_PROOF_STATE_H
#define GIUSTO_POLICY_PROOF_STATE_H

#include "proof.h"

#define LAW(condition, text)                    \
	do {                                    \
		if (given)                      \
			GIVEN(condition);       \
		else                            \
			HOLDS(condition, text); \
	} while (0)

static inline void reservation(const struct gi_server *s, int given)
{
	gi_u32 sum = 0, i;

	LAW(s->budget && s->budget <= s->period, "0 < B <= P");
	LAW(s->left <= (gi_s64)s->budget, "left <= B");
	LAW(!s->next_budget || s->next_budget <= s->next_period, "0 < B <= P of a change that waits");
	if (s->kind != GI_SPORADIC)
		return;
	LAW(s->chunks && s->chunks <= GI_CHUNKS, "a queue is neither empty nor overfull");
	for (i = 0; i < GI_CHUNKS && i < s->chunks; i++) {
		sum += s->chunk[i].amount;
		LAW(s->chunk[i].amount, "no chunk is empty");
		LAW(!i || s->chunk[i - 1].time <= s->chunk[i].time, "chunks are in the order of their times");
	}
	LAW(sum == s->budget, "a sporadic server's chunks add up to its budget");
	LAW(s->deadline == s->chunk[0].time + s->period, "its deadline is a period after its head");
}

static inline void invariant(int given)
{
	const struct gi_server *s;
	gi_u32 i, j, runs, places;

	for (i = 0; i < SERVERS && i < pool.count; i++) {
		s = split(&pool, i);
		if (s->kind != GI_UNLIMITED)
			reservation(s, given);
		LAW(s->ready <= 1 && !s->slot, "no slot is left over");
		LAW(s->heap == gi_home(s), "a server is in the heap where it belongs");
		LAW(s->heap == GI_OUTSIDE || s->rank == (pool.order == GI_EDF ? s->deadline : s->priority),
		    "its rank is up to date");
		LAW(s->event == gi_event(&pool, s), "its event is up to date");
		for (places = j = 0; j < GI_CORES; j++)
			places += j < pool.boosts && pool.boost[j] == i;
		LAW(places == (s->boost_until != 0), "who is boosted has one place among them");
	}
	LAW(pool.boosts <= pool.m, "at most a boost a core");
	LAW(pool.burners <= pool.m && pool.burned == pool.now, "burners are accounted for");
	for (i = 0; i < GI_CORES; i++) {
		runs = pool.core[i].runs;
		LAW(i >= pool.burners || (pool.burner[i] < pool.count && gi_periodic(split(&pool, pool.burner[i]))),
		    "only periodic servers burn");
		LAW(i >= pool.boosts || pool.boost[i] < pool.count, "only servers are boosted");
		LAW(pool.core[i].charged_at <= pool.now, "nothing is charged ahead");
		LAW(runs == GI_NOBODY || (i < pool.m && runs < pool.count), "only servers run, on the pool's cores");
		LAW(pool.core[i].payer == runs || pool.core[i].payer == GI_NOBODY, "who runs pays, or nobody");
		LAW(!i || runs == GI_NOBODY || runs != pool.core[0].runs, "no server on two cores");
	}
}

/* Any server of a kind, in its heaps. */
static inline void any_server(gi_u32 index, gi_u32 kind, int exists)
{
	struct gi_server *s = split(&pool, index);
	gi_u32 c;

	s->kind = kind;
	s->budget = any(BITS);
	s->period = any(BITS);
	s->deadline = kind == GI_UNLIMITED ? GI_NEVER : any(BITS + 1);
	s->left = (gi_s64)any(BITS) - (gi_s64)any(BITS);
	s->priority = any(1);
	s->ready = any(1);
	s->begun = any(1);
	if (CHANGES) {
		s->next_budget = any(BITS);
		s->next_period = any(BITS);
		s->next_at = any(BITS);
		s->forgive = any(BITS);
	}
	if (BOOSTS)
		s->boost_until = any(BITS);
	if (kind == GI_SPORADIC) {
		s->used = any(BITS);
		s->chunks = any(2);
		for (c = 0; c < GI_CHUNKS; c++) {
			s->chunk[c].time = any(BITS);
			s->chunk[c].amount = any(BITS);
		}
	}
	s->heap = gi_home(s);
	s->rank = ORDER == GI_EDF ? s->deadline : s->priority;
	s->event = gi_event(&pool, s);
	s->at[0] = s->at[1] = index;
	if (exists && s->heap != GI_OUTSIDE) {
		set[s->heap].members |= 1u << index;
		set[s->heap].key[index] = s->rank;
	}
	if (exists && s->event != GI_NEVER) {
		set[GI_REFILL].members |= 1u << index;
		set[GI_REFILL].key[index] = s->event;
	}
}

/*
 * Any pool of `count` servers. `charged`: up to its time, which then does not move; that is what each call makes of a
 * pool first, by gi_advance, which is proven of itself.
 */
static inline void any_pool(gi_u32 count, int charged)
{
	static const gi_u32 kinds[] = {KIND0, KIND1, KIND2, KIND2};
	gi_u32 i;

	gi_init(&pool, ORDER, CORES);
	pool.count = count;
	pool.now = pool.burned = any(BITS);
	pool.burners = any(2);
	pool.boosts = BOOSTS ? any(2) : 0;
	for (i = 0; i < GI_CAPACITY; i++)
		any_server(i, kinds[i], i < count);
	for (i = 0; i < CORES; i++) {
		pool.burner[i] = any(2);
		pool.boost[i] = any(2);
		pool.core[i].charged_at = charged ? pool.now : (gi_u64)any(BITS);
		pool.core[i].runs = any(1) ? any(2) : GI_NOBODY;
		pool.core[i].payer = any(1) ? pool.core[i].runs : GI_NOBODY;
	}
	invariant(1);
}

#endif
