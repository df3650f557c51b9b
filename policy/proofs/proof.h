/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the harnesses share. They include the real source, with three substitutes that make it small enough to prove:
 * - time has WIDTH bits instead of 64, the last instant is 2^BITS instead of 2^62. With BITS = WIDTH - 2 that is the
 * real source at scale. 32-bit arithmetic in between is exact, products and their quotients too, and conversions that
 * lose bits are errors;
 * - gi_at is a choice of cases, so that a write to one server is not a write to anywhere in the pool;
 * - but in heap.c, which proves the real ones, a heap is the ordered set that heap.c proves it to be. It also checks
 * that the core keeps to the contract: nothing goes in twice, and a key that changed is sifted before the heap is read.
 */
#ifndef GIUSTO_POLICY_PROOF_H
#define GIUSTO_POLICY_PROOF_H

#define SERVERS 3
#define CORES 2
#undef __UINT64_TYPE__
#undef __INT64_TYPE__
#define __UINT64_TYPE__ unsigned __CPROVER_bitvector[WIDTH]
#define __INT64_TYPE__ signed __CPROVER_bitvector[WIDTH]
#include "../core/types.h"
#undef GI_NEVER
#undef GI_LAST
#define GI_NEVER ((gi_u64)((1 << WIDTH) - 1))
#define GI_LAST ((gi_u64)(1 << BITS))
#define gi_exceeds(a, b, c, d) ((gi_u32)(a) * (gi_u32)(b) > (gi_u32)(c) * (gi_u32)(d))

#define gi_share(a, b, c) ((gi_u64)((gi_u32)(a) * (gi_u32)(b) / (gi_u32)(c)))

#define HOLDS(condition, text) __CPROVER_assert(condition, text)
#define GIVEN(condition) __CPROVER_assume(condition)

gi_u32 nondet_u32(void);

/* Any number below 2^bits: masked rather than assumed, so that the upper bits are known to be 0. */
static inline gi_u32 any(gi_u32 bits)
{
	return nondet_u32() & ((1u << bits) - 1);
}

/* Any time, also beyond the last. */
static inline gi_u64 any_time(void)
{
	return (gi_u64)any(BITS + 2);
}

static struct gi_pool pool;
static struct gi_server server0, server1, server2, server3;

static inline struct gi_server *split(const struct gi_pool *p, gi_u32 index)
{
	(void)p;
	index &= GI_CAPACITY - 1u;
	return index == 0 ? &server0 : index == 1 ? &server1 : index == 2 ? &server2 : &server3;
}
#define gi_at split

#ifdef REAL_HEAPS
#include "../core/heap.h"
#else
#define GIUSTO_POLICY_HEAP_H
static struct set {
	gi_u32 members;
	gi_u64 key[GI_CAPACITY];
} set[GI_HEAPS + 1]; /* GI_PLACES is the last; GI_FIRST has its last on top */

static inline gi_u64 key_of(gi_u32 heap, gi_u32 index)
{
	const struct gi_server *s = split(&pool, index);

	return heap == GI_REFILL ? s->event : heap == GI_PLACES ? s->place : s->rank;
}

static inline int gi_before(struct gi_pool *p, gi_u32 heap, gi_u32 a, gi_u32 b)
{
	gi_u64 x = key_of(heap, a), y = key_of(heap, b);

	(void)p;
	return x < y || (x == y && a < b);
}

static inline void gi_sift(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	(void)p;
	HOLDS(heap <= GI_PLACES && index < GI_CAPACITY && set[heap].members >> index & 1,
	      "sifted in a heap where it is");
	set[heap].key[index] = key_of(heap, index);
}

static inline void gi_insert(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	HOLDS(heap <= GI_PLACES && !(set[heap].members >> index & 1), "put into a heap where it is not yet");
	set[heap].members |= 1u << index;
	split(p, index)->at[heap == GI_REFILL ? 1 : heap == GI_PLACES ? 2 : 0] = index;
	gi_sift(p, heap, index);
}

static inline void gi_delete(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	HOLDS(heap <= GI_PLACES && set[heap].members >> index & 1, "taken out of a heap where it is");
	set[heap].members &= ~(1u << index);
	split(p, index)->at[heap == GI_REFILL ? 1 : heap == GI_PLACES ? 2 : 0] = GI_NONE;
}

static inline gi_u32 gi_filled(const struct gi_pool *p, gi_u32 heap)
{
	gi_u32 i, n = 0;

	(void)p;
	for (i = 0; i < GI_CAPACITY; i++)
		n += set[heap].members >> i & 1;
	return n;
}

static inline void gi_clear(struct gi_pool *p, gi_u32 heap)
{
	(void)p;
	set[heap].members = 0;
}

static inline gi_u32 gi_top(struct gi_pool *p, gi_u32 heap)
{
	gi_u32 i, top = GI_NONE;

	for (i = 0; i < GI_CAPACITY; i++) {
		if (!(set[heap].members >> i & 1))
			continue;
		HOLDS(set[heap].key[i] == key_of(heap, i), "a key that changed was sifted");
		if (top == GI_NONE || (heap == GI_FIRST ? gi_before(p, heap, top, i) : gi_before(p, heap, i, top)))
			top = i;
	}
	return top;
}
#endif

#include "../policy.h"

#endif
