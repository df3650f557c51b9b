/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What a pool consists of, and whole-number arithmetic that cannot overflow. */
#ifndef GIUSTO_POLICY_TYPES_H
#define GIUSTO_POLICY_TYPES_H

typedef __UINT64_TYPE__ gi_u64;
typedef __INT64_TYPE__ gi_s64;
typedef __UINT32_TYPE__ gi_u32;
typedef __UINT16_TYPE__ gi_u16;

/* Powers of two: indices are masked, for the BPF verifier. Less can be chosen for a proof. */
#ifndef GI_CAPACITY
#define GI_CAPACITY 1024u /* servers a pool */
#endif
#ifndef GI_CORES
#define GI_CORES 64u /* cores a pool; `changed` has a bit for each */
#endif
#ifndef GI_CHUNKS
#define GI_CHUNKS 8u /* parts that a sporadic server's budget may be in */
#endif
#define GI_REFILLS 64u	     /* replenishments a decision; more wait for the next, which is then due at once */
#define GI_STRETCHES 128u    /* parts in which a late charge of a sporadic server is taken; beyond, all is boosted */
#define GI_SIFT 12u	     /* more than the height of a full heap */
#define GI_NONE (~0u)	     /* no server, no place */
#define GI_NEVER (~0ull)     /* a time that does not come */
#define GI_LAST (1ull << 62) /* the last instant and longest period (146 years): sums stay below 2^63 */

/*
 * The BPF verifier checks a global function once, wherever it is called from; inlined into a loop, it would walk every
 * path anew for every server and give up. A global function there returns a scalar and cannot trust its pointers.
 */
#ifdef __bpf__
#define GI_STEP __attribute__((noinline))
#else
#define GI_STEP static inline __attribute__((unused))
#endif

/* Keeps the compiler from asking what a value is, where the BPF verifier would walk every path through the answers. */
#ifdef __bpf__
#define GI_KEEP(value) __asm__("" : "+r"(value))
#else
#define GI_KEEP(value) ((void)0)
#endif

enum gi_order { GI_FIXED_PRIORITY, GI_EDF, GI_MIXED_CRITICALITY };
enum gi_mode { GI_LO, GI_HI };
enum gi_back { GI_BACK_IDLE, GI_BACK_TEMPERATURE };
enum gi_when { GI_NOW, GI_NEXT_PERIOD };
enum gi_refusal { GI_FULL = -1, GI_BAD_RESERVATION = -2, GI_BAD_FIRST = -3, GI_BAD_KIND = -4, GI_UNKNOWN = -5 };
/*
 * The heaps of a pool. A server is in one of READY, IDLE, DRY and FIRST at most, ordered by rank, and maybe in REFILL,
 * ordered by event; ties go to the lower index.
 */
enum gi_heap {
	GI_READY,  /* ready, with budget, but not in FIRST */
	GI_IDLE,   /* idle and periodic, with budget, which it would burn, but not in FIRST */
	GI_DRY,	   /* ready without budget: reclaiming, it may run on what is lent; high, on what is left over */
	GI_REFILL, /* waiting for a replenishment that a decision has to make */
	GI_FIRST,  /* who of READY and IDLE the last decision gave a core; the last of them on top */
	GI_HEAPS,
	GI_PLACES = GI_HEAPS,	  /* only while an order is told: those that come next, by `place` */
	GI_LAST_RESORT = GI_IDLE, /* mixed criticality, no server burns: ready, but no high server comes after it */
	GI_OUTSIDE = GI_HEAPS,
	GI_ALL_HEAPS = 8, /* a power of two, for masks */
};

/* Of a place in the order. */
enum gi_mark {
	GI_KEEPS = 1 << 16,	/* idle, it burns and keeps a core */
	GI_LEFTOVERS = 1 << 17, /* no claim: it runs on what is left over */
};

/* A part of a sporadic server's budget, and when it may be used again. */
struct gi_chunk {
	gi_u64 time;
	gi_u64 amount;
};

struct gi_server {
	gi_u64 budget;
	gi_u64 period;
	gi_u64 deadline; /* the grid's next replenishment, or the CBS deadline, or a period after a sporadic head */
	gi_s64 left;	 /* budget left; below 0 is debt, which replenishments repay */
	gi_u64 rank;	 /* place in the pool's order: priority or deadline */
	gi_u64 place;	 /* the rank that it has or would have if it were ready, while an order is told */
	gi_u64 event;	 /* when a decision has to replenish it, or GI_NEVER */
	gi_u32 at[3];	 /* where it is in its heap, in GI_REFILL and in GI_PLACES */
	gi_u32 heap;	 /* which of those ordered by rank it is in, or GI_OUTSIDE */
	gi_u32 home;	 /* which of READY and IDLE it came to FIRST from */
	gi_u32 core;	 /* 1 + the core that it has, or 0 */
	gi_u32 mark;	 /* of its place in the order */
	gi_u32 slot;	 /* 1 + its place among the chosen, during a decision */
	gi_u32 priority; /* smaller is higher */
	gi_u32 kind;
	gi_u32 ready;
	gi_u32 begun;	    /* its first replenishment has been */
	gi_u64 next_budget; /* a change that waits for the next period; 0 if there is none */
	gi_u64 next_period;
	gi_u64 next_at;	    /* when a sporadic server takes it: others do at their deadline, which moves only then */
	gi_u64 forgive;	    /* debt that came from shrinking the budget, not from running */
	gi_u64 boost_until; /* 0: not boosted */
	gi_u64 boost_ns;    /* what it consumed boosted beyond its budget */
	gi_u64 open;	    /* an instant at which an idle polling server keeps its budget: it may yet be ready there */
	gi_u64 used;	    /* consumed of the head chunk */
	gi_u32 chunks;	    /* how many there are; their amounts add up to the budget */
	gi_u32 next;	    /* of a free slot: the one that was freed before it, or GI_NONE */
	struct gi_chunk chunk[GI_CHUNKS];
	gi_u64 more; /* mixed: what the worst budget has beyond the optimistic one, which HI adds to `budget` */
	gi_u64 cut;  /* how much of `more` this job does not get, as the wake-up rule took it */
	gi_u64 lead; /* how long before its deadline the virtual one is */
	gi_u64 next_more;
	gi_u64 next_lead;
	gi_u32 high; /* of high criticality */
	gi_u32 hi;   /* its core is in HI, so `budget` is the worst one; set for an unlimited server that comes last */
	gi_u32 asks; /* ready, it has used its optimistic budget and the job has more */
	gi_u32 heated; /* and this job has heated the core for it */
};

