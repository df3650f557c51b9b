/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Jobs and requests told one by one: all of them as long as they are recorded, and always those that take longer than
 * their service was promised (../src/passive/jobs.rs). */
#ifndef GIUSTO_JOBS_H
#define GIUSTO_JOBS_H

#define TOLD (1 << 19) /* bytes that wait to be read ... */
#define LATE (1 << 16) /* ... of late ones */

/* Times are CLOCK_MONOTONIC's, in ns. The thread: whose job it is, or which one answered the request. */
struct job {
	__u64 begun;
	__u64 ended;
	__u32 service;
	__u32 process;
	__u32 thread;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TOLD);
} told SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, LATE);
} late SEC(".maps");

/* What a job of each service may take, in ns; 0: as long as it likes. User space says how many services. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} within SEC(".maps");

/* Whether all jobs are recorded now. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} recorded SEC(".maps");

/* Jobs for which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} untold SEC(".maps");

static __always_inline void tell_job(__u32 service, __u64 begun, __u64 ended, __u32 process, __u32 thread)
{
	struct job job = {.begun = begun, .ended = ended, .service = service, .process = process, .thread = thread};
	__u32 zero = 0, *is_recorded = bpf_map_lookup_elem(&recorded, &zero);
	__u64 *lost, *may = bpf_map_lookup_elem(&within, &service);

	if (may && *may && ended - begun > *may)
		bpf_ringbuf_output(&late, &job, sizeof(job), BPF_RB_NO_WAKEUP);
	if (!is_recorded || !*is_recorded || !bpf_ringbuf_output(&told, &job, sizeof(job), BPF_RB_NO_WAKEUP))
		return;
	lost = bpf_map_lookup_elem(&untold, &zero);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

#endif
