/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Changes of a reservation, boosts (M2-Xen), and what a server owes. */
#ifndef GIUSTO_POLICY_CHANGE_H
#define GIUSTO_POLICY_CHANGE_H

#include "account.h"

/* Another budget on the same grid: left' = left + B' - B. */
static inline void gi_resize(struct gi_server *s, gi_u64 budget, gi_u64 now)
{
	gi_u64 more = budget > s->budget ? budget - s->budget : 0, less = s->budget - budget + more;

	s->budget = budget;
	if (gi_is(s, GI_IN_CHUNKS)) {
		if (more)
			gi_sporadic_grow(s, more, now);
		else
			gi_sporadic_shrink(s, less);
		return;
	}
	if (!s->begun)
		return;
	gi_adjust(s, more, less);
	if (gi_is(s, GI_LOSES) && !s->ready && s->left > 0 && s->open != now)
		s->left = 0;
}

/* A new period makes a new grid from now on. */
static inline void gi_change_now(struct gi_server *s, gi_u64 budget, gi_u64 period, gi_u64 now)
{
	int regrid = period != s->period;

	s->next_budget = 0;
	if (budget != s->budget)
		gi_resize(s, budget, now);
	else if (!regrid)
		return;
	s->period = period;
	if (gi_is(s, GI_ON_GRID) && regrid && s->begun)
		s->deadline = now + period;
	gi_changed(s, now);
}

/* Books what is due, with a change of a sporadic server that waited for its deadline of then. */
static inline void gi_refill(struct gi_server *s, gi_u64 now)
{
	if (!gi_is(s, GI_IN_CHUNKS)) {
		gi_settle(s, now);
		return;
	}
	gi_sporadic_roll(s, now);
	if (s->next_budget && now >= s->next_at)
		gi_change_now(s, s->next_budget, s->next_period, now);
}

/* What a server owes: consumed beyond the budgets that it has had. */
static inline gi_u64 gi_debt(const struct gi_server *s)
{
	if (gi_is(s, GI_IN_CHUNKS))
		return s->used;
	return s->left < 0 ? (gi_u64)(-s->left - (gi_s64)s->forgive) : 0;
}

/* What it had beside its core's charges, at the pool's time: from what is left, and then from its next budgets. */
GI_STEP gi_u32 gi_incur(struct gi_pool *p, gi_u32 index, gi_u64 ran)
{
	struct gi_server *s;
	gi_u32 i;

	if (!p)
		return 0;
	s = gi_at(p, index);
	gi_touch(p, index);
	gi_refill(s, p->now);
	gi_pay(s, gi_min(ran, p->now - gi_min(gi_debt(s), p->now)));
	for (i = 0; i < GI_REFILLS / GI_CHUNKS && gi_is(s, GI_IN_CHUNKS); i++)
		if (!gi_sporadic_roll(s, p->now))
			break;
	gi_refill(s, p->now); /* ran out at this instant, past its deadline */
	return gi_place(p, index);
}

/*
 * The server had the processor for `ran` besides what its core is charged for: it ran on while it was being stopped, or
 * on a core of another pool. It pays, into debt, which is never longer than the pool's time. One without a budget, and
 * one of mixed criticality, which may run on what is left over, owes nothing.
 */
static inline void gi_owe(struct gi_pool *p, gi_u32 index, gi_u64 ran, gi_u64 now)
{
	const struct gi_server *s = gi_at(p, index);

	gi_advance(p, now);
	if (gi_exists(p, index) && !gi_is(s, GI_ENDLESS) && !gi_is(s, GI_BY_MODE))
		gi_incur(p, index, ran);
}

/* What became due while it was idle, for those who look: what an idle polling server keeps for this instant is not its
 * own. */
GI_STEP gi_u32 gi_show(struct gi_server *s, gi_u64 now)
{
	if (!s)
		return 0;
	gi_refill(s, now);
	if (gi_is(s, GI_LOSES) && !s->ready && s->left > 0)
		s->left = 0;
	return 0;
}

/*
 * Changes a reservation at once or from the next period on, where one change waits at most. The priority changes at
 * once or not at all. Returns 0 or a gi_refusal. For an unlimited server only the priority counts.
 */
