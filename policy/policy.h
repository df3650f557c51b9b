/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The policy core: which server runs on a core, and until when.
 *
 * A pure state machine over integers of nanoseconds: no includes, clock, allocation, recursion or floating point, and
 * every loop is bounded by a constant, so that the same source runs in the simulator, in the user-space manager and in
 * the kernel as BPF. Memory, lock and clock belong to the driver. A pool is the cores that are scheduled together, in
 * one order; today it has one core.
 *
 * At one instant the driver calls gi_charge, then gi_ready, then gi_decide. README.md has the meaning of each call.
 */
#ifndef GIUSTO_POLICY_H
#define GIUSTO_POLICY_H

typedef __UINT64_TYPE__ gi_u64;
typedef __INT64_TYPE__ gi_s64;
typedef __UINT32_TYPE__ gi_u32;

#define GI_CORES 1u	     /* cores and servers are powers of two: */
#define GI_CAPACITY 64u	     /* indices are masked, for the BPF verifier */
#define GI_NOBODY (~0u)	     /* the payer of an idle core */
#define GI_NEVER (~0ull)     /* a time that does not come */
#define GI_LAST (1ull << 62) /* the last instant and longest period (146 years): sums stay below 2^63 */

/*
 * The BPF verifier checks a global function once, wherever it is called from; inlined into a loop, it would walk every
 * path anew for every server and give up. A global function there returns a scalar and cannot trust its pointers.
 */
#ifdef __bpf__
#define GI_STEP __attribute__((noinline))
#else
#define GI_STEP static inline
#endif

enum gi_order { GI_FIXED_PRIORITY, GI_EDF };
enum gi_kind { GI_DEFERRABLE, GI_CONSTANT_BANDWIDTH, GI_UNLIMITED };
enum gi_refusal { GI_FULL = -1, GI_BAD_RESERVATION = -2, GI_BAD_FIRST = -3, GI_BAD_KIND = -4 };

struct gi_server {
	gi_u64 budget;
	gi_u64 period;
	gi_u64 deadline; /* the next replenishment on the grid, or the CBS deadline; GI_NEVER if unlimited */
	gi_s64 left;	 /* budget left; below 0 is debt, which replenishments repay */
	gi_u32 priority; /* smaller is higher */
	gi_u32 kind;
	gi_u32 ready;
	gi_u32 unused; /* no hidden padding: states are compared byte by byte */
};

struct gi_core {
	gi_u64 charged_at; /* consumption is accounted for up to here */
	gi_u32 payer;	   /* who runs and is charged, or GI_NOBODY */
	gi_u32 unused;
};

struct gi_pool {
	gi_u64 now;   /* the latest time seen; an earlier one counts as this */
	gi_u64 until; /* decide again at the latest then */
	gi_u32 order;
	gi_u32 count;
	gi_u32 changed; /* the cores whose payer the last gi_decide changed, as a mask */
	gi_u32 unused;
	struct gi_core cores[GI_CORES];
	struct gi_server servers[GI_CAPACITY];
};

/* The upper half of a * b. */
static inline gi_u64 gi_high(gi_u64 a, gi_u64 b)
{
	gi_u64 low = (a & ~0u) * (b & ~0u);
	gi_u64 mid = (a >> 32) * (b & ~0u) + (low >> 32);
	gi_u64 mid2 = (a & ~0u) * (b >> 32) + (mid & ~0u);

	return (a >> 32) * (b >> 32) + (mid >> 32) + (mid2 >> 32);
}

/* a * b > c * d in 128 bits, which BPF does not have. */
static inline int gi_exceeds(gi_u64 a, gi_u64 b, gi_u64 c, gi_u64 d)
{
	gi_u64 x = gi_high(a, b), y = gi_high(c, d);

	return x > y || (x == y && a * b > c * d);
}

/* Each of the k periods that ended by now brings a budget: left' = min(B, left + k B). */
static inline void gi_replenish(struct gi_server *s, gi_u64 now)
{
	gi_u64 k, debt = s->left < 0 ? -(gi_u64)s->left : 0;

	if (now < s->deadline || !s->period || !s->budget)
		return;
	k = (now - s->deadline) / s->period + 1;
	s->deadline += k * s->period;
	if (k > debt / s->budget + 1) {
		s->left = (gi_s64)s->budget;
		return;
	}
	s->left += (gi_s64)(k * s->budget); /* at most debt + B: no overflow */
	if (s->left > (gi_s64)s->budget)
		s->left = (gi_s64)s->budget;
}

