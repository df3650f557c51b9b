/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The slots of a pool: a removed server's is the next to be given away.
 *
 * Removed and added again, a server would have a full budget at once: bandwidth from nothing. Therefore a removal tells
 * from when on the bandwidth is free (`freed`): when the server would have had a full budget in a new period, had it
 * stayed, idle. A server that takes the bandwidth over begins then at the earliest (`first`), and not before the time
 * that the removal of any before it told. Then all of them together consume in any window what one such server may.
 */
#ifndef GIUSTO_POLICY_REMOVE_H
#define GIUSTO_POLICY_REMOVE_H

#include "change.h"

/* A server of any kind, as it is before anything was booked. */
static inline void gi_blank(struct gi_server *s, gi_u32 kind, gi_u32 priority)
{
	gi_u32 i;

	s->budget = s->period = s->more = s->cut = s->lead = s->next_more = s->next_lead = 0;
	s->deadline = GI_NEVER;
	s->left = 0;
	s->rank = s->place = 0;
	s->event = GI_NEVER;
	s->at[0] = s->at[1] = s->at[2] = GI_NONE;
	s->heap = s->home = GI_OUTSIDE;
	s->core = s->slot = s->mark = 0;
	s->priority = priority;
	s->kind = kind;
	s->ready = s->begun = s->high = s->hi = s->asks = s->heated = 0;
	s->next_budget = s->next_period = s->next_at = s->forgive = 0;
	s->boost_until = s->boost_ns = s->used = 0;
	s->open = GI_NEVER;
	s->chunks = 0;
	s->next = GI_NONE;
	for (i = 0; i < GI_CHUNKS; i++)
		s->chunk[i].time = s->chunk[i].amount = 0;
}

/* The slot of the server that is added next; beyond the last if there is none. */
static inline gi_u32 gi_vacancy(const struct gi_pool *p)
{
	return p->free == GI_NONE ? p->count : p->free;
}

/* Takes that slot. */
static inline void gi_occupy(struct gi_pool *p, gi_u32 index, gi_u32 kind, gi_u32 priority)
{
	struct gi_server *s = gi_at(p, index);

	if (p->free == GI_NONE)
		p->count++;
	else
		p->free = s->next;
	gi_blank(s, kind, priority);
}

/* A time some periods on, as many as it takes to repay a debt; the last instant at most. */
static inline gi_u64 gi_repaid(const struct gi_server *s, gi_u64 from, gi_u64 debt)
{
	gi_u64 periods;

	if (!debt || !s->budget || !s->period)
		return from;
	periods = (debt - 1) / s->budget + 1;
	if (from >= GI_LAST || periods > (GI_LAST - from) / s->period)
		return GI_LAST;
	return from + periods * s->period;
}

/* From when on the bandwidth of a server is free, if it consumes nothing from now on. */
static inline gi_u64 gi_free_from(const struct gi_server *s, gi_u64 now)
{
	gi_u64 end = s->deadline;

	if (gi_is(s, GI_ENDLESS) || !s->begun)
		return now;
	if (gi_is(s, GI_IN_CHUNKS)) {
		end = gi_repaid(s, s->chunk[0].time, s->used);
		end = gi_max(end, s->chunk[(s->chunks - 1) & (GI_CHUNKS - 1)].time);
	} else if (s->left < 0) { /* what shrinking took is no debt */
		end = gi_repaid(s, end, (gi_u64)(-s->left - (gi_s64)s->forgive));
	}
	return gi_max(end, now);
}

/* Takes a server off a core. */
static inline void gi_vacate(struct gi_pool *p, gi_u32 core)
{
	struct gi_core *c = &p->core[core & (GI_CORES - 1u)];

	c->runs = c->payer = GI_NONE;
	p->vacated |= 1ull << (core & (GI_CORES - 1u));
}

/*
 * Takes a server out of the pool. `freed` is then from when on its bandwidth is free. What it heated in mixed
 * criticality still has to cool. Returns 0 or a gi_refusal.
 */
static inline int gi_remove(struct gi_pool *p, gi_u32 index, gi_u64 now)
{
	struct gi_server *s = gi_at(p, index);

	now = gi_advance(p, now);
	if (!gi_exists(p, index))
		return GI_UNKNOWN;
	gi_touch(p, index);
	gi_refill(s, now);
	p->freed = gi_free_from(s, now);
	p->boosts -= gi_strike(p->boost, p->boosts, index);
	p->burners -= gi_strike(p->burner, p->burners, index);
	if (s->core)
		gi_vacate(p, s->core - 1);
	if (s->high && s->ready)
		p->pending--;
	s->kind = GI_FREE;
	s->ready = 0;
	s->next_budget = s->boost_until = 0;
	gi_place(p, index); /* out of its heaps */
	gi_blank(s, GI_FREE, 0);
	s->next = p->free;
	p->free = index;
	return 0;
}

#endif