static inline int gi_set(struct gi_pool *p, gi_u32 index, gi_u64 budget, gi_u64 period, gi_u32 priority, gi_u32 when,
			 gi_u64 now)
{
	struct gi_server *s = gi_at(p, index);

	now = gi_advance(p, now);
	if (!gi_exists(p, index))
		return GI_UNKNOWN;
	gi_touch(p, index);
	if (!gi_is(s, GI_ENDLESS)) {
		if (gi_is(s, GI_BY_MODE))
			return GI_BAD_KIND;
		if (!budget || budget > period || period > GI_LAST)
			return GI_BAD_RESERVATION;
		if (budget == s->budget && period == s->period && !s->next_budget &&
		    (when != GI_NOW || priority == s->priority))
			return 0; /* to the present parameters: nothing, not even booking */
		if (when != GI_NOW && gi_is(s, GI_AT_DEADLINE) && !s->ready && !s->next_budget) {
			s->next_budget = budget; /* idle and past its deadline, at once: as if asked for there */
			s->next_period = period;
		}
		gi_refill(s, now);
		if (when == GI_NOW) {
			gi_change_now(s, budget, period, now);
		} else {
			s->next_budget = budget == s->budget && period == s->period ? 0 : budget;
			s->next_period = period;
			s->next_at = s->deadline;
			if (s->next_budget && gi_is(s, GI_AT_DEADLINE) && !s->ready)
				gi_settle(s, now); /* idle and past its deadline */
		}
	}
	if (when == GI_NOW)
		s->priority = priority;
	gi_place(p, index);
	return 0;
}

/* As gi_set, of a server of mixed criticality, which stays high or low. */
static inline int gi_set_mixed(struct gi_pool *p, gi_u32 index, gi_u64 optimistic, gi_u64 worst, gi_u64 period,
			       gi_u64 virtual_deadline, gi_u32 when, gi_u64 now)
{
	struct gi_server *s = gi_at(p, index);
	gi_u64 lead;

	now = gi_advance(p, now);
	if (!gi_exists(p, index))
		return GI_UNKNOWN;
	if (!gi_is(s, GI_BY_MODE) || s->high != (worst != 0))
		return GI_BAD_KIND;
	if (!gi_mixed_fits(optimistic, worst, period, virtual_deadline))
		return GI_BAD_RESERVATION;
	lead = period - virtual_deadline;
	gi_touch(p, index);
	if (gi_mixed_is(s, optimistic, worst, period, lead) && !s->next_budget)
		return 0;
	gi_refill(s, now);
	s->next_budget = 0;
	if (when == GI_NOW) {
		gi_mixed_change(s, optimistic, worst, period, lead, now);
	} else if (!gi_mixed_is(s, optimistic, worst, period, lead)) {
		s->next_budget = optimistic;
		s->next_more = worst ? worst - optimistic : 0;
		s->next_period = period;
		s->next_lead = lead;
	}
	gi_place(p, index);
	return 0;
}

GI_STEP gi_u32 gi_unboost(struct gi_pool *p, gi_u32 index)
{
	if (!p)
		return 0;
	p->boosts -= gi_strike(p->boost, p->boosts, index);
	gi_at(p, index)->boost_until = 0;
	return gi_place(p, index);
}

/*
 * Above all others until then, first come first served, on its budget and beyond. Boosting again moves the end, not the
 * place. Returns 0 or a gi_refusal: at most as many as there are cores.
 */
static inline int gi_boost(struct gi_pool *p, gi_u32 index, gi_u64 until, gi_u64 now)
{
	struct gi_server *s = gi_at(p, index);

	now = gi_advance(p, now);
	if (!gi_exists(p, index))
		return GI_UNKNOWN;
	if (until > now && !s->boost_until && p->boosts >= p->m)
		return GI_FULL;
	gi_touch(p, index);
	gi_refill(s, now);
	if (until <= now) {
		gi_unboost(p, index);
		return 0;
	}
	if (!s->boost_until)
		p->boost[p->boosts++ & (GI_CORES - 1u)] = index;
	s->boost_until = until;
	gi_place(p, index);
	return 0;
}

#endif
