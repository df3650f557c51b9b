/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Binary heaps of server indices. One step of a sift is a function of its own, or the BPF verifier gives up. */
#ifndef GIUSTO_POLICY_HEAP_H
#define GIUSTO_POLICY_HEAP_H

#include "types.h"

/* Which of a server's places is the one in this heap. */
static inline gi_u32 gi_which(gi_u32 heap)
{
	return heap == GI_REFILL ? 1 : heap == GI_PLACES ? 2 : 0;
}

static inline gi_u64 gi_key(const struct gi_server *s, gi_u32 heap)
{
	return heap == GI_REFILL ? s->event : heap == GI_PLACES ? s->place : s->rank;
}

static inline gi_u32 gi_member(const struct gi_pool *p, gi_u32 heap, gi_u32 at)
{
	return p->heap[heap & (GI_ALL_HEAPS - 1u)][at & (GI_CAPACITY - 1u)];
}

static inline gi_u32 gi_filled(const struct gi_pool *p, gi_u32 heap)
{
	return p->filled[heap & (GI_ALL_HEAPS - 1u)];
}

static inline void gi_seat(struct gi_pool *p, gi_u32 heap, gi_u32 at, gi_u32 index)
{
	p->heap[heap & (GI_ALL_HEAPS - 1u)][at & (GI_CAPACITY - 1u)] = (gi_u16)index;
	gi_at(p, index)->at[gi_which(heap)] = at;
}

/* Who of two comes first: the smaller key, then the smaller index. */
static inline int gi_before(struct gi_pool *p, gi_u32 heap, gi_u32 a, gi_u32 b)
{
	gi_u64 of_a = gi_key(gi_at(p, a), heap), of_b = gi_key(gi_at(p, b), heap);

	return of_a < of_b || (of_a == of_b && a < b);
}

/* Who of two is nearer to the top: in FIRST, who comes last. */
static inline int gi_above(struct gi_pool *p, gi_u32 heap, gi_u32 a, gi_u32 b)
{
	return heap == GI_FIRST ? gi_before(p, heap, b, a) : gi_before(p, heap, a, b);
}

/* Swaps a member with its parent, or with the first of its children, if they are in the wrong order; where it is now.
 */
GI_STEP gi_u32 gi_step(struct gi_pool *p, gi_u32 heap, gi_u32 at, gi_u32 down)
{
	gi_u32 to, i, j;

	if (!p)
		return at;
	if (down) {
		to = 2 * at + 1;
		if (to >= gi_filled(p, heap))
			return at;
		if (to + 1 < gi_filled(p, heap) &&
		    gi_above(p, heap, gi_member(p, heap, to + 1), gi_member(p, heap, to)))
			to++;
	} else {
		if (!at)
			return at;
		to = (at - 1) / 2;
	}
	i = gi_member(p, heap, at);
	j = gi_member(p, heap, to);
	if (down ? !gi_above(p, heap, j, i) : !gi_above(p, heap, i, j))
		return at;
	gi_seat(p, heap, at, j);
	gi_seat(p, heap, to, i);
	return to;
}

/* Brings the member at `at`, whose key has changed, to its place. */
GI_STEP gi_u32 gi_sift(struct gi_pool *p, gi_u32 heap, gi_u32 at)
{
	gi_u32 down, n, to;

	if (!p)
		return at;
	for (down = 0; down < 2; down++)
		for (n = 0; n < GI_SIFT; n++) {
			to = gi_step(p, heap, at, down);
			if (to == at)
				break;
			at = to;
		}
	return at;
}

GI_STEP gi_u32 gi_insert(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	gi_u32 at;

	if (!p)
		return 0;
	at = p->filled[heap & (GI_ALL_HEAPS - 1u)]++;
	gi_seat(p, heap, at, index);
	return gi_sift(p, heap, at);
}

GI_STEP gi_u32 gi_delete(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	gi_u32 at, last, member;

	if (!p)
		return 0;
	at = gi_at(p, index)->at[gi_which(heap)];
	last = --p->filled[heap & (GI_ALL_HEAPS - 1u)];
	member = gi_member(p, heap, last);
	gi_at(p, index)->at[gi_which(heap)] = GI_NONE;
	if (member == index)
		return 0;
	gi_seat(p, heap, at, member);
	return gi_sift(p, heap, at);
}

static inline void gi_clear(struct gi_pool *p, gi_u32 heap)
{
	p->filled[heap & (GI_ALL_HEAPS - 1u)] = 0;
}

/* The first of a heap, of FIRST the last, or GI_NONE. */
static inline gi_u32 gi_top(const struct gi_pool *p, gi_u32 heap)
{
	return gi_filled(p, heap) ? gi_member(p, heap, 0) : GI_NONE;
}

#endif
