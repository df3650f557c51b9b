/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Who consumed what: charging and burning. */
#ifndef GIUSTO_POLICY_ACCOUNT_H
#define GIUSTO_POLICY_ACCOUNT_H

#include "../kinds/table.h"
#include "heap.h"

/* Whether there is such a server. */
static inline int gi_exists(struct gi_pool *p, gi_u32 index)
{
	return index < p->count && gi_at(p, index)->kind != GI_FREE;
}

/* Consumption up to an instant: from the budget, into debt. Boosted, what the budget does not cover is only counted. */
static inline void gi_pay(struct gi_server *s, gi_u64 ran)
{
	gi_u64 paid = s->boost_until ? gi_min(ran, gi_rest(s)) : ran;

	s->boost_ns += ran - paid;
	s->left -= (gi_s64)paid;
	if (gi_is(s, GI_IN_CHUNKS))
		s->used += paid;
}

/*
 * n whole periods, in each of which it ran throughout: as P >= B, no budget of theirs was capped. Boosted, each budget
 * that comes is paid, after the debt, but the last.
 */
static inline void gi_pay_periods(struct gi_server *s, gi_u64 n)
{
	gi_s64 budgets = s->left + (gi_s64)((n - 1) * s->budget);
	gi_u64 ran = n * s->period, paid = ran;

	if (s->boost_until)
		paid = budgets > 0 ? (gi_u64)budgets : 0;
	s->boost_ns += ran - paid;
	s->left -= (gi_s64)paid;
}

/*
 * A server that is replenished at its deadline and runs on past it is replenished whenever it runs out there; how
 * far is left to consume until it either runs out before its deadline, or its charge ends. Each such turn pays B and
 * moves the deadline by P, which gains P - B on it: the turns are counted, not walked.
 */
static inline gi_u64 gi_cbs_run_out(struct gi_server *s, gi_u64 ran, gi_u64 now)
{
	gi_u64 gap = s->period - s->budget, turns, part;

	if (s->next_budget && now - ran < s->deadline && s->deadline - (now - ran) <= gi_min(ran, gi_rest(s))) {
		part = s->deadline - (now - ran);
		gi_pay(s, part);
		ran -= part;
		gi_settle(s, now - ran); /* the change that waited is taken here */
	}
	if (s->left <= 0 || ran <= (gi_u64)s->left)
		return ran;
	part = (gi_u64)s->left;
	gi_pay(s, part);
	ran -= part;
	gi_settle(s, now - ran);
	if (s->left <= 0 || !s->budget || s->deadline - (now - ran) >= s->budget)
		return ran;
	turns =
	    (ran - gi_mixed_would_ask(s)) / s->budget; /* with nothing left at the end it is not replenished there */
	if (gap)
		turns = gi_min(turns, (s->budget - (s->deadline - (now - ran)) + gap - 1) / gap);
	s->deadline += turns * s->period;
	return ran - turns * s->budget;
}

/* As gi_settle, where `ran` is still to be paid. One that asks when nothing is waits for HI with the job that it has.
 */
static inline void gi_book(struct gi_server *s, gi_u64 ran, gi_u64 now)
{
	if (ran || s->hi || !gi_mixed_asks(s))
		gi_settle(s, now);
}

/*
 * The server ran for `ran`, taken as the last part of the time up to now, so that a charge that comes late over
 * replenishments is split at them. All that have a budget, but not in chunks.
 */
static inline void gi_consume_periods(struct gi_server *s, gi_u64 ran, gi_u64 now)
{
	gi_u64 part, n;

	gi_settle(s, now - ran);
	if (gi_is(s, GI_AT_DEADLINE))
		ran = gi_cbs_run_out(s, ran, now);
	if (now - ran < s->deadline && now >= s->deadline) { /* up to the first end of a period on its way */
		part = s->deadline - (now - ran);
		gi_pay(s, part);
		ran -= part;
		gi_book(s, ran, s->deadline);
	}
	if (now >= s->deadline &&
	    s->period) { /* whole periods: it ran back to the end of one, or it has no use for them */
		n = (now - s->deadline) / s->period + 1;
		if (ran / s->period >= n && ran == n * s->period + (now - s->deadline) % s->period) {
			gi_pay_periods(s, n);
			ran -= n * s->period;
			if (!ran && gi_is(s, GI_BY_MODE))
				gi_settle(s, now - 1); /* it may ask now: all but the last */
		}
		gi_book(s, ran, now);
	}
	gi_pay(s, ran);
	if (gi_is(s, GI_AT_DEADLINE))
		gi_book(s, 0, now); /* ran out at this instant, past its deadline */
}

/*
 * One whose budget is in chunks ran: one stretch of it, up to where a chunk becomes due or the head is used up; what is
 * left to consume then. Only boosted it matters where, as what the budget does not cover is not paid.
 */
