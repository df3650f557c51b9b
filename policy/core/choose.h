/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Who runs ([Lee11, Algorithm 2], for any number of cores and mixed kinds).
 *
 * First the boosted. Then F, the first in the pool's order among the ready with budget and the idle periodic with
 * budget, as many as cores are left. Ready members run and pay. Idle members burn, and what becomes of their core
 * depends on the kind: strict, it stays empty; else the next ready server with budget after F has it, and pays too,
 * unless both are reclaiming; else, if the burner is reclaiming, the next ready reclaiming server that has no budget.
 * In the order of mixed criticality: criticality.h.
 *
 * F stays from one decision to the next, in a heap (GI_FIRST) with the last of it on top: a decision takes in who has
 * come before that one, and looks at those cores alone whose servers have changed, are boosted or run on a lent budget.
 */
#ifndef GIUSTO_POLICY_CHOOSE_H
#define GIUSTO_POLICY_CHOOSE_H

#include "criticality.h"

/* The next server of a heap that has not been chosen. A chosen one is taken out only when this looks past it. */
GI_STEP gi_u32 gi_next(struct gi_pool *p, gi_u32 heap)
{
	gi_u32 top;

	if (!p)
		return GI_NONE;
	if (p->looked_past >> heap & 1) {
		top = gi_top(p, heap);
		gi_delete(p, heap, top);
		gi_at(p, top)->heap = GI_OUTSIDE;
		p->out[p->taken++ & (GI_CORES - 1u)] = top;
		p->looked_past &= ~(1u << heap);
	}
	return gi_top(p, heap);
}

static inline void gi_choose(struct gi_pool *p, gi_u32 index, gi_u32 pays)
{
	gi_u32 n = p->chosen & (GI_CORES - 1u);

	p->choice[n] = index;
	p->pays[n] = pays;
	gi_at(p, index)->slot = ++p->chosen;
	gi_notice(p, gi_at(p, index));
}

static inline void gi_choose_from(struct gi_pool *p, gi_u32 heap, gi_u32 index, gi_u32 pays)
{
	p->looked_past |= 1u << heap;
	gi_choose(p, index, pays);
}

/* A core for the nth of the boosted, if it is ready and a core is left; how many are left then. */
GI_STEP gi_u32 gi_choose_boosted(struct gi_pool *p, gi_u32 nth, gi_u32 left)
{
	gi_u32 index;

	if (!p || !left)
		return left;
	index = p->boost[nth & (GI_CORES - 1u)];
	if (!gi_at(p, index)->ready)
		return left;
	gi_choose(p, index, 1);
	return left - 1;
}

/* The first of those who are not in F, or GI_NONE. */
static inline gi_u32 gi_first_outside(struct gi_pool *p)
{
	gi_u32 ready = gi_top(p, GI_READY), idle = gi_top(p, GI_IDLE);

	if (ready == GI_NONE || (idle != GI_NONE && gi_before(p, GI_IDLE, idle, ready)))
		return idle;
	return ready;
}

/* The last of F goes back to those outside it. */
GI_STEP gi_u32 gi_leave_first(struct gi_pool *p)
{
	gi_u32 last;

	if (!p)
		return 0;
	last = gi_top(p, GI_FIRST);
	gi_drop(p, last);
	return gi_place(p, last);
}

/* An idle member of F gets its place among those. */
static inline void gi_rest_in_order(struct gi_pool *p, gi_u32 index)
{
	gi_u32 i, held = index, other;

	for (i = 0; i < GI_CORES && i < p->resting; i++) {
		other = p->rest[i];
		if (gi_before(p, GI_FIRST, other, held))
			continue;
		p->rest[i] = held;
		held = other;
	}
	p->rest[p->resting++ & (GI_CORES - 1u)] = held;
}

/* Takes the first of those outside into F, in whose place there is none or a later one; false if there is none such. */
GI_STEP gi_u32 gi_join_first(struct gi_pool *p, gi_u32 cores)
{
	struct gi_server *s;
	gi_u32 index, last;

	if (!p)
		return 0;
	index = gi_first_outside(p);
	if (index == GI_NONE || !cores)
		return 0;
	if (gi_filled(p, GI_FIRST) >= cores) {
		last = gi_top(p, GI_FIRST);
		if (!gi_before(p, GI_FIRST, index, last))
			return 0;
		gi_leave_first(p);
	}
	s = gi_at(p, index);
	gi_delete(p, s->heap, index);
	s->home = s->heap;
	s->heap = GI_FIRST;
	gi_insert(p, GI_FIRST, index);
	if (s->ready)
		gi_choose(p, index, 1);
	else
		gi_rest_in_order(p, index);
	return 1;
}

