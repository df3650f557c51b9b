/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the scheduler has of the kernel's, as far as it looks at it: found by name when it is loaded (CO-RE), so that
 * one object fits several kernels.
 */
#ifndef GIUSTO_SCHED_EXT_H
#define GIUSTO_SCHED_EXT_H

#define CLOCK_MONOTONIC 1
#define ANY_NODE (-1)

/* As include/uapi/linux/bpf.h has them from Linux 6.4 and 6.7 on. */
#define TIMER_ABSOLUTE 1ull
#define TIMER_ON_THIS_CPU 2ull

/* As include/linux/sched/ext.h and kernel/sched/ext_internal.h have them. */
#define SCX_KICK_PREEMPT 2ull
#define SCX_TASK_QUEUED 1u
#define SCX_OPS_ENQ_LAST 2ull
#define SCX_OPS_ENQ_EXITING 4ull
#define SCX_OPS_SWITCH_PARTIAL 8ull
#define SCX_OPS_ENQ_MIGRATION_DISABLED 16ull

struct sched_ext_entity {
	__u32 flags;
} __attribute__((preserve_access_index));

struct task_struct {
	int pid;
	struct sched_ext_entity scx;
} __attribute__((preserve_access_index));

struct scx_init_task_args {
	_Bool fork;
} __attribute__((preserve_access_index));

struct scx_exit_info;

struct sched_ext_ops {
	int (*select_cpu)(struct task_struct *, int, __u64);
	void (*enqueue)(struct task_struct *, __u64);
	void (*dispatch)(int, struct task_struct *);
	void (*runnable)(struct task_struct *, __u64);
	void (*running)(struct task_struct *);
	void (*stopping)(struct task_struct *, _Bool);
	void (*quiescent)(struct task_struct *, __u64);
	int (*init_task)(struct task_struct *, struct scx_init_task_args *);
	int (*init)(void);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

extern int scx_bpf_create_dsq(__u64 queue, int node) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) __ksym;
extern _Bool scx_bpf_dsq_move_to_local(__u64 queue) __ksym;
extern int scx_bpf_dsq_nr_queued(__u64 queue) __ksym;
extern _Bool scx_bpf_task_set_slice(struct task_struct *p, __u64 slice) __ksym;
extern int scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern void scx_bpf_kick_cpu(int cpu, __u64 flags) __ksym;

#endif
