// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What the threads of managed servers do, told to the manager of their core: when a server's last running thread falls
 * asleep, when the first one wakes, which threads come and go, and how much processor time each server has consumed.
 *
 * All threads of a server are bound to one core, so that its run-queue lock orders everything that is counted here. The
 * time consumed is the kernel's own account (sum_exec_runtime), brought up to date at every switch: exact whenever none
 * of the server's threads is running, such as while the manager, bound to the same core, looks.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "watch.h"

#define TASK_DEAD 0x80 /* include/linux/sched.h */

struct sched_entity {
	__u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct {
	int pid;
	unsigned int __state;
	void *cgroups;
	struct sched_entity se;
} __attribute__((preserve_access_index));

/* The core of the manager, and of all that it watches. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} core SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WATCH_THREADS);
	__type(key, __u32);
	__type(value, struct watched);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WATCH_SERVERS);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WATCH_EVENTS);
} events SEC(".maps");

static __always_inline struct watched *watched(struct task_struct *task)
{
	__u32 tid = BPF_CORE_READ(task, pid);

	return bpf_map_lookup_elem(&threads, &tid);
}

static __always_inline struct account *account(struct watched *thread)
{
	return bpf_map_lookup_elem(&accounts, &thread->server);
}

static __always_inline void tell(__u32 what, struct watched *thread, struct account *a, __u32 tid, __u32 wakes)
{
	__u32 urgent = a->urgent & wakes || what == WATCH_MOVED;
	struct event *event = NULL;

	/* The second half is for what wakes the manager: a flood of the rest must not keep it asleep. */
	if (urgent || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) < WATCH_EVENTS / 2)
		event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) { /* full: the manager has to count anew */
		__sync_fetch_and_add(&a->lost, 1);
		return;
	}
	event->at = bpf_ktime_get_ns();
	event->ran = a->ran;
	event->server = thread->server;
	event->what = what;
	event->tid = tid;
	event->pad = 0;
	bpf_ringbuf_submit(event, urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void consume(struct watched *thread, struct account *a, struct task_struct *task)
{
	__u64 total = BPF_CORE_READ(task, se.sum_exec_runtime);

	if (!thread->task || thread->task == (__u64)task) /* numbers change hands */
		a->ran += total - thread->total;
	thread->task = (__u64)task;
	thread->total = total;
}

/* A thread is where its manager does not stop it. Told once until the manager has looked. */
static __always_inline void stray(struct watched *thread, __u32 tid)
{
	struct account *a = account(thread);

	if (a && !__sync_lock_test_and_set(&a->astray, 1))
		tell(WATCH_MOVED, thread, a, tid, WATCH_MOVED);
}

/* At the end of a switch, the run-queue lock held. */
SEC("raw_tp/sched_switch")
int switched(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *previous = (void *)ctx->args[1], *next = (void *)ctx->args[2];
	__u32 tid = BPF_CORE_READ(previous, pid);
	__u32 zero = 0, *own = bpf_map_lookup_elem(&core, &zero);
	struct watched *thread;
	struct account *a;

	if (own && *own != bpf_get_smp_processor_id()) {
		thread = watched(next);
		if (thread)
			stray(thread, BPF_CORE_READ(next, pid));
	}
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread)
		return 0;
	a = account(thread);
	if (!a)
		return 0;
	consume(thread, a, previous);
	/* A pending signal makes it running again after its state was read. */
	if (ctx->args[0] || !ctx->args[3] || !BPF_CORE_READ(previous, __state))
		return 0;
	if (!thread->asleep) {
		thread->asleep = 1;
		__sync_fetch_and_sub(&a->awake, 1);
	}
	if (ctx->args[3] & TASK_DEAD) {
		a->threads--;
		tell(WATCH_GONE, thread, a, tid, WATCH_GONE);
	}
	if (!a->awake && !a->parked)
		tell(WATCH_IDLE, thread, a, tid, WATCH_IDLE);
	if (ctx->args[3] & TASK_DEAD)
		bpf_map_delete_elem(&threads, &tid);
	return 0;
}

static __always_inline int woke(struct task_struct *task)
{
	struct watched *thread = watched(task);
	struct account *a;

	if (!thread || !thread->asleep)
		return 0;
	a = account(thread);
	if (!a)
		return 0;
	thread->asleep = 0;
	if (!__sync_fetch_and_add(&a->awake, 1))
		tell(WATCH_READY, thread, a, 0, WATCH_READY);
	return 0;
}

SEC("raw_tp/sched_wakeup")
int wakes(struct bpf_raw_tracepoint_args *ctx)
{
	return woke((void *)ctx->args[0]);
}

SEC("raw_tp/sched_wakeup_new")
int begins(struct bpf_raw_tracepoint_args *ctx)
{
	return woke((void *)ctx->args[0]);
}

/* Children belong to the server of their parent, from birth. */
SEC("raw_tp/sched_process_fork")
int forked(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *child = (void *)ctx->args[1], *forks = (void *)ctx->args[0];
	struct watched *parent = watched(forks);
	struct watched born = {.asleep = 1};
	struct account *a;
	__u32 tid;

	if (!parent)
		return 0;
	a = account(parent);
	if (!a)
		return 0;
	born.server = parent->server;
	born.task = (__u64)child;
	born.total = BPF_CORE_READ(child, se.sum_exec_runtime);
	tid = BPF_CORE_READ(child, pid);
	if (bpf_map_update_elem(&threads, &tid, &born, BPF_ANY)) {
		__sync_fetch_and_add(&a->lost, 1);
		return 0;
	}
	__sync_fetch_and_add(&a->threads, 1);
	tell(WATCH_NEW, &born, a, tid, WATCH_NEW);
	/* Born in another cgroup (CLONE_INTO_CGROUP). */
	if (BPF_CORE_READ(child, cgroups) != BPF_CORE_READ(forks, cgroups))
		stray(&born, tid);
	return 0;
}

/* A process is told by its first thread. */
SEC("raw_tp/cgroup_attach_task")
int moved(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[2];
	struct watched *thread = watched(task);

	if (thread)
		stray(thread, BPF_CORE_READ(task, pid));
	return 0;
}

/*
 * A thread that executes a program ends all others of its process and takes the number of the first one, which may have
 * been switched away from for the last time, or not yet: then it does so under the number that it got in exchange.
 */
SEC("raw_tp/sched_process_exec")
int becomes(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 old = ctx->args[1], tid = BPF_CORE_READ(task, pid);
	struct watched *thread = bpf_map_lookup_elem(&threads, &old), *first, moved;
	struct account *a;

	if (old == tid || !thread)
		return 0;
	a = account(thread);
	if (!a)
		return 0;
	moved = *thread;
	first = bpf_map_lookup_elem(&threads, &tid);
	if (first) {
		*thread = *first;
		*first = moved;
		return 0;
	}
	if (bpf_map_update_elem(&threads, &tid, &moved, BPF_ANY)) {
		__sync_fetch_and_add(&a->lost, 1);
		return 0;
	}
	bpf_map_delete_elem(&threads, &old);
	tell(WATCH_NEW, &moved, a, tid, WATCH_NEW);
	tell(WATCH_GONE, &moved, a, old, WATCH_GONE);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
