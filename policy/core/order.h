/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The whole order of a pool, as the last decision left it: who may run, highest first, the idle among them, for drivers
 * whose mechanism carries it out by itself between two decisions, as the kernel's real-time classes do.
 *
 * Going down the order, each that is ready takes a core, and so does an idle strict server that burns (GI_KEEPS), until
 * the cores are used up: those are the servers that gi_decide chose. If one of them falls asleep or another wakes, the
 * same walk says who runs until the next decision. An idle server has the place that it would have if it woke with what
 * it has. First the ready boosted; then those with budget; then who was chosen for a lent budget without having one. By
 * criticality as criticality.h says: those marked GI_LEFTOVERS have no claim to the core, but are in order, too.
 *
 * Servers below the last core that is kept are left out: none of them can run. O(n log n) for n servers.
 */
#ifndef GIUSTO_POLICY_ORDER_H
#define GIUSTO_POLICY_ORDER_H

#include "change.h"
#include "choose.h"

static inline void gi_next_place(struct gi_pool *p, gi_u32 index, gi_u32 mark)
{
	p->place[p->placed++ & (GI_CAPACITY - 1u)] = index | mark;
}

/* Whether the last decision left its core to it although it is idle. */
static inline int gi_keeps(const struct gi_pool *p, const struct gi_server *s, gi_u32 index)
{
	gi_u32 i, burns = 0;

	for (i = 0; i < GI_CORES && i < p->burners; i++)
		burns |= p->burner[i] == index;
	return burns && !s->ready && !gi_is(s, GI_GIVES_WAY);
}

/* A server whose heap would be this one if it were awake: how it would stand then is in p->seen. */
GI_STEP gi_u32 gi_enlist(struct gi_pool *p, gi_u32 index, gi_u32 heap)
{
	struct gi_server *s;

	if (!p)
		return 0;
	s = gi_at(p, index);
	if (s->kind == GI_FREE || gi_boosted(s))
		return 0;
	p->seen = *s;
	if (!s->ready)
		gi_show(&p->seen, p->now);
	p->seen.ready = 1;
	p->seen.boost_until = 0;
	if (gi_home(&p->seen) != heap)
		return 0;
	s->place = gi_rank(p, &p->seen);
	s->mark = gi_keeps(p, s, index) ? GI_KEEPS : 0;
	if (p->order == GI_MIXED_CRITICALITY && !s->high && p->seen.left <= 0)
		s->mark = GI_LEFTOVERS;
	gi_insert(p, GI_PLACES, index);
	return 1;
}

/* The first of those that were enlisted gets its place; how many cores are left for those after it. */
GI_STEP gi_u32 gi_take_place(struct gi_pool *p, gi_u32 cores)
{
	gi_u32 first;

	if (!p)
		return 0;
	first = gi_top(p, GI_PLACES);
	gi_delete(p, GI_PLACES, first);
	gi_next_place(p, first, gi_at(p, first)->mark);
	return gi_at(p, first)->mark == GI_KEEPS ? cores - 1 : cores;
}

/* All whose heap would be this one, while places and cores last; how many cores are left then. */
GI_STEP gi_u32 gi_take_places(struct gi_pool *p, gi_u32 heap, gi_u32 cores, gi_u32 capacity)
{
	gi_u32 i;

	if (!p)
		return 0;
	for (i = 0; i < GI_CAPACITY && i < p->count; i++)
		gi_enlist(p, i, heap);
	for (i = 0; i < GI_CAPACITY && cores && p->placed < capacity; i++) {
		if (gi_top(p, GI_PLACES) == GI_NONE)
			break;
		cores = gi_take_place(p, cores);
	}
	gi_clear(p, GI_PLACES);
	return cores;
}

/* A place for the nth of the boosted, if it is ready. */
GI_STEP gi_u32 gi_place_boosted(struct gi_pool *p, gi_u32 nth)
{
	gi_u32 index;

	if (!p)
		return 0;
	index = p->boost[nth & (GI_CORES - 1u)];
	if (gi_at(p, index)->ready)
		gi_next_place(p, index, 0);
	return 0;
}

/* A place for the nth of the chosen, if it runs on a lent budget without having one. */
GI_STEP gi_u32 gi_place_borrower(struct gi_pool *p, gi_u32 nth)
{
	const struct gi_server *s;
	gi_u32 index;

	if (!p)
		return 0;
	index = p->choice[nth & (GI_CORES - 1u)];
	s = gi_at(p, index);
	if (!p->pays[nth & (GI_CORES - 1u)] && s->ready && !s->boost_until && s->left <= 0)
		gi_next_place(p, index, 0);
	return 0;
}

/*
 * The first `capacity` of the order, or all if there are fewer: `placed` of them, in `place`. Asked at the time of the
 * last decision; overwrites what gi_look shows. Returns how many.
 */
static inline gi_u32 gi_order(struct gi_pool *p, gi_u32 capacity)
{
	gi_u32 i, cores;

	capacity = capacity < GI_CAPACITY ? capacity : GI_CAPACITY;
	p->placed = 0;
	for (i = 0; i < GI_CORES && i < p->boosts && p->placed < capacity; i++)
		gi_place_boosted(p, i);
	cores = gi_take_places(p, GI_READY, p->m, capacity);
	if (p->order == GI_MIXED_CRITICALITY) {
		cores = gi_take_places(p, GI_DRY, cores, capacity);
		gi_take_places(p, GI_LAST_RESORT, cores, capacity);
		return p->placed;
	}
	for (i = 0; i < GI_CORES && i < p->chosen && cores && p->placed < capacity; i++)
		gi_place_borrower(p, i);
	return p->placed;
}

#endif