/*
 * On the grid the end of a period always replenishes. A constant bandwidth server is replenished only when depleted;
 * ready at its deadline with budget left, it keeps both.
 */
static inline int gi_due(const struct gi_server *s, gi_u64 now)
{
	return now >= s->deadline && (s->kind == GI_DEFERRABLE || (s->kind == GI_CONSTANT_BANDWIDTH && s->left <= 0));
}

static inline void gi_settle(struct gi_server *s, gi_u64 now)
{
	if (gi_due(s, now))
		gi_replenish(s, now);
}

/*
 * The server ran for `ran`, taken as the last part of the time up to now, so that a charge that comes late over
 * replenishments is split at them.
 */
static inline void gi_consume(struct gi_server *s, gi_u64 ran, gi_u64 now)
{
	gi_u64 after, before;

	if (s->kind == GI_UNLIMITED || !s->period)
		return;
	gi_settle(s, now - ran);
	if (s->kind == GI_CONSTANT_BANDWIDTH && s->left > 0 && ran > (gi_u64)s->left) {
		ran -= (gi_u64)s->left; /* ran out; if past its deadline, a new budget comes at that instant */
		s->left = 0;
		gi_settle(s, now - ran);
	}
	if (s->kind == GI_DEFERRABLE && now >= s->deadline) { /* what is unused at the first end of a period is lost */
		after = now - s->deadline;
		s->left -= (gi_s64)(ran - after);
		ran = after;
		gi_settle(s, s->deadline);
	}
	if (now >= s->deadline) { /* periods run through, each of which brought a budget */
		after = (now - s->deadline) % s->period;
		before = ran > after ? ran - after : 0;
		s->left -= (gi_s64)before;
		ran -= before;
		gi_settle(s, now);
	}
	s->left -= (gi_s64)ran;
}

/*
 * The payer of the core really ran for `ran` since charged_at: less than the time that passed if it slept or the time
 * was stolen. Returns the pool's time: now, unless the pool has seen a later one.
 */
GI_STEP gi_u64 gi_charge(struct gi_pool *p, gi_u32 core, gi_u64 ran, gi_u64 now)
{
	struct gi_core *c;

	if (!p || core >= GI_CORES)
		return now;
	c = &p->cores[core & (GI_CORES - 1u)];
	if (now > GI_LAST)
		now = GI_LAST;
	if (now < p->now)
		now = p->now;
	p->now = now;
	if (ran > now - c->charged_at)
		ran = now - c->charged_at;
	if (c->payer < p->count)
		gi_consume(&p->servers[c->payer & (GI_CAPACITY - 1u)], ran, now);
	c->charged_at = now;
	return now;
}

/* Brings the pool to now, which is returned. Time that nobody charged is charged as if the payer ran throughout. */
static inline gi_u64 gi_advance(struct gi_pool *p, gi_u64 now)
{
	gi_u32 i;

	for (i = 0; i < GI_CORES; i++)
		now = gi_charge(p, i, GI_NEVER, now);
	return now;
}

/* An empty pool. The memory need not be zero. */
static inline void gi_init(struct gi_pool *p, gi_u32 order)
{
	gi_u32 i;

	p->now = 0;
	p->until = GI_NEVER;
	p->order = order;
	p->count = 0;
	p->changed = 0;
	p->unused = 0;
	for (i = 0; i < GI_CORES; i++) {
		p->cores[i].charged_at = 0;
		p->cores[i].payer = GI_NOBODY;
		p->cores[i].unused = 0;
	}
}

/*
 * Adds a server, idle. `first` is its first replenishment and anchors its grid; before it there is no budget. 0 stands
 * for now. Returns its index or a gi_refusal. An unlimited server ignores budget, period and first.
 */
