/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The policy core: which servers run on the cores of a pool, and until when.
 *
 * A pure state machine over integers of nanoseconds: no libc, clock, allocation, recursion or floating point, and every
 * loop is bounded by a constant, so that the same source runs in the simulator, in the user-space manager and in the
 * kernel as BPF. Memory, lock and clock belong to the driver. A pool is the cores that are scheduled together, in one
 * order.
 *
 * At one instant the driver calls gi_charge for each core, then gi_owe, gi_ready, gi_set and gi_boost, then gi_decide.
 * An earlier `now` counts as the last one. README.md has the meaning of each call. O(log n) a call for n servers;
 * gi_decide for each server concerned, and a comparison for each core.
 *
 * core/: types, heaps, accounting, the mode of mixed criticality, who runs, the whole order, changes, removal; kinds/:
 * the server algorithms.
 */
#ifndef GIUSTO_POLICY_H
#define GIUSTO_POLICY_H

#include "core/account.h"
#include "core/change.h"
#include "core/choose.h"
#include "core/heap.h"
#include "core/order.h"
#include "core/remove.h"
#include "core/types.h"

/*
 * An empty pool of m cores (1 to GI_CORES; else the nearest of them; always 1 in the order of mixed criticality). The
 * memory need not be zero.
 */
static inline void gi_init(struct gi_pool *p, gi_u32 order, gi_u32 m)
{
	gi_u32 i;

	p->now = p->changed = p->vacated = p->freed = p->burned = p->full = p->look = p->guests = 0;
	p->until = p->refill = p->due = GI_NEVER;
	p->order = order;
	p->m = m < 1 || order == GI_MIXED_CRITICALITY ? 1 : m > GI_CORES ? GI_CORES : m;
	p->count = p->burners = p->resting = p->boosts = p->chosen = p->taken = p->looked_past = p->placed = 0;
	p->hot_until = p->mode = p->back = p->asking = p->pending = 0;
	p->free = GI_NONE;
	p->degrees = 1;
	for (i = 0; i < GI_HEAPS; i++)
		gi_clear(p, i);
	gi_clear(p, GI_PLACES);
	for (i = 0; i < GI_CORES; i++) {
		p->core[i].charged_at = 0;
		p->core[i].ends = GI_NEVER;
		p->core[i].runs = p->core[i].payer = GI_NONE;
	}
}

/*
 * Adds a server, idle. `first` is its first replenishment and anchors its grid; before it there is no budget. 0 stands
 * for now. Returns its index or a gi_refusal. An unlimited server ignores budget, period and first; it is the only kind
 * that this adds to a pool of mixed criticality.
 */
static inline int gi_add(struct gi_pool *p, gi_u32 kind, gi_u64 budget, gi_u64 period, gi_u64 first, gi_u32 priority,
			 gi_u64 now)
{
	gi_u32 index = gi_vacancy(p);
	struct gi_server *s = gi_at(p, index);
	int unlimited = (gi_facts(kind) & GI_ENDLESS) != 0;

	now = gi_advance(p, now);
	if (index >= GI_CAPACITY)
		return GI_FULL;
	if (kind >= GI_KINDS || gi_facts(kind) & GI_BY_MODE || (p->order == GI_MIXED_CRITICALITY && !unlimited))
		return GI_BAD_KIND;
	if (!unlimited && (!budget || budget > period || period > GI_LAST))
		return GI_BAD_RESERVATION;
	if (!unlimited && first > GI_LAST)
		return GI_BAD_FIRST;
	gi_occupy(p, index, kind, priority);
	s->hi = p->order == GI_MIXED_CRITICALITY;
	if (!unlimited) {
		s->budget = budget;
		s->period = period;
		s->deadline = first ? first : now;
	}
	if (gi_is(s, GI_IN_CHUNKS)) {
		s->begun = s->deadline <= now;
		gi_append(s, s->deadline, budget);
	}
	gi_settle(s, now);
	gi_place(p, index);
	return (int)index;
}

/*
 * Adds a server of mixed criticality, idle, with its first job from now on, or out of budget until it is released at
 * `first`: of low criticality if `worst` is 0. `virtual_deadline` counts from a release, as the period does. Returns
 * its index or a gi_refusal.
 */
