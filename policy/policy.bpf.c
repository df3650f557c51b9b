// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The policy core in the kernel, one call a run: a packet carries the call in and the result out, a map keeps the pool.
 * It schedules nothing; tests/replay.c runs it through BPF test_run to compare it with the native core.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "tests/call.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, gi_u32);
	__type(value, struct gi_pool);
} pools SEC(".maps");

SEC("tc")
int policy_call(struct __sk_buff *packet)
{
	gi_u32 zero = 0;
	struct gi_pool *pool = bpf_map_lookup_elem(&pools, &zero);
	struct gi_result result;
	struct gi_call call;

	if (!pool || bpf_skb_load_bytes(packet, 0, &call, sizeof(call)))
		return -1;
	gi_apply(pool, &call, &result);
	return bpf_skb_store_bytes(packet, 0, &result, sizeof(result), 0);
}

char LICENSE[] SEC("license") = "GPL";
