/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What holds of every pool between two calls: once to choose any such pool, once to check what a call makes of it. So a
 * proof about one call is one about any number of them.
 */
#ifndef GIUSTO_POLICY_PROOF_STATE_H
#define GIUSTO_POLICY_PROOF_STATE_H

#include "proof.h"

#define LAW(condition, text)                                                                                           \
	do {                                                                                                           \
		if (given)                                                                                             \
			GIVEN(condition);                                                                              \
		else                                                                                                   \
			HOLDS(condition, text);                                                                        \
	} while (0)

/* What the mode gives the present job: of the worst budget, without what a wake-up took. */
static inline gi_u64 granted(const struct gi_server *s)
{
	return s->hi && s->kind == GI_MIXED ? s->budget - s->cut : s->budget;
}

/* What a reservation of mixed criticality may be besides. */
static inline void mixed(const struct gi_server *s, int given)
{
	int optimistic = (int)s->budget - (s->hi ? (int)s->more : 0);

	LAW(s->hi == (pool.mode == GI_HI), "a server is in the mode of its core");
	LAW(s->high || (!s->more && !s->lead && !s->next_more && !s->next_lead), "a low server has one budget");
	LAW(s->begun, "it has no grid that is still to begin");
	LAW(optimistic > 0 && optimistic + (int)s->more <= (int)s->period, "0 < optimistic <= worst <= period");
	LAW(optimistic <= (int)s->period - (int)s->lead, "optimistic <= virtual deadline <= period");
	LAW(s->cut <= s->more, "no more is cut than HI adds");
	LAW(!s->next_budget || ((int)s->next_budget + (int)s->next_more <= (int)s->next_period &&
				(int)s->next_budget <= (int)s->next_period - (int)s->next_lead),
	    "a change that waits is a reservation of mixed criticality");
}

/* What a reservation may be, and what has become of it; `paid`: up to when its consumption is booked. */
static inline void reservation(const struct gi_server *s, gi_u64 paid, int given)
{
	gi_u32 sum = 0, due = 0, i;

	LAW(s->budget && s->budget <= s->period && s->period <= GI_LAST, "0 < B <= P");
	if (s->kind == GI_MIXED)
		mixed(s, given);
	LAW(s->left <= (gi_s64)granted(s), "left <= B");
	LAW(s->begun || s->left <= 0, "nothing is there before the first replenishment");
	LAW(!s->next_budget || (s->next_budget <= s->next_period && s->next_period <= GI_LAST),
	    "0 < B <= P of a change that waits");
	LAW(s->begun || !s->forgive, "nothing is forgiven before the first replenishment");
	LAW(s->left + (int)s->forgive >= -(int)paid, "debt is what was consumed, or comes from shrinking");
	if (s->kind != GI_SPORADIC) {
		LAW(s->deadline <= pool.now + GI_LAST, "a deadline is at most the longest period away");
		LAW(!s->forgive || (int)s->forgive <= -s->left, "only debt is forgiven");
		LAW(s->forgive + granted(s) <= GI_LAST, "no more is forgiven than was ever shrunk");
		return;
	}
	LAW(s->chunks && s->chunks <= GI_CHUNKS, "a queue is neither empty nor overfull");
	for (i = 0; i < GI_CHUNKS && i < s->chunks; i++) {
		sum += s->chunk[i].amount;
		due += s->chunk[i].time <= pool.now ? s->chunk[i].amount : 0;
		LAW(s->chunk[i].amount, "no chunk is empty");
		LAW(s->chunk[i].time <= pool.now + GI_LAST, "a chunk is at most the longest period away");
		LAW(!i || s->chunk[i - 1].time <= s->chunk[i].time, "chunks are in the order of their times");
	}
	LAW(sum == s->budget, "a sporadic server's chunks add up to its budget");
	LAW(s->used <= paid && -(int)s->used <= s->left && s->left <= (int)due - (int)s->used,
	    "what is left of chunks that are due");
	LAW(s->deadline == s->chunk[0].time + s->period, "its deadline is a period after its head");
}

/* Up to when a server's consumption is booked. */
static inline gi_u64 booked(gi_u32 index)
{
	gi_u32 i;

	for (i = 0; i < CORES; i++)
		if (pool.core[i].payer == index)
			return pool.core[i].charged_at;
	return pool.now;
}

