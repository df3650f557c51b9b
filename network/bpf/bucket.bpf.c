// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The packet token buckets of virtual interfaces, before anything else that the host does with their packets: one for
 * what each sends and one for what is sent to it, as both cost the host processor time and neither may eat the other's
 * tokens. Each counts packets, and bytes too where the plan says so. What finds no token is dropped; or, where the
 * sender's own end has a queue that can hold it (fq), it is sent when its token is there.
 *
 * Which packets find tokens is decided flow by flow (share()), as no queue stands in front: while packets are refused,
 * a flow that takes more than its share leaves half of the bucket to the others.
 *
 * The sender's own end is not the host's: raw sockets and XDP bypass it, and root there takes the program off. So each
 * packet that passes the bucket there leaves tickets, one a segment, for the time at which it is released, and the
 * host's end takes them; what has none is dropped. Segments, as what is cut there may be joined again here.
 *
 * The algorithm is policy/bucket.h. A new rate and burst come into force with the next packet.
 *
 * The programs are loaded once for many interfaces, as the kernel takes tens of ms to verify each. Which interface a
 * packet is of is what its filter has as `classid`, or the entry of its link writes there (src/tcx.rs): 1 and on.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "bucket.h"

/* No packet waits longer for its token; and beside other flows none of a flow that takes more than its share. */
#define LONGEST 1000000000ull /* 1 s */
#define SHORT 20000000ull     /* 20 ms */

/* As `Goal` and `Counted` of src/bank.rs: one each of what it sends and of what is sent to it. */
struct goal {
	struct bpf_spin_lock lock;
	gi_u32 how;	/* SEGMENTS, DELAYS, BYTES */
	gi_u64 version; /* 0: nothing is limited yet */
	gi_u64 num;	/* of packets, as policy/bucket.h has them */
	gi_u64 den;
	gi_u64 burst;
	gi_u64 packet; /* so long a packet takes to flow in, in ns / 2^16 */
	gi_u64 half;   /* and half of the burst, in ns */
	gi_u64 byte;   /* and a byte, rounded up; and all bytes at once, in ns */
	gi_u64 bytes;
};

#define FROM 0u
#define TO 1u
#define SEGMENTS 1u /* counts what a packet will be cut into, else each buffer as one */
#define DELAYS 2u
#define BYTES 4u /* counts them, too; the last of these */

/*
 * What is known of values by now is read back from memory: else the verifier would walk every path from here on for
 * each path that led here.
 */
#define FORGET() __asm__ volatile("" : : : "memory")

/* No packet counts as less. */
#define SMALLEST 64u

/* Flows that are told apart in each direction; those of one hash share a place, for 8.6 s. */
#define FLOWS 256u
#define MIX 33

/* A time in which flows are counted: 2^ROUND ns, 1.1 s. For as long as that after a refusal flows have shares. */
#define ROUND 30

struct flow {
	gi_u64 next;  /* until then it has had its share, in ns */
	gi_u32 round; /* in which it was seen last, and took more than its share last */
	gi_u32 greedy;
};

/* Tickets of the packets that are released in one piece of time: 2^PIECE ns, 4.2 ms. */
#define PIECE 22
#define PIECES 256u /* more than LONGEST */
#define LATE 6u	    /* so many pieces later they have lapsed: 21 to 25 ms */

struct tickets {
	gi_u32 piece; /* the time's number */
	gi_u32 left;
};

struct counted {
	struct bpf_spin_lock lock;
	gi_u32 round;	/* the last one in which packets came */
	gi_u64 version; /* of the goal in force */
	struct gi_bucket bucket;
	struct gi_bucket next; /* while a packet is looked at */
	gi_s64 release;
	gi_u64 until; /* all bytes that have passed are paid for, in ns and ns / 2^16 */
	gi_u64 rest;
	gi_u64 refused;	 /* when a packet was refused last, in ns */
	gi_u32 flows[2]; /* of this round, and of the one before */
	gi_u32 greedy[2];
	gi_u64 wanted[2]; /* most tokens, and bytes in ns, that a flow within its share did not find in this round */
	struct tickets tickets[PIECES];
};

/* Packets so far, to be read without a system call. Changed under the lock of `counted`. */
struct count {
	gi_u64 passed;
	gi_u64 dropped;
	gi_u64 bypassed; /* packets that came to the host's end without a ticket */
};

