// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The packet token bucket of one virtual interface, before anything else that the host does with its packets. Both
 * directions share the bucket, since both cost the host processor time. What finds no token is dropped; or, where the
 * sender's own end has a queue that can hold it (fq), it is sent when its token is there, and what is for the interface
 * takes its token ahead.
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

struct counted {
	struct bpf_spin_lock lock;
	gi_u32 pad;
	gi_u64 version; /* of the goal in force */
	struct gi_bucket bucket;
	gi_u64 passed[2]; /* packets FROM the interface, TO it */
	gi_u64 dropped[2];
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

static __always_inline int limit(struct __sk_buff *packet, gi_u32 direction)
{
	gi_u64 version, num, den, burst, tokens, now;
	gi_u32 zero = 0, how;
	struct goal *to = bpf_map_lookup_elem(&goal, &zero);
	struct counted *c = bpf_map_lookup_elem(&counted, &zero);
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
	tokens = how & SEGMENTS && packet->gso_segs ? packet->gso_segs : 1;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&c->lock);
	if (!c->version)
		gi_bucket_init(&c->bucket, num, den, burst, burst, now);
	else if (c->version != version)
		gi_bucket_set(&c->bucket, num, den, burst, now);
	c->version = version;
	if (!(how & DELAYS))
		release = gi_bucket_admit(&c->bucket, tokens, now) ? (gi_s64)now : -1;
	else if (c->bucket.at <= now + LONGEST)
		release = gi_bucket_take(&c->bucket, tokens, now);
	if (release >= 0)
		c->passed[direction]++;
	else
		c->dropped[direction]++;
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
	return limit(packet, FROM);
}

SEC("classifier")
int giusto_to(struct __sk_buff *packet)
{
	return limit(packet, TO);
}

/* At the sender's own end, where only the sender pays for what is dropped. */
SEC("classifier")
int giusto_sent(struct __sk_buff *packet)
{
	return limit(packet, FROM);
}

char LICENSE[] SEC("license") = "GPL";
