/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One call to a token bucket as a message, so that a user-space program can make it in the kernel. */
#ifndef GIUSTO_POLICY_BUCKET_CALL_H
#define GIUSTO_POLICY_BUCKET_CALL_H

#include "../bucket.h"

enum gi_bucket_op { GI_BUCKET_INIT, GI_BUCKET_SET, GI_BUCKET_TAKE, GI_BUCKET_ADMIT };

/* The bucket and what the function returned are overwritten. */
struct gi_bucket_call {
	struct gi_bucket bucket;
	gi_s64 value;
	gi_u64 op;
	gi_u64 now;
	gi_u64 num; /* or how many tokens */
	gi_u64 den;
	gi_u64 burst;
	gi_u64 fill;
};

GI_BUCKET_INLINE void gi_bucket_apply(struct gi_bucket_call *c)
{
	switch (c->op) {
	case GI_BUCKET_INIT:
		c->value = gi_bucket_init(&c->bucket, c->num, c->den, c->burst, c->fill, c->now);
		break;
	case GI_BUCKET_SET:
		c->value = gi_bucket_set(&c->bucket, c->num, c->den, c->burst, c->now);
		break;
	case GI_BUCKET_TAKE:
		c->value = gi_bucket_take(&c->bucket, c->num, c->now);
		break;
	case GI_BUCKET_ADMIT:
		c->value = gi_bucket_admit(&c->bucket, c->num, c->now);
		break;
	}
}

#endif
