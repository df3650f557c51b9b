/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The policy core as a library, for callers that are not C. */
#include "policy.h"

const gi_u64 gi_layout[] = {sizeof(struct gi_pool), sizeof(struct gi_server), __builtin_offsetof(struct gi_pool, cores),
			    __builtin_offsetof(struct gi_pool, servers)};

void gi_pool_init(struct gi_pool *p, gi_u32 order)
{
	gi_init(p, order);
}

int gi_pool_add(struct gi_pool *p, gi_u32 kind, gi_u64 budget, gi_u64 period, gi_u64 first, gi_u32 priority, gi_u64 now)
{
	return gi_add(p, kind, budget, period, first, priority, now);
}

void gi_pool_charge(struct gi_pool *p, gi_u32 core, gi_u64 ran, gi_u64 now)
{
	gi_charge(p, core, ran, now);
}

void gi_pool_ready(struct gi_pool *p, gi_u32 index, gi_u32 is_ready, gi_u64 now)
{
	gi_ready(p, index, is_ready, now);
}

gi_u32 gi_pool_decide(struct gi_pool *p, gi_u64 now)
{
	return gi_decide(p, now);
}

void gi_pool_look(const struct gi_pool *p, gi_u32 index, struct gi_server *seen)
{
	gi_look(p, index, seen);
}
