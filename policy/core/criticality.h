/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Mixed criticality [Asy20]: the mode of a pool's core, and who runs in it.
 *
 * LO: the ready with budget by (virtual) deadline; then high ones out of budget; then low ones out of budget; then
 * unlimited ones. HI: high ones with budget by deadline; then high ones out of budget; then low ones, those with budget
 * first; then unlimited ones. Who has no budget pays nothing, so it gets into no debt by running and heats nothing.
 *
 * A decision takes the first of one of three heaps. A change of mode moves every server: O(n log n), for at most one
 * per job of a high server in each direction.
 */
#ifndef GIUSTO_POLICY_CRITICALITY_H
#define GIUSTO_POLICY_CRITICALITY_H

#include "account.h"

/* It asked for its worst budget: hot for so many of its periods from now on. */
static inline void gi_heat(struct gi_pool *p, struct gi_server *s)
{
	gi_u64 end = GI_NEVER;

	if (s->period && p->degrees <= GI_LAST / s->period)
		end = p->now + p->degrees * s->period;
	if (end > p->hot_until)
		p->hot_until = end;
	s->heated = 1;
}

/* Takes a server along into the mode of its core. */
GI_STEP gi_u32 gi_enter(struct gi_pool *p, gi_u32 index)
{
	struct gi_server *s;

	if (!p)
		return 0;
	s = gi_at(p, index);
	if (!gi_is(s, GI_BY_MODE))
		return 0;
	if (p->mode == GI_HI && s->asks)
		gi_heat(p, s);
	gi_mixed_enter(s, p->mode == GI_HI, p->now);
	return gi_place(p, index);
}

/* Whether HI may end once all are cool: with nothing pending; or, as in the paper, also in the middle of a job. */
static inline int gi_may_return(const struct gi_pool *p)
{
	return p->mode == GI_HI && (p->back == GI_BACK_TEMPERATURE ? !p->asking : !p->pending);
}

/* LO becomes HI as soon as any server asks, HI becomes LO when it may. */
GI_STEP gi_u32 gi_switch(struct gi_pool *p)
{
	gi_u32 i;

	if (!p)
		return 0;
	if (p->mode == GI_LO ? !p->asking : !gi_may_return(p) || p->hot_until > p->now)
		return 0;
	p->mode = p->mode == GI_LO ? GI_HI : GI_LO;
	for (i = 0; i < GI_CAPACITY && i < p->count; i++)
		gi_enter(p, i);
	return 1;
}

/* When HI may end, if it is only waiting for the core to cool. */
static inline gi_u64 gi_cool(const struct gi_pool *p)
{
	return gi_may_return(p) ? p->hot_until : GI_NEVER;
}

#endif