/* F, for so many cores: who joins it does so in order, and none of those has to leave again. */
static inline void gi_choose_first(struct gi_pool *p, gi_u32 cores)
{
	gi_u32 i;

	for (i = 0; i < GI_CORES && gi_filled(p, GI_FIRST) > cores; i++)
		gi_leave_first(p);
	for (i = 0; i < GI_CORES; i++)
		if (!gi_join_first(p, cores))
			break;
}

/* The nth of the idle in F burns, and its core goes to another, if it gives way. */
GI_STEP gi_u32 gi_choose_lent(struct gi_pool *p, gi_u32 nth)
{
	gi_u32 next, index, kind;

	if (!p)
		return 0;
	index = p->rest[nth & (GI_CORES - 1u)];
	kind = gi_at(p, index)->kind;
	gi_settle(gi_at(p, index), p->now); /* one that was full was left alone: where its period ends */
	p->burner[nth & (GI_CORES - 1u)] = index;
	if (!(gi_facts(kind) & GI_GIVES_WAY))
		return 0;
	next = gi_next(p, GI_READY);
	if (next != GI_NONE) {
		gi_choose_from(p, GI_READY, next, !(gi_facts(kind) & GI_LENDS) || !gi_is(gi_at(p, next), GI_LENDS));
		return 1;
	}
	if (!(gi_facts(kind) & GI_LENDS))
		return 0;
	next = gi_next(p, GI_DRY);
	if (next != GI_NONE)
		gi_choose_from(p, GI_DRY, next, 0);
	return next != GI_NONE;
}

/* Who has the core in the order of mixed criticality, if no boosted server has it. */
GI_STEP gi_u32 gi_choose_by_criticality(struct gi_pool *p)
{
	struct gi_server *s;
	gi_u32 top;

	if (!p)
		return 0;
	top = gi_top(p, GI_READY);
	if (top == GI_NONE)
		top = gi_top(p, GI_DRY);
	if (top == GI_NONE)
		top = gi_top(p, GI_LAST_RESORT);
	if (top == GI_NONE)
		return 0;
	s = gi_at(p, top);
	gi_choose(p, top, s->left > 0 || gi_is(s, GI_ENDLESS));
	if (s->asks && !s->heated && s->left > 0)
		gi_heat(p, s);
	return 1;
}

GI_STEP gi_u32 gi_choose_all(struct gi_pool *p)
{
	gi_u32 i, left;

	if (!p)
		return 0;
	p->chosen = p->burners = p->taken = p->looked_past = 0;
	p->look |= p->guests;
	left = p->m;
	for (i = 0; i < GI_CORES && i < p->boosts; i++)
		left = gi_choose_boosted(p, i, left);
	if (p->order == GI_MIXED_CRITICALITY) {
		if (left)
			gi_choose_by_criticality(p);
		return p->chosen;
	}
	gi_choose_first(p, left);
	p->burners = p->resting;
	for (i = 0; i < GI_CORES && i < p->burners; i++)
		gi_choose_lent(p, i);
	for (i = 0; i < GI_CORES && i < p->taken; i++)
		gi_place(p, p->out[i]);
	return p->chosen;
}

/* The server of a core keeps it if it is in F or among the chosen. */
GI_STEP gi_u32 gi_keep(struct gi_pool *p, gi_u32 core)
{
	struct gi_server *s;
	struct gi_core *c;

	if (!p)
		return 0;
	c = &p->core[core & (GI_CORES - 1u)];
	if (c->runs == GI_NONE)
		return 0;
	gi_account(p, core, GI_NEVER, p->now);
	s = gi_at(p, c->runs);
	if (s->slot) {
		c->payer = p->pays[(s->slot - 1) & (GI_CORES - 1u)] ? c->runs : GI_NONE;
		s->slot = 0;
		p->guests |= (gi_u64)(s->heap != GI_FIRST) << (core & (GI_CORES - 1u));
		return 0;
	}
	if (s->heap == GI_FIRST && s->ready)
		return 0;
	s->core = 0;
	c->runs = c->payer = GI_NONE;
	p->changed |= 1ull << (core & (GI_CORES - 1u));
	return 0;
}