static inline int looked_at(gi_u32 core)
{
	return (int)(pool.look >> core & 1);
}

static inline void cores(int given)
{
	gi_u32 i, runs;

	LAW(pool.burned == pool.now, "burners are accounted for");
	LAW(pool.full <= pool.now, "nothing is owed ahead");
	LAW(pool.look >> pool.m == 0 && pool.guests >> pool.m == 0, "only cores of the pool are looked at");
	for (i = 0; i < CORES; i++) {
		runs = pool.core[i].runs;
		LAW(pool.core[i].charged_at <= pool.now, "nothing is charged ahead");
		LAW(runs == GI_NONE || gi_exists(&pool, runs), "only servers run");
		LAW(pool.core[i].payer == runs || pool.core[i].payer == GI_NONE, "the running server pays, or none");
		LAW(!i || runs == GI_NONE || runs != pool.core[0].runs, "no server on two cores");
		LAW(i < pool.m || runs == GI_NONE, "no server runs on a core that the pool does not have");
	}
}

/* When the budget of a core's payer ends or is replenished, by the text alone: if it runs from where it was charged. */
static inline gi_u64 end_of(gi_u32 core)
{
	const struct gi_core *c = &pool.core[core];
	const struct gi_server *s = split(&pool, c->payer);
	int end;

	if (c->payer == GI_NONE || s->kind == GI_UNLIMITED)
		return GI_NEVER;
	end = (int)c->charged_at + (int)s->left;
	return end < 0 ? 0 : end < (int)s->event ? (gi_u64)end : s->event;
}

/* What may wait: a core that is not looked at has the server and the end that it had at the last decision. */
static inline void waiting(int given)
{
	const struct gi_server *s;
	gi_u32 i;

	for (i = 0; i < CORES; i++) {
		s = split(&pool, pool.core[i].runs);
		LAW(pool.core[i].runs == GI_NONE || s->core == i + 1, "who runs knows its core");
		LAW(pool.core[i].runs == GI_NONE || s->heap != GI_FIRST || !s->ready ||
			pool.core[i].payer == pool.core[i].runs,
		    "who is first pays");
		if (looked_at(i))
			continue;
		LAW(pool.core[i].runs == GI_NONE || pool.guests >> i & 1 || (s->heap == GI_FIRST && s->ready),
		    "who is first keeps its core, others are looked at");
		LAW(pool.core[i].runs == GI_NONE || s->ready, "who is idle does not keep its core");
		s = split(&pool, pool.core[i].payer);
		if (pool.core[i].payer != GI_NONE && s->kind != GI_UNLIMITED) {
			LAW(s->kind != GI_SPORADIC && s->kind != GI_MIXED && !s->boost_until && s->left > 0,
			    "only a charge whose end is certain waits");
			LAW(pool.core[i].charged_at <= pool.full, "a charge waits from a time that all ran up to");
		}
		LAW(pool.core[i].ends == end_of(i), "the end of a budget is up to date");
		LAW(pool.core[i].ends > pool.full, "no charge waits beyond the end of the budget");
	}
	LAW(pool.due == gi_min(pool.core[0].ends, pool.core[1].ends), "the first end is due");
}

/* Who runs first, as the last decision left it, but for those who have changed. */
static inline void first(int given)
{
	const struct gi_server *s;
	gi_u32 i, j, places;

	LAW(gi_filled(&pool, GI_FIRST) <= pool.m, "as many are first as there are cores");
	LAW(pool.resting <= CORES, "as many of them are idle");
	for (i = 0; i < SERVERS && i < pool.count; i++) {
		s = split(&pool, i);
		LAW(s->heap != GI_FIRST || !s->ready || s->core, "who is first and ready has a core");
		LAW(!s->core || (s->core <= CORES && pool.core[s->core - 1].runs == i), "a server runs on its core");
		for (places = j = 0; j < CORES; j++)
			places += j < pool.resting && pool.rest[j] == i;
		LAW(places == (s->heap == GI_FIRST && !s->ready), "who is first and idle has a place among those");
	}
	for (j = 0; j < CORES; j++)
		LAW(j >= pool.resting || pool.rest[j] < pool.count, "only servers rest");
	LAW(pool.resting < 2 || gi_before(&pool, GI_FIRST, pool.rest[0], pool.rest[1]), "the idle are in order");
}