/* Each of an interface and direction; made as large as interfaces need. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, gi_u32);
	__type(value, struct goal);
} goal SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, gi_u32);
	__type(value, struct counted);
} counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, gi_u32);
	__type(value, struct count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FLOWS);
	__type(key, gi_u32);
	__type(value, struct flow);
} flows SEC(".maps");

/* Where entries of links go on, in the order of `Direction` of src/tc.rs. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__type(key, gi_u32);
	__type(value, gi_u32);
} programs SEC(".maps");

/* Its place in the maps; beyond them for a packet whose filter has no classid. */
static __always_inline gi_u32 place(struct __sk_buff *packet, gi_u32 direction)
{
	return 2 * (packet->tc_classid - 1) + direction;
}

static __always_inline gi_u32 segments(struct __sk_buff *packet)
{
	gi_u32 size = packet->gso_size;

	if (packet->gso_segs)
		return packet->gso_segs;
	return size ? (packet->len + size - 1) / size : 1; /* a raw socket need not say */
}

/* All ones if one instant is later than the other, else 0. */
static __always_inline gi_u64 later(gi_u64 one, gi_u64 other)
{
	gi_u64 is = (other - one) >> 63;

	GI_BUCKET_KEEP(is);
	return -is;
}

/* Counts the flows of a round. */
static __always_inline gi_u32 see(struct counted *c, struct flow *flow, gi_u64 now)
{
	gi_u32 round = (now >> ROUND) + 1;

	if (c->round != round) {
		c->flows[1] = c->round + 1 == round ? c->flows[0] : 0;
		c->greedy[1] = c->round + 1 == round ? c->greedy[0] : 0;
		c->flows[0] = c->greedy[0] = 0;
		c->wanted[0] = c->wanted[1] = 0;
		c->round = round;
	}
	if (flow->round != round) {
		flow->round = round;
		c->flows[0]++;
	}
	return round;
}

/*
 * When a flow will have had its share, if this packet is of it: later than now, and it is not. The rate is shared by as
 * many as take more than theirs and one more; each saves up as much as half of the burst takes to flow in.
 */
static __always_inline gi_u64 share(struct counted *c, struct flow *flow, gi_u64 cost, gi_u64 half, gi_u64 now)
{
	gi_u64 count = c->greedy[0] > c->greedy[1] ? c->greedy[0] : c->greedy[1];
	gi_u64 next = flow->next;

	cost *= count + 1;
	if (half < cost)
		half = cost;
	if (next + half < now)
		next = now - half;
	return next + cost;
}

/*
 * Whether a packet of n leaves so much of a bucket that no other flow misses it: half of it, or what a flow within its
 * share looked for in vain; a large one may take the rest where no other flow takes more than its share.
 */
static __always_inline int is_spare(gi_u64 left, gi_u64 n, gi_u64 all, gi_u64 wanted, int lone)
{
	gi_u64 keep = all / 2;

	if (lone && n > all / 4)
		return 1;
	if (keep < wanted)
		keep = wanted;
	if (keep > all - n)
		keep = all - n;
	return left >= keep;
}

