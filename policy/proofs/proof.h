/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the harnesses share. The core is the real source, but for two things that make it small enough to prove:
 * gi_at splits into cases, so that a write to one server is not one to all of them; and but for heap.c, which proves
 * the real heaps, a heap is the set that heap.c proves it to be, which also checks that it is used as one.
 */
#ifndef GIUSTO_POLICY_PROOF_H
#define GIUSTO_POLICY_PROOF_H

#include "../core/types.h"

#define HOLDS(condition, text) __CPROVER_assert(condition, text)
#define GIVEN(condition) __CPROVER_assume(condition)

gi_u64 nondet_u64(void);

/* Any number below 2^bits: masked rather than assumed, so that the upper bits are known to be 0. */
static inline gi_u64 any(gi_u32 bits)
{
	return nondet_u64() & ((1ull << bits) - 1);
}

static struct gi_pool pool;
static struct gi_server server0, server1, server2, server3;

static inline struct gi_server *split(struct gi_pool *p, gi_u32 index)
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
static struct {
	gi_u32 members;
	gi_u64 key[GI_CAPACITY];
} set[GI_HEAPS];

static inline gi_u64 key_now(gi_u32 heap, gi_u32 index)
{
	return heap == GI_REFILL ? split(&pool, index)->event : split(&pool, index)->rank;
}

static inline int gi_before(struct gi_pool *p, gi_u32 heap, gi_u32 a, gi_u32 b)
{
	gi_u64 x = heap == GI_REFILL ? split(p, a)->event : split(p, a)->rank,
	       y = heap == GI_REFILL ? split(p, b)->event : split(p, b)->rank;

	return x < y || (x == y && a < b);
}

static inline void gi_sift(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	(void)p;
	HOLDS(heap < GI_HEAPS && index < GI_CAPACITY && set[heap].members >> index & 1, "sifted in a heap where it is");
	set[heap].key[index] = key_now(heap, index);
}

static inline void gi_insert(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	HOLDS(heap < GI_HEAPS && !(set[heap].members >> index & 1), "put into a heap where it is not yet");
	set[heap].members |= 1u << index;
	split(p, index)->at[heap == GI_REFILL] = index;
	gi_sift(p, heap, index);
}

static inline void gi_remove(struct gi_pool *p, gi_u32 heap, gi_u32 index)
{
	HOLDS(heap < GI_HEAPS && set[heap].members >> index & 1, "taken out of a heap where it is");
	set[heap].members &= ~(1u << index);
	split(p, index)->at[heap == GI_REFILL] = GI_NOBODY;
}

static inline gi_u32 gi_top(struct gi_pool *p, gi_u32 heap)
{
	gi_u32 i, top = GI_NOBODY;

	for (i = 0; i < SERVERS; i++) {
		if (!(set[heap].members >> i & 1))
			continue;
		HOLDS(set[heap].key[i] == key_now(heap, i), "a key that changed was sifted");
		if (top == GI_NOBODY || gi_before(p, heap, i, top))
			top = i;
	}
	return top;
}
#endif

#include "../policy.h"

#endif