/* How many ask, and how many high servers are ready. */
static inline void modes(int given)
{
	gi_u32 i, asking = 0, pending = 0;

	for (i = 0; i < SERVERS && i < pool.count; i++) {
		LAW(split(&pool, i)->asks == (gi_u32)gi_mixed_asks(split(&pool, i)), "it is known who asks");
		asking += split(&pool, i)->asks;
		pending += split(&pool, i)->high && split(&pool, i)->ready;
	}
	LAW(pool.asking == asking, "those who ask are counted");
	LAW(pool.pending == pending, "the high that are ready are counted");
}

static inline void lists(int given)
{
	gi_u32 i, j, places;

	LAW(pool.boosts <= pool.m, "at most a boost a core");
	LAW(pool.burners <= CORES, "at most a burner a core");
	for (i = 0; i < CORES; i++) {
		LAW(i >= pool.burners || (pool.burner[i] < pool.count && gi_is(split(&pool, pool.burner[i]), GI_BURNS)),
		    "only periodic servers burn");
		LAW(!i || pool.burners < 2 || pool.burner[0] != pool.burner[1], "no server burns twice");
		LAW(i >= pool.boosts || gi_exists(&pool, pool.boost[i]), "only servers are boosted");
	}
	for (i = 0; i < SERVERS && i < pool.count; i++) {
		for (places = j = 0; j < CORES; j++)
			places += j < pool.boosts && pool.boost[j] == i;
		LAW(places == (split(&pool, i)->boost_until != 0), "who is boosted has one place among them");
	}
}

/* The slots of removed servers are free, each once. */
static inline void slots(void)
{
	gi_u32 i, n, seen = 0;

	for (n = 0, i = pool.free; n < SERVERS && i != GI_NONE; n++, i = split(&pool, i)->next) {
		HOLDS(i < pool.count && split(&pool, i)->kind == GI_FREE, "only slots without a server are free");
		seen |= 1u << i;
	}
	HOLDS(i == GI_NONE, "no slot is free twice");
	for (i = 0; i < SERVERS && i < pool.count; i++)
		HOLDS((split(&pool, i)->kind == GI_FREE) == (seen >> i & 1), "a slot without a server is free");
}

/* A heap holds a server if it should, under its present key. */
static inline void held(gi_u32 heap, gi_u32 index, int should)
{
	HOLDS((set[heap].members >> index & 1) == (gi_u32)should, "a heap holds who it should");
	HOLDS(!should || set[heap].key[index] == key_of(heap, index), "a key that changed was sifted");
}

/* What a call has made of any pool. */
static inline void invariant(void)
{
	const struct gi_server *s;
	gi_u32 i, heap;

	cores(0);
	lists(0);
	waiting(0);
	first(0);
	slots();
	if (ORDER == GI_MIXED_CRITICALITY)
		modes(0);
	for (i = 0; i < SERVERS && i < pool.count; i++) {
		s = split(&pool, i);
		if (s->kind < GI_FREE && s->kind != GI_UNLIMITED)
			reservation(s, booked(i), 0);
		HOLDS(!s->slot, "no slot is left over");
		HOLDS((s->heap == GI_FIRST ? s->home : s->heap) == gi_home(s),
		      "a server is in the heap where it belongs");
		HOLDS(s->heap != GI_FIRST || s->home <= GI_IDLE, "only who has budget is first");
		HOLDS(s->heap == GI_OUTSIDE || s->rank == gi_rank(&pool, s), "its rank is up to date");
		HOLDS(s->event == gi_event(&pool, s), "its event is up to date");
		for (heap = 0; heap < GI_REFILL; heap++)
			held(heap, i, s->heap == heap);
		held(GI_FIRST, i, s->heap == GI_FIRST);
		held(GI_REFILL, i, s->event != GI_NEVER);
	}
}