static __always_inline int limit(struct __sk_buff *packet, gi_u32 direction, int leave)
{
	gi_u64 version, half, num, den, burst, now, n, then, cost, per_packet, per_byte, bytes, until, paid, ahead;
	gi_u32 how, round, piece, size = segments(packet), of_flow, length = packet->len, at = place(packet, direction);
	struct goal *to = bpf_map_lookup_elem(&goal, &at);
	struct counted *c = bpf_map_lookup_elem(&counted, &at);
	struct count *count = bpf_map_lookup_elem(&counts, &at);
	struct tickets *tickets;
	struct flow *flow;
	gi_s64 release;
	int lone, fair, passes;

	now = bpf_ktime_get_ns();
	of_flow = (bpf_get_hash_recalc(packet) ^ (gi_u32)(now >> MIX)) * 2654435769u >> 24;
	of_flow += at * FLOWS;
	flow = bpf_map_lookup_elem(&flows, &of_flow);
	if (!to || !c || !count || !flow)
		return TC_ACT_UNSPEC;
	bpf_spin_lock(&to->lock);
	how = to->how;
	version = to->version;
	num = to->num;
	den = to->den;
	burst = to->burst;
	per_packet = to->packet;
	half = to->half;
	per_byte = to->byte;
	bytes = to->bytes;
	bpf_spin_unlock(&to->lock);
	if (!version)
		return TC_ACT_UNSPEC;
	if (!leave)
		how &= ~DELAYS; /* only at the sender's own end */
	n = how & SEGMENTS ? size : 1;
	if (length < SMALLEST)
		length = SMALLEST;
	bpf_spin_lock(&c->lock);
	if (!c->version)
		gi_bucket_init(&c->bucket, num, den, burst, burst, now);
	else if (c->version != version)
		gi_bucket_set(&c->bucket, num, den, burst, now);
	c->version = version;
	FORGET();
	c->next = c->bucket;
	FORGET();
	/*
	 * Bytes by virtual scheduling, without a division: no earlier than `then` are they there. Without a branch, as
	 * each would double the paths through what follows.
	 */
	ahead = later(c->until, now);
	until = now + ((c->until - now) & ahead);
	paid = length * per_byte + (c->rest & ahead);
	then = until + (paid >> 16) + 1 - bytes;
	then = now + ((then - now) & later(then, now) & -(gi_u64)(how / BYTES));
	c->release = -1;
	if (how & DELAYS)
		c->release = gi_bucket_take(&c->next, n, then);
	else if (then == now && gi_bucket_admit(&c->next, n, now))
		c->release = now;
	FORGET();
	release = c->release;
	passes = release >= 0 && release <= (gi_s64)(now + LONGEST);
	round = see(c, flow, now);
	cost = n * per_packet;
	if (how & BYTES && length * per_byte > cost)
		cost = length * per_byte;
	then = share(c, flow, cost >> 16, half, now);
	fair = then <= now;
	if (!fair && flow->greedy != round) {
		flow->greedy = round;
		c->greedy[0]++;
	}
	lone = c->greedy[0] < 2 && c->greedy[1] < 2;
	paid >>= 16;
	n *= GI_BUCKET_TOKEN;
	/* While packets are refused, what exceeds the share of its flow takes nothing that others might miss. */
	if (passes && !fair && how & DELAYS) {
		passes = (c->flows[0] < 2 && c->flows[1] < 2) || release < (gi_s64)(now + SHORT);
	} else if (passes && !fair && now - c->refused < 1ull << ROUND) {
		passes = is_spare(c->next.level, n, burst, c->wanted[0], lone);
		if (passes && how & BYTES)
			passes = is_spare(now + bytes - until - paid, paid, bytes, c->wanted[1], lone);
	} else if (!passes && fair) {
		if (c->wanted[0] < n)
			c->wanted[0] = n;
		if (how & BYTES && c->wanted[1] < paid)
			c->wanted[1] = paid;
	}
	if (passes) {
		c->bucket = c->next;
		if (how & BYTES) {
			/* What flows into a full bucket is lost. */
			ahead &= ~later(release, until);
			until = until < (gi_u64)release ? (gi_u64)release : until;
			paid = length * per_byte + (c->rest & ahead);
			c->rest = paid & 0xffff;
			c->until = until + (paid >> 16);
		}
		if (fair)
			flow->next = then;
		count->passed++;
	} else {
		count->dropped++;
		c->refused = now;
	}
	if (leave && passes) {
		piece = release >> PIECE;
		tickets = &c->tickets[piece % PIECES];
		if (tickets->piece != piece)
			tickets->left = 0;
		tickets->piece = piece;
		tickets->left += size;
	}
	bpf_spin_unlock(&c->lock);
	if (!passes)
		return TC_ACT_SHOT;
	if (how & DELAYS)
		packet->tstamp = release;
	/* What passes is for the filters of others to judge. */
	return TC_ACT_UNSPEC;
}

/* At the host's end. */
SEC("classifier")
int giusto_from(struct __sk_buff *packet)
{
	return limit(packet, FROM, 0);
}

SEC("classifier")
int giusto_to(struct __sk_buff *packet)
{
	return limit(packet, TO, 0);
}

/* At the sender's own end, where only the sender pays for what is dropped. */
SEC("classifier")
int giusto_sent(struct __sk_buff *packet)
{
	return limit(packet, FROM, 1);
}

/* At the host's end of what was sent there. */
SEC("classifier")
int giusto_arrived(struct __sk_buff *packet)
{
	gi_u32 at = place(packet, FROM), back, piece = bpf_ktime_get_ns() >> PIECE, size = segments(packet), some;
	struct counted *c = bpf_map_lookup_elem(&counted, &at);
	struct count *count = bpf_map_lookup_elem(&counts, &at);
	struct tickets *tickets;

	if (!c || !count)
		return TC_ACT_UNSPEC;
	bpf_spin_lock(&c->lock);
	/* The oldest first: they lapse first. Unrolled, as the verifier of Linux 6.1 loses count of the rounds. */
#pragma unroll
	for (back = 0; back < LATE; back++) {
		gi_u32 then = piece - (LATE - 1 - back);

		tickets = &c->tickets[then % PIECES];
		some = tickets->piece == then ? tickets->left : 0;
		if (some > size)
			some = size;
		tickets->left -= some;
		size -= some;
	}
	count->bypassed += size > 0;
	bpf_spin_unlock(&c->lock);
	return size ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
