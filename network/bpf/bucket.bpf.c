// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The packet token bucket of one virtual interface, before anything else that the host does with its packets: what
 * finds no token is dropped. Both directions share the bucket, since both cost the host processor time.
 *
 * The algorithm is policy/bucket.h. A new rate and burst come into force with the next packet.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "bucket.h"

/* As `Goal` and `Counted` of src/bucket.rs. */
struct goal {
	struct bpf_spin_lock lock;
	gi_u32 segments; /* counts what a packet will be cut into, else each buffer as one */
	gi_u64 version;	 /* 0: nothing is limited yet */
	gi_u64 num;
	gi_u64 den;
	gi_u64 burst;
};

struct counted {
	struct bpf_spin_lock lock;
	gi_u32 pad;
	gi_u64 version; /* of the goal in force */
	struct gi_bucket bucket;
	gi_u64 passed[2]; /* packets from the interface, to it */
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
	gi_u32 zero = 0, segments;
	struct goal *to = bpf_map_lookup_elem(&goal, &zero);
	struct counted *c = bpf_map_lookup_elem(&counted, &zero);
	int there;

	if (!to || !c)
		return TC_ACT_UNSPEC;
	bpf_spin_lock(&to->lock);
	segments = to->segments;
	version = to->version;
	num = to->num;
	den = to->den;
	burst = to->burst;
	bpf_spin_unlock(&to->lock);
	if (!version)
		return TC_ACT_UNSPEC;
	tokens = segments && packet->gso_segs ? packet->gso_segs : 1;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&c->lock);
	if (!c->version)
		gi_bucket_init(&c->bucket, num, den, burst, burst, now);
	else if (c->version != version)
		gi_bucket_set(&c->bucket, num, den, burst, now);
	c->version = version;
	there = gi_bucket_admit(&c->bucket, tokens, now);
	if (there)
		c->passed[direction]++;
	else
		c->dropped[direction]++;
	bpf_spin_unlock(&c->lock);
	/* What passes is for the filters of others to judge. */
	return there ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

SEC("classifier")
int giusto_from(struct __sk_buff *packet)
{
	return limit(packet, 0);
}

SEC("classifier")
int giusto_to(struct __sk_buff *packet)
{
	return limit(packet, 1);
}

char LICENSE[] SEC("license") = "GPL";
