/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Hard constant bandwidth servers, as SCHED_DEADLINE does them: replenished only when depleted, at the deadline, which
 * then moves on by a period; until then throttled. Ready at its deadline with budget left, a server keeps both.
 */
#ifndef GIUSTO_POLICY_CONSTANT_BANDWIDTH_H
#define GIUSTO_POLICY_CONSTANT_BANDWIDTH_H

#include "grid.h"

/* A change that waits for the next period ends this one at its deadline, also with budget left. */
static inline void gi_cbs_settle(struct gi_server *s, gi_u64 now)
{
	if (s->left <= 0 || s->next_budget)
		gi_replenish(s, now);
}

/*
 * The wake-up rule: keep (left, deadline) unless using them up would exceed the bandwidth, that is
 * left / (deadline - now) > B / P; then a new period begins.
 */
static inline void gi_cbs_wake(struct gi_server *s, gi_u64 now)
{
	if (s->left <= 0)
		return;
	if (s->deadline > now && !gi_exceeds((gi_u64)s->left, s->period, s->deadline - now, s->budget))
		return;
	s->deadline = now + s->period;
	s->left = (gi_s64)s->budget;
}

#endif