GI_STEP gi_u64 gi_stretch(struct gi_server *s, gi_u64 ran, gi_u64 now)
{
	gi_u64 begin, end;
	gi_u32 i;

	if (!s || !ran)
		return 0;
	begin = now - ran;
	end = now;
	gi_sporadic_roll(s, begin);
	if (s->boost_until) {
		if (s->left > 0)
			end = gi_min(end, begin + s->chunk[0].amount - gi_min(s->used, s->chunk[0].amount));
		for (i = 0; i < GI_CHUNKS && i < s->chunks; i++)
			if (s->chunk[i].time > begin)
				end = gi_min(end, s->chunk[i].time);
	}
	gi_pay(s, end - begin);
	gi_sporadic_roll(s, end);
	return now - end;
}

/* The server ran for `ran`, taken as the last part of the time up to now. */
GI_STEP gi_u32 gi_consume(struct gi_server *s, gi_u64 ran, gi_u64 now)
{
	gi_u32 i;

	if (!s)
		return 0;
	if (gi_is(s, GI_IN_CHUNKS)) {
		for (i = 0; i < GI_STRETCHES && ran; i++)
			ran = gi_stretch(s, ran, now);
		s->boost_ns += ran;
	} else if (!gi_is(s, GI_ENDLESS)) {
		gi_consume_periods(s, ran, now);
	}
	return 0;
}

/* Which heap it belongs in, of those in the pool's order. */
static inline gi_u32 gi_home(const struct gi_server *s)
{
	if (gi_boosted(s))
		return GI_OUTSIDE;
	if (s->ready && !s->high && (s->hi || (gi_is(s, GI_BY_MODE) && s->left <= 0)))
		return GI_LAST_RESORT;
	if (s->ready && (s->left > 0 || gi_is(s, GI_ENDLESS)))
		return GI_READY;
	if (s->ready)
		return gi_is(s, GI_LENDS) || s->high ? GI_DRY : GI_OUTSIDE;
	return gi_is(s, GI_BURNS) && s->left > 0 ? GI_IDLE : GI_OUTSIDE;
}

/* When a decision has to replenish it. What idles is booked when it wakes, unless its place or its burning depends on
 * it. */
static inline gi_u64 gi_event(const struct gi_pool *p, const struct gi_server *s)
{
	int full = s->left == (gi_s64)s->budget;
	gi_u64 change = GI_NEVER;

	if (gi_is(s, GI_ENDLESS))
		return GI_NEVER;
	if (s->next_budget)
		change = gi_is(s, GI_IN_CHUNKS) ? s->next_at : s->deadline;
	if (gi_is(s, GI_BURNS) && (s->ready || p->order == GI_EDF || !full))
		return s->deadline;
	if (!s->ready || gi_is(s, GI_BURNS))
		return change;
	if (gi_is(s, GI_BY_MODE) && !s->hi && gi_mixed_asks(s))
		return change; /* it waits for HI, which the next decision begins */
	if (gi_is(s, GI_ON_GRID))
		return s->deadline;
	if (s->left > 0)
		return change;
	return gi_is(s, GI_IN_CHUNKS) ? gi_min(change, s->chunk[0].time) : s->deadline;
}

/* Its place in the pool's order: the smaller goes first. */
static inline gi_u64 gi_rank(const struct gi_pool *p, const struct gi_server *s)
{
	if (p->order == GI_MIXED_CRITICALITY)
		return gi_is(s, GI_BY_MODE) ? gi_mixed_rank(s) : GI_NEVER;
	return p->order == GI_EDF ? s->deadline : s->priority;
}

/* The core that a server has is looked at by the next decision, and charged with every call until then. */
static inline void gi_notice(struct gi_pool *p, const struct gi_server *s)
{
	if (s->core)
		p->look |= 1ull << ((s->core - 1) & (GI_CORES - 1u));
}

/* Takes a server out of a list of n, in which it is once at most; how many it was taken out of. */
static inline gi_u32 gi_strike(gi_u32 *list, gi_u32 n, gi_u32 index)
{
	gi_u32 i, found = 0;

	for (i = 0; i < GI_CORES && i < n; i++) {
		found |= list[i] == index;
		if (found && i + 1 < GI_CORES)
			list[i] = list[i + 1];
	}
	return found;
}

/* Takes a server out of FIRST. */
static inline void gi_drop(struct gi_pool *p, gi_u32 index)
{
	struct gi_server *s = gi_at(p, index);

	gi_delete(p, GI_FIRST, index);
	s->heap = GI_OUTSIDE;
	if (s->home == GI_IDLE)
		p->resting -= gi_strike(p->rest, p->resting, index);
	gi_notice(p, s);
}

