// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Which thread each of some cores runs, and which threads wake up there: a timeline, for as long as it is looked at or
 * recorded (../src/timeline.rs).
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang diagnostic ignored "-Wunused-parameter" /* BPF_PROG's */

#define CHANGES (1 << 20) /* bytes that wait to be read */

struct task_struct {
	int pid;
	int tgid;
	int wake_cpu;
	char comm[16];
} __attribute__((preserve_access_index));

enum {
	RUNS = 1,  /* the thread has the core from now on */
	WAKES = 2, /* the thread wants a core from now on */
	STAYS = 4, /* with RUNS: the thread before it still wants the core */
};

/* What is read: CLOCK_MONOTONIC in ns; process and thread are 0 where the core is idle. The name is the thread's. */
struct change {
	__u64 at;
	__u32 core;
	__u32 process;
	__u32 thread;
	__u32 what;
	char name[16];
};

/* Cores that are looked at. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} cores SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, CHANGES);
} changes SEC(".maps");

/* Changes for which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void tell(__u32 core, struct task_struct *task, __u32 what)
{
	struct change *change;
	__u32 zero = 0;
	__u64 *none;

	if (!bpf_map_lookup_elem(&cores, &core))
		return;
	change = bpf_ringbuf_reserve(&changes, sizeof(*change), 0);
	if (!change) {
		none = bpf_map_lookup_elem(&lost, &zero);
		if (none)
			__sync_fetch_and_add(none, 1);
		return;
	}
	change->at = bpf_ktime_get_ns();
	change->core = core;
	change->process = task->tgid;
	change->thread = task->pid;
	change->what = what;
	__builtin_memcpy(change->name, task->comm, sizeof(change->name));
	bpf_ringbuf_submit(change, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switches, int preempt, struct task_struct *previous, struct task_struct *next, unsigned int state)
{
	tell(bpf_get_smp_processor_id(), next, RUNS | (preempt || !state ? STAYS : 0));
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(wakes, struct task_struct *task)
{
	tell(task->wake_cpu, task, WAKES);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
