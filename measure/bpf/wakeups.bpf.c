// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Jobs of services whose threads sleep and wake, without touching them: a job begins when a thread is woken, and ends
 * when it goes back to sleep. Another thread may have its processor meanwhile, and it may be stopped: the job goes on.
 * What wakes it again belongs to the job that goes on.
 *
 * Both what begins a wake-up and what ends it are looked at: a thread that is just falling asleep may be woken before
 * its sleep is told, and is asleep here then until the wake-up's end.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "jobs.h"
#include "wakeups.h"

#pragma clang diagnostic ignored "-Wunused-parameter" /* BPF_PROG's */

#define TASK_STOPPED 4 /* include/linux/sched.h */
#define TASK_TRACED 8
#define TASK_DEAD 0x80
#define TASK_FROZEN 0x8000
#define JOBCTL_STOP_PENDING (1 << 17) /* include/linux/sched/jobctl.h */
#define JOBCTL_TRAP_STOP (1 << 19)
#define JOBCTL_TRAP_FREEZE (1 << 23)
/* SIGSTOP, SIGTSTP, SIGTTIN and SIGTTOU; all four have these numbers on x86 and arm64. */
#define STOP_SIGNALS (0xful << 18)

/* In less, in ns, a thread that was woken to be stopped, and let go on, finds that there is nothing to do. */
#define NOTHING 200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_entity {
	__u64 sum_exec_runtime;
};
struct sigset {
	unsigned long sig[1];
};
typedef struct sigset sigset_t;
struct sigpending {
	sigset_t signal;
};
struct signal_struct {
	struct sigpending shared_pending;
};
struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	unsigned long jobctl;
	struct signal_struct *signal;
	struct sched_entity se;
};
#pragma clang attribute pop

/* The process that watches; it stops services for a while. */
volatile const __u32 own;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SERVICES);
	__type(key, __u32);
	__type(value, struct jobs);
} services SEC(".maps");

/* The idle threads, which switch most, are nowhere. */
static __always_inline struct thread *watched(struct task_struct *task)
{
	__u32 tid = task->pid;

	return tid ? bpf_map_lookup_elem(&threads, &tid) : 0;
}

static __always_inline int is_stop(struct task_struct *task, __u64 state)
{
	return state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) || task->jobctl & JOBCTL_TRAP_FREEZE;
}

static __always_inline void woken(struct task_struct *task)
{
	struct thread *t = watched(task);

	if (!t || t->state != ASLEEP)
		return;
	t->begun = bpf_ktime_get_ns();
	t->stopped = 0;
	t->only_stops = bpf_get_current_pid_tgid() >> 32 == own ||
			task->jobctl & (JOBCTL_STOP_PENDING | JOBCTL_TRAP_STOP | JOBCTL_TRAP_FREEZE) ||
			task->signal->shared_pending.signal.sig[0] & STOP_SIGNALS;
	t->state = WOKEN;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(is_woken, struct task_struct *task)
{
	woken(task);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(was_woken, struct task_struct *task)
{
	woken(task);
	return 0;
}

static __always_inline void runs(struct thread *t)
{
	struct jobs *jobs;

	if (t->state != WOKEN)
		return;
	t->state = RUNS;
	jobs = bpf_map_lookup_elem(&services, &t->service);
	if (jobs)
		count(jobs->waits, bpf_ktime_get_ns() - t->begun);
}

static __always_inline void sleeps(struct thread *t, struct task_struct *task, __u64 ran)
{
	__u64 now = bpf_ktime_get_ns(), took = now - t->begun;
	struct jobs *jobs = bpf_map_lookup_elem(&services, &t->service);
	int is_job = t->state == RUNS && !(t->only_stops && t->stopped && ran - t->ran < NOTHING);

	t->state = ASLEEP;
	t->ran = ran;
	if (!jobs || !is_job)
		return;
	count(jobs->responses, took);
	__sync_fetch_and_add(&jobs->total, took);
	__sync_fetch_and_add(&jobs->count, 1);
	tell_job(t->service, t->begun, now, task->tgid, task->pid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switches, int preempted, struct task_struct *previous, struct task_struct *next, __u32 state)
{
	struct thread *t = watched(next);
	__u32 tid;

	if (t)
		runs(t);
	/* A pending signal makes it running again after its state was read. */
	if (preempted || !state || !previous->__state)
		return 0;
	t = watched(previous);
	if (!t)
		return 0;
	if (is_stop(previous, state)) {
		t->stopped = 1;
		return 0;
	}
	sleeps(t, previous, previous->se.sum_exec_runtime);
	if (state & TASK_DEAD) {
		tid = previous->pid;
		bpf_map_delete_elem(&threads, &tid);
	}
	return 0;
}

/* Children belong to the service of their parent, from birth, with which their first job begins. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(forks, struct task_struct *parent, struct task_struct *child)
{
	struct thread *old = watched(parent);
	struct thread born = {.state = WOKEN};
	struct jobs *jobs;
	__u32 tid = child->pid;

	if (!old)
		return 0;
	born.service = old->service;
	born.begun = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&threads, &tid, &born, BPF_ANY)) {
		jobs = bpf_map_lookup_elem(&services, &born.service);
		if (jobs)
			__sync_fetch_and_add(&jobs->lost, 1);
	}
	return 0;
}

/* A thread that executes a program takes the number of its process's first one; its own is free for another. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(becomes, struct task_struct *task, int old)
{
	__u32 tid = old;

	if (old != task->pid)
		bpf_map_delete_elem(&threads, &tid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