static inline int gi_add(struct gi_pool *p, gi_u32 kind, gi_u64 budget, gi_u64 period, gi_u64 first, gi_u32 priority,
			 gi_u64 now)
{
	struct gi_server *s = &p->servers[p->count & (GI_CAPACITY - 1u)];
	int unlimited = kind == GI_UNLIMITED;

	now = gi_advance(p, now);
	if (p->count >= GI_CAPACITY)
		return GI_FULL;
	if (kind > GI_UNLIMITED)
		return GI_BAD_KIND;
	if (!unlimited && (!budget || budget > period || period > GI_LAST))
		return GI_BAD_RESERVATION;
	if (!unlimited && first > GI_LAST)
		return GI_BAD_FIRST;
	s->budget = unlimited ? 0 : budget;
	s->period = unlimited ? 0 : period;
	s->deadline = unlimited ? GI_NEVER : first ? first : now;
	s->left = 0;
	s->priority = priority;
	s->kind = kind;
	s->ready = 0;
	s->unused = 0;
	gi_settle(s, now);
	return (int)p->count++;
}

/*
 * The wake-up rule of hard CBS: keep (left, deadline) unless using them up would exceed the bandwidth, that is
 * left / (deadline - now) > B / P; then a new period begins. A depleted server stays throttled until its deadline.
 */
static inline void gi_wake(struct gi_server *s, gi_u64 now)
{
	if (s->left <= 0)
		return;
	if (s->deadline > now && !gi_exceeds((gi_u64)s->left, s->period, s->deadline - now, s->budget))
		return;
	s->deadline = now + s->period;
	s->left = (gi_s64)s->budget;
}

/* The server's workload became ready or went idle. Unknown servers and no news are ignored. */
static inline void gi_ready(struct gi_pool *p, gi_u32 index, gi_u32 is_ready, gi_u64 now)
{
	struct gi_server *s = &p->servers[index & (GI_CAPACITY - 1u)];

	now = gi_advance(p, now);
	if (index >= p->count || s->ready == !!is_ready)
		return;
	s->ready = !!is_ready;
	if (!s->ready)
		return;
	gi_settle(s, now);
	if (s->kind == GI_CONSTANT_BANDWIDTH)
		gi_wake(s, now);
}

static inline int gi_eligible(const struct gi_server *s)
{
	return s->ready && (s->kind == GI_UNLIMITED || s->left > 0);
}

/* Strictly ahead in the pool's order; so ties go to whoever is met first. */
static inline int gi_ahead(const struct gi_pool *p, const struct gi_server *a, const struct gi_server *b)
{
	return p->order == GI_EDF ? a->deadline < b->deadline : a->priority < b->priority;
}

/* One server's part in a decision: what is due, when the next is due, and who is best so far, which is returned. */
GI_STEP gi_u32 gi_consider(struct gi_pool *p, gi_u32 index, gi_u32 best)
{
	struct gi_server *s;

	if (!p)
		return best;
	s = &p->servers[index & (GI_CAPACITY - 1u)];
	if (!s->ready)
		return best;
	gi_settle(s, p->now);
	/* A replenishment to come: it moves a grid server's EDF place, and ends throttling. */
	if (s->deadline < p->until && (s->kind == GI_DEFERRABLE || s->left <= 0))
		p->until = s->deadline;
	if (gi_eligible(s) && (best == GI_NOBODY || gi_ahead(p, s, &p->servers[best & (GI_CAPACITY - 1u)])))
		return index;
	return best;
}

/*
 * Replenishes what is due and assigns the core; results in cores[].payer, until and changed, which is also returned.
 * Idle servers are left alone: what became due for them is booked when they wake or are looked at. O(servers).
 */
static inline gi_u32 gi_decide(struct gi_pool *p, gi_u64 now)
{
	gi_u32 i, best = GI_NOBODY;

	now = gi_advance(p, now);
	p->until = GI_NEVER;
	for (i = 0; i < GI_CAPACITY && i < p->count; i++)
		best = gi_consider(p, i, best);
	if (best != GI_NOBODY) {
		const struct gi_server *s = &p->servers[best & (GI_CAPACITY - 1u)];

		if (s->kind != GI_UNLIMITED && now + (gi_u64)s->left < p->until)
			p->until = now + (gi_u64)s->left;
	}
	p->changed = best != p->cores[0].payer;
	p->cores[0].payer = best;
	return p->changed;
}

/* The server as it stands at the pool's time, with what became due for it while it was idle. */
static inline void gi_look(const struct gi_pool *p, gi_u32 index, struct gi_server *seen)
{
	*seen = p->servers[index & (GI_CAPACITY - 1u)];
	gi_settle(seen, p->now);
}

#endif
