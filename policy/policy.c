/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The policy core as a library, for callers that are not C. */
#include "policy.h"

const gi_u64 gi_layout[] = {sizeof(struct gi_pool), __builtin_offsetof(struct gi_pool, core), sizeof(struct gi_core),
			    GI_CORES, GI_CAPACITY};

const char *gi_pool_kind_name(gi_u32 kind)
{
	return gi_kind_name(kind);
}

void gi_pool_init(struct gi_pool *p, gi_u32 order, gi_u32 m)
{
	gi_init(p, order, m);
}

int gi_pool_add(struct gi_pool *p, gi_u32 kind, gi_u64 budget, gi_u64 period, gi_u64 first, gi_u32 priority, gi_u64 now)
{
	return gi_add(p, kind, budget, period, first, priority, now);
}

int gi_pool_add_mixed(struct gi_pool *p, gi_u64 optimistic, gi_u64 worst, gi_u64 period, gi_u64 virtual_deadline,
		      gi_u64 first, gi_u64 now)
{
	return gi_add_mixed(p, optimistic, worst, period, virtual_deadline, first, now);
}

int gi_pool_set_mixed(struct gi_pool *p, gi_u32 index, gi_u64 optimistic, gi_u64 worst, gi_u64 period,
		      gi_u64 virtual_deadline, gi_u32 when, gi_u64 now)
{
	return gi_set_mixed(p, index, optimistic, worst, period, virtual_deadline, when, now);
}

void gi_pool_cooling(struct gi_pool *p, gi_u32 degrees, gi_u32 back)
{
	gi_cooling(p, degrees, back);
}

int gi_pool_set(struct gi_pool *p, gi_u32 index, gi_u64 budget, gi_u64 period, gi_u32 priority, gi_u32 when, gi_u64 now)
{
	return gi_set(p, index, budget, period, priority, when, now);
}

int gi_pool_remove(struct gi_pool *p, gi_u32 index, gi_u64 now)
{
	return gi_remove(p, index, now);
}

int gi_pool_boost(struct gi_pool *p, gi_u32 index, gi_u64 until, gi_u64 now)
{
	return gi_boost(p, index, until, now);
}

void gi_pool_charge(struct gi_pool *p, gi_u32 core, gi_u64 ran, gi_u64 now)
{
	gi_charge(p, core, ran, now);
}

void gi_pool_owe(struct gi_pool *p, gi_u32 index, gi_u64 ran, gi_u64 now)
{
	gi_owe(p, index, ran, now);
}

void gi_pool_ready(struct gi_pool *p, gi_u32 index, gi_u32 is_ready, gi_u64 now)
{
	gi_ready(p, index, is_ready, now);
}

gi_u64 gi_pool_decide(struct gi_pool *p, gi_u64 now)
{
	return gi_decide(p, now);
}

/* The first `capacity` of the order, with their marks, in `out`; how many there are. */
gi_u32 gi_pool_order(struct gi_pool *p, gi_u32 *out, gi_u32 capacity)
{
	gi_u32 i, n = gi_order(p, capacity);

	for (i = 0; i < n; i++)
		out[i] = p->place[i];
	return n;
}

/* {left, deadline, boost_ns} of a server as gi_look shows it, without writing to the pool; zeros for an unknown one. */
void gi_pool_look(const struct gi_pool *p, gi_u32 index, gi_u64 out[3])
{
	struct gi_server seen = p->server[index & (GI_CAPACITY - 1u)];

	out[0] = out[1] = out[2] = 0;
	if (index >= p->count || seen.kind == GI_FREE)
		return;
	gi_bill(p, &seen);
	gi_show(&seen, p->now);
	out[0] = (gi_u64)seen.left;
	out[1] = seen.deadline;
	out[2] = seen.boost_ns;
}
