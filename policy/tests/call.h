/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One call to the policy core as a message, so that a user-space program can make it in the kernel. */
#ifndef GIUSTO_POLICY_CALL_H
#define GIUSTO_POLICY_CALL_H

#include "../policy.h"

enum gi_op { GI_OP_INIT, GI_OP_ADD, GI_OP_CHARGE, GI_OP_READY, GI_OP_DECIDE, GI_OP_LOOK };

struct gi_call {
	gi_u64 now;
	gi_u64 budget; /* or what was consumed */
	gi_u64 period;
	gi_u64 first;
	gi_u32 op;
	gi_u32 index; /* or the order, the core, the kind */
	gi_u32 priority;
	gi_u32 is_ready;
};

struct gi_result {
	gi_s64 value; /* what the function returned */
	gi_s64 left;  /* of the server that was looked at */
	gi_u64 deadline;
	gi_u64 until;
	gi_u32 payer;
	gi_u32 changed;
};

/* What goes in is overwritten by what comes out. */
union gi_message {
	struct gi_call call;
	struct gi_result result;
};

static inline void gi_apply(struct gi_pool *p, const struct gi_call *c, struct gi_result *r)
{
	struct gi_server seen;

	r->value = r->left = 0;
	r->deadline = 0;
	switch (c->op) {
	case GI_OP_INIT:
		gi_init(p, c->index);
		break;
	case GI_OP_ADD:
		r->value = gi_add(p, c->index, c->budget, c->period, c->first, c->priority, c->now);
		break;
	case GI_OP_CHARGE:
		gi_charge(p, c->index, c->budget, c->now);
		break;
	case GI_OP_READY:
		gi_ready(p, c->index, c->is_ready, c->now);
		break;
	case GI_OP_DECIDE:
		r->value = gi_decide(p, c->now);
		break;
	case GI_OP_LOOK:
		gi_look(p, c->index, &seen);
		r->left = seen.left;
		r->deadline = seen.deadline;
		break;
	}
	r->until = p->until;
	r->payer = p->cores[0].payer;
	r->changed = p->changed;
}

#endif
