// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Heaps, by induction: in any heap that is in order, whatever is put in, leaves or changes its key, it is in order
 * again and holds who it should. So its first is the smallest (the largest of GI_FIRST), and each knows its place.
 */
#define REAL_HEAPS
#include "proof.h"

/* By the text alone: what is nearer to the top. */
static int above(gi_u32 a, gi_u32 b)
{
	gi_u64 x = split(&pool, a)->rank, y = split(&pool, b)->rank;
	int smaller = x < y || (x == y && a < b);

	return HEAP == GI_FIRST ? !smaller : smaller;
}

static int in_order(gi_u32 inside)
{
	gi_u32 i, at, n = 0;
	int good = 1;

	for (i = 0; i < GI_CAPACITY; i++) {
		if (!(inside >> i & 1))
			continue;
		n++;
		at = split(&pool, i)->at[HEAP == GI_REFILL];
		good &= at < pool.filled[HEAP] && gi_member(&pool, HEAP, at) == i;
		good &= !at || above(gi_member(&pool, HEAP, (at - 1) / 2), i);
	}
	return good && n == pool.filled[HEAP];
}

int main(void)
{
	gi_u32 inside = (gi_u32)any(GI_CAPACITY), i, index = (gi_u32)any(2);
	gi_u64 key = any_time();

	gi_init(&pool, GI_EDF, 1);
	pool.filled[HEAP] = (gi_u32)any(3);
	for (i = 0; i < GI_CAPACITY; i++) {
		split(&pool, i)->at[0] = split(&pool, i)->at[1] = (gi_u32)any(2);
		split(&pool, i)->rank = split(&pool, i)->event = any_time();
		pool.heap[HEAP][i] = (gi_u16)any(2);
	}
	GIVEN(in_order(inside));
	if (!(inside >> index & 1)) {
		split(&pool, index)->rank = split(&pool, index)->event = key;
		gi_insert(&pool, HEAP, index);
		inside |= 1u << index;
	} else if (any(1)) {
		gi_delete(&pool, HEAP, index);
		inside &= ~(1u << index);
	} else {
		split(&pool, index)->rank = split(&pool, index)->event = key;
		gi_sift(&pool, HEAP, split(&pool, index)->at[HEAP == GI_REFILL]);
	}
	HOLDS(in_order(inside), "the heap is in order and holds who it should");
	index = gi_top(&pool, HEAP);
	for (i = 0; i < GI_CAPACITY; i++)
		HOLDS(!(inside >> i & 1) || i == index || above(index, i),
		      "the first is the smallest, of those who run first the largest");
	return 0;
}