/*
 * Consumption is accounted for where something depends on it. The payer of a core that is not in `look` has run since
 * charged_at and has budget up to `ends`; what others than gi_charge charge, it owes up to the pool's `full`.
 */
struct gi_core {
	gi_u64 charged_at; /* consumption is accounted for up to here */
	gi_u64 ends;	   /* when the payer's budget ends, if it runs throughout, or is replenished */
	gi_u32 runs;	   /* the server that has this core, or GI_NONE */
	gi_u32 payer;	   /* the server charged for it: itself, or GI_NONE if it runs on a lent budget */
};

struct gi_pool {
	gi_u64 now;	/* the latest time seen; an earlier one counts as this */
	gi_u64 until;	/* decide again at the latest then */
	gi_u64 refill;	/* the part of it that is the next replenishment */
	gi_u64 changed; /* cores whose server the last gi_decide changed, as a mask */
	gi_u64 vacated; /* those whose server was removed since, as a mask */
	gi_u64 freed;	/* from when on the bandwidth of the server that was removed last is free */
	gi_u64 burned;	/* burners are accounted for up to here */
	gi_u64 full;	/* up to here all payers ran throughout, but for what gi_charge said */
	gi_u64 due;	/* the earliest `ends` of a core */
	gi_u64 look;	/* cores whose servers have changed, or have to be charged with every call, as a mask */
	gi_u64 guests;	/* cores whose servers are not in FIRST, as a mask */
	gi_u32 order;
	gi_u32 m;     /* cores */
	gi_u32 count; /* slots in use or free; the others were never used */
	gi_u32 burners;
	gi_u32 resting; /* how many of FIRST are idle */
	gi_u32 boosts;
	gi_u32 chosen;
	gi_u32 taken;
	gi_u32 looked_past; /* heaps, as a mask, whose top has been chosen but not taken out yet */
	gi_u64 hot_until;   /* mixed criticality: then all high servers are cool */
	gi_u32 mode;	    /* GI_LO or GI_HI */
	gi_u32 degrees;	    /* periods for which asking keeps a high server hot */
	gi_u32 back;	    /* when HI ends */
	gi_u32 asking;	    /* how many servers ask */
	gi_u32 pending;	    /* how many high servers are ready */
	gi_u32 free;	    /* the slot that was freed last, or GI_NONE */
	gi_u32 placed;	    /* how many places the order has */
	struct gi_core core[GI_CORES];
	gi_u32 burner[GI_CORES]; /* idle periodic servers whose budget burns: those of FIRST at the last decision */
	gi_u32 rest[GI_CORES];	 /* the idle of FIRST, in order */
	gi_u32 boost[GI_CORES];	 /* boosted servers, first come first */
	gi_u32 choice[GI_CORES]; /* servers that get a core and may have none yet: those who are new in FIRST, others */
	gi_u32 pays[GI_CORES];	 /* whether each pays for itself */
	gi_u32 out[GI_CORES];	 /* servers taken out of their heaps during a decision */
	gi_u32 place[GI_CAPACITY]; /* the order that gi_order told, with marks */
	gi_u32 filled[GI_ALL_HEAPS];
	gi_u16 heap[GI_ALL_HEAPS][GI_CAPACITY];
	struct gi_server seen; /* what gi_look shows */
	struct gi_server server[GI_CAPACITY];
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

/* floor(a * b / c) for a c up to GI_LAST and a quotient below 2^64: long division, as BPF has none in 128 bits. */
GI_STEP gi_u64 gi_share(gi_u64 a, gi_u64 b, gi_u64 c)
{
	gi_u64 rest = gi_high(a, b), low = a * b, less;
	gi_u32 i;

	if (!c)
		return 0;
	if (!rest)
		return low / c;
	for (i = 0; i < 64; i++) { /* the quotient's bits come in from the right */
		rest = rest << 1 | low >> 63;
		less = (rest - c) >> 63;
		GI_KEEP(less);
		rest -= c & (less - 1);
		low = low << 1 | (1 - less);
	}
	return low;
}

static inline gi_u64 gi_max(gi_u64 a, gi_u64 b)
{
	return a > b ? a : b;
}

static inline gi_u64 gi_min(gi_u64 a, gi_u64 b)
{
	return a < b ? a : b;
}

/* What is left, 0 in debt. */
static inline gi_u64 gi_rest(const struct gi_server *s)
{
	return s->left > 0 ? (gi_u64)s->left : 0;
}

static inline struct gi_server *gi_at(struct gi_pool *p, gi_u32 index)
{
	return &p->server[index & (GI_CAPACITY - 1u)];
}

static inline int gi_boosted(const struct gi_server *s)
{
	return s->boost_until && s->ready;
}

#endif