static inline int gi_add_mixed(struct gi_pool *p, gi_u64 optimistic, gi_u64 worst, gi_u64 period,
			       gi_u64 virtual_deadline, gi_u64 first, gi_u64 now)
{
	gi_u32 index = gi_vacancy(p);
	struct gi_server *s = gi_at(p, index);

	now = gi_advance(p, now);
	if (index >= GI_CAPACITY)
		return GI_FULL;
	if (p->order != GI_MIXED_CRITICALITY)
		return GI_BAD_KIND;
	if (!gi_mixed_fits(optimistic, worst, period, virtual_deadline))
		return GI_BAD_RESERVATION;
	if (first > GI_LAST)
		return GI_BAD_FIRST;
	gi_occupy(p, index, GI_MIXED, 0);
	s->high = worst != 0;
	s->hi = p->mode == GI_HI;
	s->more = worst ? worst - optimistic : 0;
	s->budget = optimistic + (s->hi ? s->more : 0);
	s->period = period;
	s->lead = period - virtual_deadline;
	s->begun = 1;
	s->deadline = first > now ? first : now;
	s->cut = first > now ? s->more : 0;
	gi_settle(s, now);
	gi_place(p, index);
	return (int)index;
}

/* How long a server that asked keeps a core of mixed criticality hot, in periods of its own, and when HI ends. */
static inline void gi_cooling(struct gi_pool *p, gi_u32 degrees, gi_u32 back)
{
	p->degrees = degrees;
	p->back = back;
}

/* The server's workload became ready or went idle. Unknown servers and no news are ignored. */
static inline void gi_ready(struct gi_pool *p, gi_u32 index, gi_u32 is_ready, gi_u64 now)
{
	struct gi_server *s = gi_at(p, index);

	now = gi_advance(p, now);
	if (!gi_exists(p, index) || s->ready == !!is_ready)
		return;
	gi_touch(p, index);
	gi_turn(s, is_ready, now);
	s->ready = !!is_ready;
	if (s->high)
		p->pending = s->ready ? p->pending + 1 : p->pending - 1;
	if (is_ready) {
		gi_refill(s, now);
		gi_wake(s, now);
	} else {
		gi_sleep(s, now);
	}
	gi_place(p, index);
}

/*
 * Ends boosts, replenishes what is due and assigns all cores; results in core[].runs and payer, until, and changed,
 * which is also returned. Idle servers whose budget nothing depends on are left alone: what became due is booked when
 * they wake. If more is due than one call books, no one gives way to a choice among half of it: until is now, and the
 * next call goes on.
 */
static inline gi_u64 gi_decide(struct gi_pool *p, gi_u64 now)
{
	gi_u32 i, top, boosts;

	now = gi_advance(p, now);
	boosts = p->boosts;
	for (i = 0; i < GI_CORES && i < boosts; i++) { /* the last first: ending one moves those after it */
		top = p->boost[(boosts - 1 - i) & (GI_CORES - 1u)];
		if (gi_at(p, top)->boost_until <= now)
			gi_unboost(p, top);
	}
	for (i = 0; i < GI_REFILLS; i++) {
		top = gi_top(p, GI_REFILL);
		if (top == GI_NONE || gi_at(p, top)->event > now)
			break;
		gi_refill(gi_at(p, top), now); /* what its core owes was charged: it is due */
		gi_place(p, top);
	}
	top = gi_top(p, GI_REFILL);
	p->until = p->refill = top == GI_NONE ? GI_NEVER : gi_at(p, top)->event;
	if (p->until <= now) {
		p->until = p->refill = now;
		p->changed = 0;
		return 0;
	}
	if (p->order == GI_MIXED_CRITICALITY) {
		gi_switch(p);
		top = gi_top(p, GI_REFILL);
		p->until = p->refill = top == GI_NONE ? GI_NEVER : gi_max(gi_at(p, top)->event, now);
	}
	gi_choose_all(p);
	gi_assign(p);
	gi_until(p);
	return p->changed;
}

/*
 * Shows a server as it stands at the pool's time, with what its core owes for it and what became due for it while it
 * was idle, in p->seen.
 */
static inline void gi_look(struct gi_pool *p, gi_u32 index)
{
	p->seen = *gi_at(p, index);
	gi_bill(p, &p->seen);
	gi_show(&p->seen, p->now);
}

#endif
