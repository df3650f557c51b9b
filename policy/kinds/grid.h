/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Servers that are replenished on a grid, at first + kP: deferrable, periodic and polling.
 *
 * deferrable: full budget at each end of a period, idle or not; it is used only while the workload runs.
 * periodic: as deferrable, but when it is the highest with budget and idle, the budget burns (choose.h says who runs
 * then). polling: a budget only for a period at whose beginning it is ready; lost as soon as it goes idle.
 */
#ifndef GIUSTO_POLICY_GRID_H
#define GIUSTO_POLICY_GRID_H

#include "../core/types.h"

/*
 * Each of the k periods that ended by now brings a budget: left' = min(B, left + k B). A change that waited for the
 * next period begins with the first of them, and so does its grid.
 */
static inline void gi_replenish(struct gi_server *s, gi_u64 now)
{
	gi_u64 k, debt;

	if (now < s->deadline)
		return;
	if (s->next_budget) {
		s->budget = s->next_budget;
		s->period = s->next_period;
		s->next_budget = 0;
	}
	if (!s->period || !s->budget)
		return;
	s->begun = 1;
	s->left += (gi_s64)s->forgive;
	s->forgive = 0;
	debt = s->left < 0 ? (gi_u64)-s->left : 0;
	k = (now - s->deadline) / s->period + 1;
	s->deadline += k * s->period;
	if (k > debt / s->budget + 1)
		s->left = (gi_s64)s->budget;
	else
		s->left = (gi_s64)(k * s->budget - debt); /* k B is at most debt + B */
}

/* What is left grows or shrinks with the budget. Debt from shrinking alone is forgiven at the next replenishment. */
static inline void gi_adjust(struct gi_server *s, gi_u64 more, gi_u64 less)
{
	s->left += (gi_s64)more - (gi_s64)less;
	if (s->left < 0)
		s->forgive += gi_min(less, (gi_u64)-s->left);
	s->forgive -= gi_min(s->forgive, more);
}

/* Goes idle: what is left is lost, but where a period begins only when time moves on, for another job may come there.
 */
static inline void gi_poll_sleep(struct gi_server *s, gi_u64 now)
{
	if (s->deadline - s->period == now)
		s->open = now;
	if (s->left > 0 && s->open != now)
		s->left = 0;
}

/* An idle polling server takes no budget at the ends of its periods up to `end`, but its debt is repaid. */
static inline void gi_poll_idle(struct gi_server *s, gi_u64 end, gi_u64 now)
{
	gi_replenish(s, end);
	if (end == now && s->deadline - s->period == now)
		s->open = now;
	if (s->left > 0 && s->open != now)
		s->left = 0;
}

/* What is due at this very instant is left for the server if it becomes ready now, unless a change waits. */
static inline void gi_poll_settle(struct gi_server *s, gi_u64 now)
{
	if (s->ready)
		gi_replenish(s, now);
	else if (s->next_budget || now)
		gi_poll_idle(s, s->next_budget ? now : now - 1, now);
}

#endif
