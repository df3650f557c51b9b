// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What arrives at an uplink is sorted before the host works on it. Packets for an interface of the high class go on in
 * the uplink's thread, above all others, as far as the buckets of the uplink and of that interface have tokens; so does
 * what looks for addresses, as far as its own small bucket has. All others are processed on the same core by a thread
 * without a priority (a cpumap's), and dropped when too many wait for it. So a flood from outside costs the high class
 * the sorting.
 *
 * The buckets are policy/bucket.h. New rates and bursts come into force with the next packet.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bucket.h"

/* As `Goal`, `Lane` and `Address` of src/sorter.rs. */
struct goal {
	struct bpf_spin_lock lock;
	gi_u32 core;	/* of the uplink's: where all others are processed */
	gi_u64 version; /* 0: nothing passes */
	gi_u64 num;
	gi_u64 den;
	gi_u64 burst;
};

struct lane {
	struct bpf_spin_lock lock;
	gi_u32 pad;
	gi_u64 version; /* of the goal in force */
	struct gi_bucket bucket;
	gi_u64 passed;
	gi_u64 beyond;
};

#define UPLINK 0u
#define ANNOUNCEMENTS 1u
#define LANES 4096u /* interfaces from 2 on */

/* UDP ports of VXLAN: the registered one, and that of Linux before there was one. */
#define VXLAN 4789
#define VXLAN_LINUX 8472
#define VXLAN_HEADER 8

struct address {
	unsigned char bytes[16]; /* of a network card, or of IPv6; IPv4 as IPv6 writes it */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES);
	__type(key, gi_u32);
	__type(value, struct goal);
} goals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES);
	__type(key, gi_u32);
	__type(value, struct lane);
} lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct address);
	__type(value, gi_u32);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1); /* made as many as there are cores */
	__type(key, gi_u32);
	__type(value, struct bpf_cpumap_val);
} others SEC(".maps");

/* Packets for others: handed over, and taken there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, gi_u32);
	__type(value, gi_u64);
} handed SEC(".maps");

static __always_inline void count(gi_u32 what)
{
	gi_u64 *value = bpf_map_lookup_elem(&handed, &what);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline int admit(gi_u32 number)
{
	struct goal *goal = bpf_map_lookup_elem(&goals, &number);
	struct lane *lane = bpf_map_lookup_elem(&lanes, &number);
	gi_u64 version, num, den, burst, now = bpf_ktime_get_ns();
	int passes;

	if (!goal || !lane)
		return 0;
	bpf_spin_lock(&goal->lock);
	version = goal->version;
	num = goal->num;
	den = goal->den;
	burst = goal->burst;
	bpf_spin_unlock(&goal->lock);
	if (!version)
		return 0;
	bpf_spin_lock(&lane->lock);
	if (!lane->version)
		gi_bucket_init(&lane->bucket, num, den, burst, burst, now);
	else if (lane->version != version)
		gi_bucket_set(&lane->bucket, num, den, burst, now);
	lane->version = version;
	passes = gi_bucket_admit(&lane->bucket, 1, now);
	if (passes)
		lane->passed++;
	else
		lane->beyond++;
	bpf_spin_unlock(&lane->lock);
	return passes;
}

/* The Ethernet frame in a datagram of VXLAN; 0: it is none. */
static __always_inline void *frame_in(struct udphdr *udp, void *end)
{
	if ((void *)(udp + 1) > end)
		return 0;
	if (udp->dest != bpf_htons(VXLAN) && udp->dest != bpf_htons(VXLAN_LINUX))
		return 0;
	return (void *)(udp + 1) + VXLAN_HEADER;
}

/* The lane of a packet; 0: none. `frame`: the one that it carries. */
static __always_inline gi_u32 lane_of(void *data, void *end, void **frame)
{
	struct ethhdr *ethernet = data;
	struct address to = {};
	void *next = ethernet + 1;
	__be16 kind;
	gi_u32 *found;
	int tags;

	if (next > end)
		return 0;
	__builtin_memcpy(to.bytes, ethernet->h_dest, ETH_ALEN);
	found = bpf_map_lookup_elem(&addresses, &to);
	if (found)
		return *found;
	kind = ethernet->h_proto;
	for (tags = 0; tags < 2 && (kind == bpf_htons(ETH_P_8021Q) || kind == bpf_htons(ETH_P_8021AD)); tags++) {
		__be16 *tag = next;

		next = tag + 2;
		if (next > end)
			return 0;
		kind = tag[1];
	}
	__builtin_memset(&to, 0, sizeof(to));
	if (kind == bpf_htons(ETH_P_ARP))
		return ANNOUNCEMENTS;
	if (kind == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = next;

		if ((void *)(ip + 1) > end)
			return 0;
		to.bytes[10] = to.bytes[11] = 0xff;
		__builtin_memcpy(to.bytes + 12, &ip->daddr, 4);
		/* Its sender writes no options; of a later fragment there is no header. */
		if (ip->protocol == IPPROTO_UDP && ip->ihl == 5 && !(ip->frag_off & bpf_htons(0x1fff)))
			*frame = frame_in((void *)(ip + 1), end);
	} else if (kind == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = next;
		unsigned char *type = (void *)(ip + 1);

		if ((void *)(type + 1) > end)
			return 0;
		if (ip->nexthdr == IPPROTO_UDP)
			*frame = frame_in((void *)(ip + 1), end);
		/* Solicitations and advertisements of routers and neighbours. */
		if (ip->nexthdr == IPPROTO_ICMPV6 && *type >= 133 && *type <= 136)
			return ANNOUNCEMENTS;
		__builtin_memcpy(to.bytes, &ip->daddr, 16);
	} else {
		return 0;
	}
	found = bpf_map_lookup_elem(&addresses, &to);
	return found ? *found : 0;
}

SEC("xdp.frags")
int giusto_sort(struct xdp_md *packet)
{
	void *end = (void *)(long)packet->data_end, *frame = 0, *inner = 0;
	gi_u32 uplink = UPLINK, lane = lane_of((void *)(long)packet->data, end, &frame);
	struct goal *goal;

	/* What is taken out of VXLAN here goes on in the same thread, so it is for whom the inner packet is. */
	if (!lane && frame)
		lane = lane_of(frame, end, &inner);

	/* A token of the interface is lost if the uplink has none. */
	if (lane && admit(lane) && (lane == ANNOUNCEMENTS || admit(UPLINK)))
		return XDP_PASS;
	goal = bpf_map_lookup_elem(&goals, &uplink);
	if (!goal)
		return XDP_PASS;
	count(0);
	return bpf_redirect_map(&others, goal->core, XDP_PASS);
}

SEC("xdp.frags/cpumap")
int giusto_taken(struct xdp_md *packet)
{
	(void)packet;
	count(1);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