/* The nth of the chosen gets the first free core from `core` on, unless it has kept its own; where to look next. */
GI_STEP gi_u32 gi_give(struct gi_pool *p, gi_u32 nth, gi_u32 core)
{
	struct gi_server *s;
	struct gi_core *c;
	gi_u32 i;

	if (!p)
		return core;
	s = gi_at(p, p->choice[nth & (GI_CORES - 1u)]);
	if (!s->slot)
		return core;
	s->slot = 0;
	for (i = 0; i < GI_CORES && p->core[core & (GI_CORES - 1u)].runs != GI_NONE; i++)
		core++;
	c = &p->core[core & (GI_CORES - 1u)];
	c->charged_at = p->now;
	c->runs = p->choice[nth & (GI_CORES - 1u)];
	c->payer = p->pays[nth & (GI_CORES - 1u)] ? c->runs : GI_NONE;
	s->core = 1 + (core & (GI_CORES - 1u));
	gi_notice(p, s);
	p->guests |= (gi_u64)(s->heap != GI_FIRST) << (core & (GI_CORES - 1u));
	p->changed |= 1ull << (core & (GI_CORES - 1u));
	return core;
}

/* A server that ran keeps its core; the others take the free ones in order. */
GI_STEP gi_u32 gi_assign(struct gi_pool *p)
{
	gi_u32 i, core = 0;

	if (!p)
		return 0;
	p->changed = p->vacated;
	p->vacated = p->guests = 0;
	for (i = 0; i < GI_CORES && i < p->m; i++)
		if (p->look >> i & 1)
			gi_keep(p, i);
	for (i = 0; i < GI_CORES && i < p->chosen; i++)
		core = gi_give(p, i, core);
	return 0;
}

/* When the budget of a core's payer ends or is replenished; the core stays in `look` if that is not certain. */
GI_STEP gi_u32 gi_foresee(struct gi_pool *p, gi_u32 core)
{
	struct gi_server *s;
	struct gi_core *c;
	gi_u64 rest;

	if (!p)
		return 0;
	c = &p->core[core & (GI_CORES - 1u)];
	c->ends = GI_NEVER;
	p->look &= ~(1ull << (core & (GI_CORES - 1u)));
	if (c->payer == GI_NONE)
		return 0;
	s = gi_at(p, c->payer);
	if (gi_is(s, GI_IN_CHUNKS) || gi_is(s, GI_BY_MODE) || s->boost_until)
		gi_notice(p, s);
	if (gi_is(s, GI_ENDLESS) || s->boost_until)
		return 0;
	if (gi_is(s, GI_IN_CHUNKS))
		gi_settle(s, p->now); /* chunks became due while it waited */
	rest = gi_is(s, GI_BY_MODE) ? gi_mixed_rest(s) : gi_rest(s);
	if (gi_is(s, GI_IN_CHUNKS) && p->order == GI_EDF && s->used < s->chunk[0].amount)
		rest = gi_min(rest, s->chunk[0].amount - s->used); /* then its deadline moves */
	c->ends = gi_min(p->now + rest, s->event);
	return 0;
}

/* When a budget that is being used ends, at the earliest. */
GI_STEP gi_u32 gi_until(struct gi_pool *p)
{
	struct gi_server *s;
	gi_u32 i;

	if (!p)
		return 0;
	p->due = GI_NEVER;
	for (i = 0; i < GI_CORES && i < p->m; i++) {
		if (p->look >> i & 1)
			gi_foresee(p, i);
		p->due = gi_min(p->due, p->core[i].ends);
	}
	p->until = gi_min(p->until, p->due);
	for (i = 0; i < GI_CORES && i < p->burners; i++) {
		s = gi_at(p, p->burner[i]);
		p->until = gi_min(p->until, gi_min(p->now + gi_rest(s), s->deadline));
	}
	for (i = 0; i < GI_CORES && i < p->boosts; i++)
		p->until = gi_min(p->until, gi_at(p, p->boost[i])->boost_until);
	p->until = gi_min(p->until, gi_cool(p));
	return 0;
}

#endif
