// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The packet token bucket of one virtual interface, before anything else that the host does with its packets. Both
 * directions share the bucket, since both cost the host processor time. What finds no token is dropped; or, where the
 * sender's own end has a queue that can hold it (fq), it is sent when its token is there, and what is for the interface
 * takes its token ahead.
 *
 * The sender's own end is not the host's: raw sockets and XDP bypass it, and root there takes the program off. So each
 * packet that passes the bucket there leaves tickets, one a segment, for the time at which it is released, and the
 * host's end takes them; what has none is dropped. Segments, as what is cut there may be joined again here.
 *
 * The algorithm is policy/bucket.h. A new rate and burst come into force with the next packet.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "bucket.h"

/* No packet waits longer for its token, or takes it further ahead. */
#define LONGEST 1000000000ull /* 1 s */

/* As `Goal` and `Counted` of src/bucket.rs. */
struct goal {
	struct bpf_spin_lock lock;
	gi_u32 how;	/* SEGMENTS, DELAYS */
	gi_u64 version; /* 0: nothing is limited yet */
	gi_u64 num;
	gi_u64 den;
	gi_u64 burst;
};

#define FROM 0u
#define TO 1u
#define SEGMENTS 1u /* counts what a packet will be cut into, else each buffer as one */
#define DELAYS 2u

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
	gi_u32 pad;
	gi_u64 version; /* of the goal in force */
	struct gi_bucket bucket;
	gi_u64 passed[2]; /* packets FROM the interface, TO it */
	gi_u64 dropped[2];
	gi_u64 bypassed; /* packets that came to the host's end without a ticket */
	struct tickets tickets[PIECES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, gi_u32);
	__type(value, struct goal);
} goal SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, gi_u32);
	__type(value, struct counted);
} counted SEC(".maps");

static __always_inline gi_u32 segments(struct __sk_buff *packet)
{
	gi_u32 size = packet->gso_size;

	if (packet->gso_segs)
		return packet->gso_segs;
	return size ? (packet->len + size - 1) / size : 1; /* a raw socket need not say */
}

static __always_inline int limit(struct __sk_buff *packet, gi_u32 direction, int leave)
{
	gi_u64 version, num, den, burst, tokens, now;
	gi_u32 zero = 0, how, piece, size = segments(packet);
	struct goal *to = bpf_map_lookup_elem(&goal, &zero);
	struct counted *c = bpf_map_lookup_elem(&counted, &zero);
	struct gi_bucket next;
	struct tickets *tickets;
	gi_s64 release = -1;

	if (!to || !c)
		return TC_ACT_UNSPEC;
	bpf_spin_lock(&to->lock);
	how = to->how;
	version = to->version;
	num = to->num;
	den = to->den;
	burst = to->burst;
	bpf_spin_unlock(&to->lock);
	if (!version)
		return TC_ACT_UNSPEC;
	tokens = how & SEGMENTS ? size : 1;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&c->lock);
	if (!c->version)
		gi_bucket_init(&c->bucket, num, den, burst, burst, now);
	else if (c->version != version)
		gi_bucket_set(&c->bucket, num, den, burst, now);
	c->version = version;
	next = c->bucket;
	if (how & DELAYS)
		release = gi_bucket_take(&next, tokens, now);
	else if (gi_bucket_admit(&next, tokens, now))
		release = now;
	if (release > (gi_s64)(now + LONGEST))
		release = -1;
	if (release >= 0) {
		c->bucket = next;
		c->passed[direction]++;
	} else {
		c->dropped[direction]++;
	}
	if (leave && release >= 0) {
		piece = release >> PIECE;
		tickets = &c->tickets[piece % PIECES];
		if (tickets->piece != piece)
			tickets->left = 0;
		tickets->piece = piece;
		tickets->left += size;
	}
	bpf_spin_unlock(&c->lock);
	if (release < 0)
		return TC_ACT_SHOT;
	if (how & DELAYS && direction == FROM)
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
	gi_u32 zero = 0, back, piece = bpf_ktime_get_ns() >> PIECE, size = segments(packet), some;
	struct counted *c = bpf_map_lookup_elem(&counted, &zero);
	struct tickets *tickets;

	if (!c)
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
	c->bypassed += size > 0;
	bpf_spin_unlock(&c->lock);
	return size ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