/* Any server of a kind, in its heaps. CALM: nothing is due for it now. */
static inline void any_server(gi_u32 index, gi_u32 kind, int exists)
{
	struct gi_server *s = split(&pool, index);
	gi_u32 c;

	if (kind == GI_FREE) {
		gi_blank(s, kind, 0);
		s->next = pool.free;
		pool.free = exists ? index : pool.free;
		return;
	}
	s->kind = kind;
	s->priority = any(2);
	s->ready = any(1);
	s->begun = any(1);
	s->deadline = GI_NEVER;
	s->open = any_time();
	s->hi = ORDER == GI_MIXED_CRITICALITY;
	if (BOOSTS)
		s->boost_until = any_time();
	if (kind != GI_UNLIMITED) {
		s->budget = any_time();
		s->period = any_time();
		s->deadline = any_time();
		s->left = (gi_s64)((int)any_time() - (2 << BITS));
		if (CHANGES) {
			s->next_budget = any_time();
			s->next_period = any_time();
			s->next_at = any_time();
			if (kind != GI_SPORADIC)
				s->forgive = any_time();
		}
	}
	if (kind == GI_MIXED) {
		s->hi = pool.mode;
		s->high = any(1);
		s->heated = any(1);
		s->more = any_time();
		s->cut = any_time();
		s->lead = any_time();
		if (CHANGES) {
			s->next_more = any_time();
			s->next_lead = any_time();
		}
	}
	if (kind == GI_SPORADIC) {
		s->used = any_time();
		s->chunks = any(2);
		for (c = 0; c < GI_CHUNKS; c++) {
			s->chunk[c].time = any_time();
			s->chunk[c].amount = any_time();
		}
	}
	if (exists && kind != GI_UNLIMITED)
		reservation(s, booked(index), 1);
	if (!exists)
		return;
	s->asks = (gi_u32)gi_mixed_asks(s);
	s->home = gi_home(s);
	s->heap = s->home <= GI_IDLE && ORDER != GI_MIXED_CRITICALITY && any(1) ? GI_FIRST : s->home;
	s->core = pool.core[0].runs == index ? 1 : pool.core[1].runs == index ? 2 : 0;
	s->rank = gi_rank(&pool, s);
	s->event = gi_event(&pool, s);
	s->at[0] = s->at[1] = index;
	if (CALM)
		GIVEN(s->event > NOW && (!s->boost_until || s->boost_until > NOW));
	if (s->heap != GI_OUTSIDE) {
		set[s->heap].members |= 1u << index;
		set[s->heap].key[index] = s->rank;
	}
	if (s->event != GI_NEVER) {
		set[GI_REFILL].members |= 1u << index;
		set[GI_REFILL].key[index] = s->event;
	}
}

/*
 * Any pool of `count` servers at time NOW. A tick, a charge and a touch find one whose consumption is not booked up to
 * then; any other call begins with them, and finds a pool as they leave it. Whose charge still waits then is of no
 * concern to the call, but for a decision that takes its core away: WAITS.
 */
static inline void any_pool(gi_u32 count, int booked_all)
{
	static const gi_u32 kinds[] = {KIND0, KIND1, KIND2};
	gi_u32 i;

	gi_init(&pool, ORDER, CORES);
	pool.count = count;
	pool.now = pool.burned = NOW;
	pool.full = booked_all ? NOW : any_time();
	pool.look = any(CORES);
	pool.guests = any(CORES);
	for (i = 0; i < CORES; i++) {
		pool.core[i].charged_at = booked_all && (looked_at(i) || !WAITS) ? NOW : any_time();
		pool.core[i].runs = any(1) ? any(2) : GI_NONE;
		pool.core[i].payer = any(1) ? pool.core[i].runs : GI_NONE;
	}
	for (i = 0; i < SERVERS; i++)
		split(&pool, i)->kind = kinds[i];
	cores(1);
	if (ORDER == GI_MIXED_CRITICALITY) {
		pool.mode = any(1);
		pool.back = any(1);
		pool.degrees = any(2);
		pool.hot_until = any_time();
		pool.asking = any(2);
		pool.pending = any(2);
	}
	for (i = 0; i < SERVERS; i++)
		any_server(i, kinds[i], i < count);
	if (ORDER == GI_MIXED_CRITICALITY)
		modes(1);
	for (i = 0; i < CORES; i++)
		pool.core[i].ends = looked_at(i) ? any_time() : end_of(i);
	pool.due = gi_min(pool.core[0].ends, pool.core[1].ends);
	pool.resting = any(2);
	for (i = 0; i < CORES; i++)
		pool.rest[i] = any(2);
	waiting(1);
	first(1);
	pool.burners = any(2);
	pool.boosts = BOOSTS ? any(2) : 0;
	for (i = 0; i < CORES; i++) {
		pool.burner[i] = any(2);
		pool.boost[i] = any(2);
	}
	lists(1);
}

#endif