/* Puts a server that may have changed where it belongs. One of FIRST stays there if it has not. */
GI_STEP gi_u32 gi_place(struct gi_pool *p, gi_u32 index)
{
	struct gi_server *s;
	gi_u32 home, asks;
	gi_u64 rank, event;

	if (!p)
		return 0;
	s = gi_at(p, index);
	home = gi_home(s);
	rank = gi_rank(p, s);
	asks = (gi_u32)gi_mixed_asks(s);
	p->asking += asks - s->asks;
	s->asks = asks;
	if (s->heap == GI_FIRST && home == s->home && rank == s->rank)
		home = GI_FIRST;
	else if (s->heap == GI_FIRST)
		gi_drop(p, index);
	if (home != s->heap) {
		if (s->heap != GI_OUTSIDE)
			gi_delete(p, s->heap, index);
		s->heap = home;
		s->rank = rank;
		if (home != GI_OUTSIDE)
			gi_insert(p, home, index);
	} else if (rank != s->rank) {
		s->rank = rank;
		if (home != GI_OUTSIDE)
			gi_sift(p, home, s->at[0]);
	}
	event = gi_event(p, s);
	if (event == s->event)
		return 0;
	if (event == GI_NEVER) {
		gi_delete(p, GI_REFILL, index);
		s->event = event;
	} else if (s->event == GI_NEVER) {
		s->event = event;
		gi_insert(p, GI_REFILL, index);
	} else {
		s->event = event;
		gi_sift(p, GI_REFILL, s->at[1]);
	}
	return 0;
}

/* Idle consumption is wall time, up to the burner's own replenishment. */
GI_STEP gi_u32 gi_burn(struct gi_pool *p, gi_u32 nth, gi_u64 now)
{
	struct gi_server *s;
	gi_u64 end;
	gi_u32 index;

	if (!p)
		return 0;
	index = p->burner[nth & (GI_CORES - 1u)];
	s = gi_at(p, index);
	end = gi_min(now, s->deadline);
	if (s->ready || end <= p->burned)
		return 0;
	s->left -= (gi_s64)gi_min(end - p->burned, gi_rest(s));
	return gi_place(p, index);
}

/* The pool's time: now, unless it has seen a later one. Burners burn up to it. */
GI_STEP gi_u64 gi_tick(struct gi_pool *p, gi_u64 now)
{
	gi_u32 i;

	if (!p)
		return now;
	now = gi_min(now, GI_LAST);
	if (now <= p->now)
		return p->now;
	for (i = 0; i < GI_CORES && i < p->burners; i++)
		gi_burn(p, i, now);
	p->burned = p->now = now;
	return now;
}

/* Charges what runs on a core, up to a time, `ran` of it at most. */
GI_STEP gi_u32 gi_account(struct gi_pool *p, gi_u32 core, gi_u64 ran, gi_u64 to)
{
	struct gi_core *c;

	if (!p || core >= p->m)
		return 0;
	c = &p->core[core & (GI_CORES - 1u)];
	if (to <= c->charged_at)
		return 0;
	ran = gi_min(ran, to - c->charged_at);
	c->charged_at = to;
	if (c->payer >= p->count)
		return 0;
	p->look |= 1ull << (core & (GI_CORES - 1u));
	if (!ran)
		return 0;
	gi_consume(gi_at(p, c->payer), ran, to);
	return gi_place(p, c->payer);
}

/* Charges a copy of a server with what its core owes for it. */
static inline void gi_bill(const struct gi_pool *p, struct gi_server *copy)
{
	const struct gi_core *c;

	if (!copy->core)
		return;
	c = &p->core[(copy->core - 1) & (GI_CORES - 1u)];
	if (c->payer != GI_NONE && c->charged_at < p->full)
		gi_consume(copy, p->full - c->charged_at, p->full);
}

/* What its core owes for a server is charged: something is about to depend on it. */
GI_STEP gi_u32 gi_touch(struct gi_pool *p, gi_u32 index)
{
	if (!p || !gi_at(p, index)->core)
		return 0;
	gi_notice(p, gi_at(p, index));
	return gi_account(p, gi_at(p, index)->core - 1, GI_NEVER, p->full);
}

/*
 * The core's server really ran for `ran` since the last call that was not about another core: less than the time that
 * passed if it slept or the time was stolen. The other cores are not charged.
 */
static inline void gi_charge(struct gi_pool *p, gi_u32 core, gi_u64 ran, gi_u64 now)
{
	gi_account(p, core, GI_NEVER, p->full);
	gi_tick(p, now);
	gi_account(p, core, ran, p->now);
}

/*
 * Brings the pool to now, which is returned. Time that was not charged counts as if the payers ran throughout; it is
 * charged where a budget ends or a server has changed.
 */
GI_STEP gi_u64 gi_advance(struct gi_pool *p, gi_u64 now)
{
	gi_u32 i;

	if (!p)
		return now;
	p->full = now = gi_tick(p, now);
	if (p->look || p->due <= now)
		for (i = 0; i < GI_CORES && i < p->m; i++)
			if (p->look >> i & 1 || p->core[i].ends <= now)
				gi_account(p, i, GI_NEVER, now);
	return now;
}

#endif
