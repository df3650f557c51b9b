/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One call to the policy core as a message, so that a user-space program can make it in the kernel. */
#ifndef GIUSTO_POLICY_CALL_H
#define GIUSTO_POLICY_CALL_H

#include "policy.h"

enum gi_op {
	GI_OP_INIT,
	GI_OP_ADD,
	GI_OP_SET,
	GI_OP_BOOST,
	GI_OP_CHARGE,
	GI_OP_READY,
	GI_OP_DECIDE,
	GI_OP_LOOK,
	GI_OP_ADD_MIXED,
	GI_OP_SET_MIXED,
	GI_OP_COOLING,
	GI_OP_REMOVE,
	GI_OP_OWE,
	GI_OP_ORDER
};

struct gi_call {
	gi_u64 now;
	gi_u64 budget; /* or what was consumed */
	gi_u64 period;
	gi_u64 first; /* or the end of a boost */
	gi_u64 worst;
	gi_u64 virtual_deadline;
	gi_u32 op;
	gi_u32 index; /* or the order, the core, the kind, when HI ends */
	gi_u32 priority;
	gi_u32 flag; /* is ready, when, how many cores or places, or degrees */
};

/* The other results of a call are in the pool, which the caller can read. */
struct gi_result {
	gi_s64 value; /* what the function returned */
};

/* The program in the kernel returns this if another CPU is in the core. */
#define GI_TAKEN 77

/* What goes in is overwritten by what comes out. */
union gi_message {
	struct gi_call call;
	struct gi_result result;
};

static inline void gi_apply(struct gi_pool *p, const struct gi_call *c, struct gi_result *r)
{
	r->value = 0;
	switch (c->op) {
	case GI_OP_INIT:
		gi_init(p, c->index, c->flag);
		break;
	case GI_OP_ADD:
		r->value = gi_add(p, c->index, c->budget, c->period, c->first, c->priority, c->now);
		break;
	case GI_OP_SET:
		r->value = gi_set(p, c->index, c->budget, c->period, c->priority, c->flag, c->now);
		break;
	case GI_OP_BOOST:
		r->value = gi_boost(p, c->index, c->first, c->now);
		break;
	case GI_OP_CHARGE:
		gi_charge(p, c->index, c->budget, c->now);
		break;
	case GI_OP_OWE:
		gi_owe(p, c->index, c->budget, c->now);
		break;
	case GI_OP_READY:
		gi_ready(p, c->index, c->flag, c->now);
		break;
	case GI_OP_DECIDE:
		r->value = (gi_s64)gi_decide(p, c->now);
		break;
	case GI_OP_ADD_MIXED:
		r->value = gi_add_mixed(p, c->budget, c->worst, c->period, c->virtual_deadline, c->first, c->now);
		break;
	case GI_OP_SET_MIXED:
		r->value =
		    gi_set_mixed(p, c->index, c->budget, c->worst, c->period, c->virtual_deadline, c->flag, c->now);
		break;
	case GI_OP_COOLING:
		gi_cooling(p, c->flag, c->index);
		break;
	case GI_OP_REMOVE:
		r->value = gi_remove(p, c->index, c->now);
		break;
	case GI_OP_ORDER:
		r->value = gi_order(p, c->flag);
		break;
	case GI_OP_LOOK:
		gi_look(p, c->index);
		break;
	}
}

#endif
