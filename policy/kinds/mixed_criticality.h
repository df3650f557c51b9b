/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Servers of high or low criticality [Asy20], for EDF with virtual deadlines (EDF-VD, Baruah et al. 2012).
 *
 * A job has the optimistic budget B in LO and, of high criticality, the worst one W in HI, by its deadline a period T
 * after its release; in LO a high one is ranked by its virtual deadline, V after the release. Hard, as a constant
 * bandwidth server: depleted, it waits for the deadline, where the next job is released.
 *
 * The proof of EDF-VD wants at most B of demand in any V (LO) and at most W in any T (HI). So a server that wakes
 * after e, having used u, keeps its job only if u >= e B/V, and of W only what is left of e to T at the rate W/T; and
 * begins a new one only if u <= e W/T too. In between, the next job is released when that holds.
 */
#ifndef GIUSTO_POLICY_MIXED_CRITICALITY_H
#define GIUSTO_POLICY_MIXED_CRITICALITY_H

#include "grid.h"

/* Whether it is a reservation: 0 < B <= W <= T, B <= V <= T; a low one (W = 0) has no virtual deadline but its own. */
static inline int gi_mixed_fits(gi_u64 optimistic, gi_u64 worst, gi_u64 period, gi_u64 virtual_deadline)
{
	if (!optimistic || optimistic > virtual_deadline || virtual_deadline > period || period > GI_LAST)
		return 0;
	return worst ? worst >= optimistic && worst <= period : virtual_deadline == period;
}

/* What HI would still add to the job's budget, or has. */
static inline gi_u64 gi_mixed_extra(const struct gi_server *s)
{
	return s->more - s->cut;
}

/* Its place among those of its class: the virtual deadline in LO. Low ones out of budget come after those that are not.
 */
static inline gi_u64 gi_mixed_rank(const struct gi_server *s)
{
	if (!s->high)
		return s->left > 0 ? s->deadline : gi_min(s->deadline, 2 * GI_LAST - 1) + 2 * GI_LAST;
	if (s->hi)
		return s->deadline;
	return s->deadline - gi_min(s->lead, s->deadline);
}

/* Out of budget in LO, it would ask for HI: its job has more, and no boost makes up for it. */
static inline gi_u32 gi_mixed_would_ask(const struct gi_server *s)
{
	return s->ready && !s->hi && gi_mixed_extra(s) && !s->boost_until;
}

/* Ready, it has used its optimistic budget, and its job has more. A boosted one needs no mode for it. */
static inline int gi_mixed_asks(const struct gi_server *s)
{
	gi_u64 extra = gi_mixed_extra(s);

	return s->ready && extra && !s->boost_until && s->left <= (gi_s64)(s->hi ? extra : 0);
}

/* What may be consumed until it is used up or asks. */
static inline gi_u64 gi_mixed_rest(const struct gi_server *s)
{
	gi_u64 extra = s->hi ? gi_mixed_extra(s) : 0;

	return gi_rest(s) - (gi_rest(s) > extra ? extra : 0);
}

/* The next job: released at the deadline or, late, a whole number of periods after it. */
static inline void gi_mixed_release(struct gi_server *s, gi_u64 now)
{
	if (s->next_budget) {
		s->more = s->next_more;
		s->lead = s->next_lead;
		s->next_budget += s->hi ? s->more : 0;
	}
	gi_replenish(s, now);
	s->cut = 0;
	s->heated = 0;
}

/* Used up, a job ends at its deadline; a change that waits for the next one ends it there also with budget left. */
static inline void gi_mixed_settle(struct gi_server *s, gi_u64 now)
{
	if (now >= s->deadline && (s->left <= 0 || s->next_budget))
		gi_mixed_release(s, now);
}

/* The next job, from now on. */
static inline void gi_mixed_begin(struct gi_server *s, gi_u64 now)
{
	s->deadline = now + s->period;
	s->left = (gi_s64)s->budget;
	s->cut = s->forgive = 0;
	s->heated = 0;
}

/* The wake-up rule, after gi_mixed_settle. What is left of the job: `all`, with what HI would add. */
static inline void gi_mixed_wake(struct gi_server *s, gi_u64 now)
{
	gi_u64 extra = gi_mixed_extra(s), worst = s->budget + (s->hi ? 0 : s->more), all, fits, virtual;
	int over;

	if (s->left + (gi_s64)(s->hi ? 0 : extra) <= 0)
		return;
	all = (gi_u64)(s->left + (gi_s64)(s->hi ? 0 : extra));
	if (s->deadline <= now) {
		gi_mixed_begin(s, now);
		return;
	}
	over = gi_exceeds(all, s->period, s->deadline - now, worst);
	if (s->hi) {
		if (over)
			gi_mixed_begin(s, now);
		return;
	}
	virtual = gi_mixed_rank(s);
	if (s->left <= 0 ||
	    (virtual > now && !gi_exceeds((gi_u64)s->left, s->period - s->lead, virtual - now, s->budget))) {
		if (!over)
			return;
		fits = gi_share(s->deadline - now, worst, s->period);
		extra = (gi_s64)fits > s->left ? gi_min(extra, (gi_u64)((gi_s64)fits - s->left)) : 0;
		s->cut = s->more - extra;
	} else if (!gi_exceeds(s->deadline - now, worst, all, s->period)) {
		gi_mixed_begin(s, now);
	} else {
		s->deadline -= gi_share(all, s->period, worst);
		s->left = 0;
		s->cut = s->more;
	}
}

/* At once: what is left grows or shrinks with what the mode gives this job; the deadline stays, if the wake-up rule
 * agrees.
 */
static inline void gi_mixed_change(struct gi_server *s, gi_u64 optimistic, gi_u64 worst, gi_u64 period, gi_u64 lead,
				   gi_u64 now)
{
	gi_u64 before = s->budget - (s->hi ? s->cut : 0), after;

	s->more = worst ? worst - optimistic : 0;
	s->cut = gi_min(s->cut, s->more);
	s->budget = optimistic + (s->hi ? s->more : 0);
	after = s->budget - (s->hi ? s->cut : 0);
	gi_adjust(s, after > before ? after - before : 0, before > after ? before - after : 0);
	s->period = period;
	s->lead = lead;
	if (s->ready)
		gi_mixed_wake(s, now);
}

/* Whether these are the present parameters. */
static inline int gi_mixed_is(const struct gi_server *s, gi_u64 optimistic, gi_u64 worst, gi_u64 period, gi_u64 lead)
{
	gi_u64 more = worst ? worst - optimistic : 0;

	return s->budget == optimistic + (s->hi ? more : 0) && s->more == more && s->period == period &&
	       s->lead == lead;
}

/* The core enters HI or LO. In HI a job has what its worst budget adds; in LO what it used of that is no debt. */
static inline void gi_mixed_enter(struct gi_server *s, gi_u32 hi, gi_u64 now)
{
	gi_u64 extra = gi_mixed_extra(s);

	if (s->hi == hi)
		return;
	s->hi = hi;
	s->budget = hi ? s->budget + s->more : s->budget - s->more;
	gi_adjust(s, hi ? extra : 0, hi ? 0 : extra);
	if (hi || s->high)
		return;
	s->deadline = now; /* LO begins: every low one anew */
	gi_mixed_release(s, now);
}

#endif
