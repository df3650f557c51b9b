// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The token bucket in the kernel, one call a run: a packet carries bucket and call in and out. It shapes nothing. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "tests/bucket_call.h"

SEC("tc")
int bucket_call(struct __sk_buff *packet)
{
	struct gi_bucket_call call;

	if (bpf_skb_load_bytes(packet, 0, &call, sizeof(call)))
		return -1;
	gi_bucket_apply(&call);
	return bpf_skb_store_bytes(packet, 0, &call, sizeof(call), 0);
}

char LICENSE[] SEC("license") = "GPL";
