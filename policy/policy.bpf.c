// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The policy core in the kernel, one call a run: a packet carries the call in and the result out, a map keeps the pool.
 * It schedules nothing; tests/replay.c runs it through BPF test_run to compare it with the native core.
 *
 * One CPU at a time is in the core, and none waits for another: who finds it taken is told GI_TAKEN and leaves its call
 * to a later one. A bpf_spin_lock cannot be held instead: under one the verifier refuses global functions, without
 * which it gives up on the core.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "call.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, gi_u32);
	__type(value, struct gi_pool);
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, gi_u32);
	__type(value, gi_u64);
} taken SEC(".maps");

SEC("tc")
int policy_call(struct __sk_buff *packet)
{
	gi_u32 zero = 0;
	struct gi_pool *pool = bpf_map_lookup_elem(&pools, &zero);
	gi_u64 *by = bpf_map_lookup_elem(&taken, &zero);
	struct gi_result result;
	struct gi_call call;

	if (!pool || !by || bpf_skb_load_bytes(packet, 0, &call, sizeof(call)))
		return -1;
	if (__sync_val_compare_and_swap(by, 0, 1))
		return GI_TAKEN;
	gi_apply(pool, &call, &result);
	__sync_lock_test_and_set(by, 0);
	return bpf_skb_store_bytes(packet, 0, &result, sizeof(result), 0);
}

char LICENSE[] SEC("license") = "GPL";
