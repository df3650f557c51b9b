// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The policy core as a scheduler of the kernel (sched_ext). It decides nothing itself: threads of a server wait in a
 * queue of their own, and whose queue a processor serves is what the core says.
 *
 * A pool has one core here, so the lock of that processor's run queue, which the kernel holds whenever it calls on
 * behalf of it, is the lock of the pool: the core is entered in `dispatch` only. What else happens (threads wake and
 * sleep, the timer goes off, orders come) is noted, and has `dispatch` called soon. So what is told at an instant is
 * told in the order that the core asks for, and one program has the core in it, which the verifier has to walk once.
 *
 * Only threads that are given to SCHED_EXT come here (SCX_OPS_SWITCH_PARTIAL): the fair class goes before them.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "sched_ext.h"
#include "servers_maps.h"

/* What the kernel calls has its own parameters. */
#pragma clang diagnostic ignored "-Wunused-parameter"

#define TURN 4000000ull /* ns, for a thread that shares a server with others */
#define NEWS 16u	/* servers that the core is told of at an instant; more wait for the next */

/* Has `dispatch` called on a processor, which then asks the core. */
static __always_inline void ask_soon(struct processor *on, gi_u32 cpu)
{
	on->due = 1;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The core has to be told of this server. */
static __always_inline void tell(struct crowd *c, gi_u32 pool, gi_u32 server)
{
	struct news *n = bpf_map_lookup_elem(&news, &pool);

	if (!n || c->queued)
		return;
	c->queued = 1;
	n->server[n->last & (GI_CAPACITY - 1u)] = server;
	n->last++;
}

/* The one way into the core. A global function is walked by the verifier once, wherever it is called from. */
__attribute__((noinline)) int make(gi_u32 pool, gi_u32 cpu, struct gi_call *call)
{
	struct statistics *seen = bpf_map_lookup_elem(&statistics, &cpu);
	struct gi_pool *p = pool_of(pool);
	struct gi_result result;
	struct record *r;

	if (!p || !seen || !call)
		return 0;
	gi_apply(p, call, &result);
	seen->calls++;
	if (!settings.recording)
		return (int)result.value;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		seen->unrecorded++;
		return (int)result.value;
	}
	r->call = *call;
	r->value = result.value;
	r->until = p->until;
	r->freed = p->freed;
	r->runs = p->core[0].runs;
	r->payer = p->core[0].payer;
	r->pool = pool;
	r->mode = p->mode;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return (int)result.value;
}

/* Tells the core which servers have become ready or idle; whether there are more. */
static __always_inline int tell_all(gi_u32 pool, gi_u32 cpu, gi_u64 now)
{
	struct news *n = bpf_map_lookup_elem(&news, &pool);
	struct crowd *c;
	gi_u32 i;

	if (!n)
		return 0;
	for (i = 0; i < NEWS && n->first != n->last; i++, n->first++) {
		gi_u32 server = n->server[n->first & (GI_CAPACITY - 1u)];
		struct gi_call call = {.op = GI_OP_READY, .index = server, .now = now};

		c = crowd(pool, server);
		if (!c)
			break;
		c->queued = 0;
		call.flag = c->awake != 0;
		if (call.flag == c->told)
			continue;
		c->told = call.flag;
		make(pool, cpu, &call);
	}
	return n->first != n->last;
}

/* Makes the calls that were ordered for now or before; returns for when the next is ordered. */
static __always_inline gi_u64 obey(gi_u32 pool, gi_u32 cpu, gi_u64 now)
{
	struct orders *o = bpf_map_lookup_elem(&orders, &pool);
	gi_u32 i;

	if (!o)
		return GI_NEVER;
	for (i = 0; i < SERVERS_ORDERS && o->done < o->given; i++) {
		struct order *next = &o->order[o->done & (SERVERS_ORDERS - 1u)];
		struct gi_call call = next->call;
		struct crowd *c;
		gi_s64 value;

		if (call.now > now)
			return call.now;
		call.now = now;
		value = make(pool, cpu, &call);
		next->value = value;
		/* A new server in a slot is idle, whatever its threads do. */
		c = value >= 0 && (call.op == GI_OP_ADD || call.op == GI_OP_ADD_MIXED) ? crowd(pool, value) : 0;
		if (c) {
			c->told = 0;
			tell(c, pool, value);
		}
		__sync_fetch_and_add(&o->done, 1);
	}
	return o->done < o->given ? now : GI_NEVER;
}

/* Asks the core at this instant; which server this processor is to serve, or GI_NONE. */
static __always_inline gi_u32 ask(gi_u32 pool, struct processor *on, gi_u32 cpu, struct gi_pool *p)
{
	struct statistics *seen = bpf_map_lookup_elem(&statistics, &cpu);
	struct timed *timed = bpf_map_lookup_elem(&timers, &cpu);
	gi_u64 now = bpf_ktime_get_ns(), until;
	struct gi_call call = {.op = GI_OP_CHARGE, .now = now};
	gi_u32 before = p->core[0].runs;
	int more, stray;

	if (!seen || !timed)
		return GI_NONE;
	on->due = 0;
	seen->decisions++;
	if (on->began)
		on->ran += now - on->began;
	stray = on->ran && on->server != before + 1;
	call.budget = stray ? 0 : on->ran;
	make(pool, cpu, &call);
	if (stray) {
		seen->strays++;
		call.op = GI_OP_OWE;
		call.index = on->server - 1;
		call.budget = on->ran;
		make(pool, cpu, &call);
		call.index = 0;
	}
	on->ran = 0;
	more = tell_all(pool, cpu, now);
	until = obey(pool, cpu, now);
	more |= tell_all(pool, cpu, now);
	call.op = GI_OP_DECIDE;
	call.budget = 0;
	make(pool, cpu, &call);
	if (before != GI_NONE && before != p->core[0].runs && gi_at(p, before)->left < 0)
		count(seen->over, -gi_at(p, before)->left);
	on->server = p->core[0].runs + 1;
	on->began = on->server ? now : 0;
	until = p->until < until ? p->until : until;
	if (more || until <= now) {
		ask_soon(on, cpu);
	} else if (until != on->armed) {
		on->armed = until;
		if (until != GI_NEVER)
			bpf_timer_start(&timed->timer, until, TIMER_ABSOLUTE | TIMER_ON_THIS_CPU);
	}
	return p->core[0].runs;
}

static int timer(void *map, gi_u32 *cpu, struct timed *timed)
{
	struct statistics *seen = bpf_map_lookup_elem(&statistics, cpu);
	struct processor *on = processor(*cpu);
	gi_u64 now = bpf_ktime_get_ns();

	if (!on || !seen)
		return 0;
	seen->timers++;
	if (now >= on->armed)
		count(seen->late, now - on->armed);
	on->armed = GI_NEVER;
	ask_soon(on, *cpu);
	return 0;
}

/* No queue of a processor is to be had here: all threads wait for the core. */
SEC("struct_ops/select_cpu")
int BPF_PROG(select_cpu, struct task_struct *p, int before, gi_u64 flags)
{
	return before;
}

SEC("struct_ops/runnable")
void BPF_PROG(runnable, struct task_struct *p, gi_u64 flags)
{
	struct processor *on = processor(scx_bpf_task_cpu(p));
	struct membership *m = membership(p);
	struct crowd *c;

	if (!on || !m)
		return;
	m->counted = 0;
	if (on->pool != m->pool + 1)
		return;
	c = crowd(m->pool, m->server);
	if (!c)
		return;
	m->counted = m->server + 1;
	if (!c->awake++) {
		tell(c, m->pool, m->server);
		on->due = 1;
	}
}

SEC("struct_ops/quiescent")
void BPF_PROG(quiescent, struct task_struct *p, gi_u64 flags)
{
	struct processor *on = processor(scx_bpf_task_cpu(p));
	struct membership *m = membership(p);
	struct crowd *c;

	if (!on || !m || !m->counted)
		return;
	c = crowd(m->pool, m->counted - 1);
	m->counted = 0;
	if (c && !--c->awake) {
		tell(c, m->pool, m->server);
		on->due = 1;
	}
}

SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *p, gi_u64 flags)
{
	gi_u32 cpu = scx_bpf_task_cpu(p);
	struct processor *on = processor(cpu);
	struct membership *m = membership(p);

	if (m && m->counted)
		scx_bpf_dsq_insert(p, queue(m->pool, m->counted - 1), TURN, flags);
	else
		scx_bpf_dsq_insert(p, OTHERS + cpu, TURN, flags);
	if (on && on->due)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *p)
{
	gi_u32 cpu = scx_bpf_task_cpu(p);
	struct processor *on = processor(cpu);
	struct membership *m = membership(p);
	gi_u64 now = bpf_ktime_get_ns();

	if (!on || !on->pool)
		return;
	on->turn = now;
	if (!m || !m->counted) {
		on->began = 0;
	} else if (m->counted != on->server || !on->began) { /* else since it was chosen */
		on->server = m->counted;
		on->began = now;
	}
	/* It was waiting behind another class, with a turn from before. */
	if (on->due)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

SEC("struct_ops/stopping")
void BPF_PROG(stopping, struct task_struct *p, _Bool is_runnable)
{
	struct processor *on = processor(scx_bpf_task_cpu(p));
	struct membership *m = membership(p);

	if (!on || !on->began || !m || m->counted != on->server)
		return; /* after the decision that it stops, the next one pays */
	on->ran += bpf_ktime_get_ns() - on->began;
	on->began = 0;
}

SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, int cpu, struct task_struct *prev)
{
	struct processor *on = processor(cpu);
	struct membership *m;
	struct gi_pool *p;
	gi_u64 from = OTHERS + cpu;
	gi_u32 runs, goes_on;

	if (!on)
		return;
	p = on->pool ? pool_of(on->pool - 1) : 0;
	runs = p ? ask(on->pool - 1, on, cpu, p) : GI_NONE;
	if (runs != GI_NONE)
		from = queue(on->pool - 1, runs);
	m = prev && prev->scx.flags & SCX_TASK_QUEUED ? membership(prev) : 0;
	/* Of who was running is told last that it waits: it would be chosen by no queue. */
	goes_on = m && m->counted == runs + 1 && on->pool == m->pool + 1;
	if (goes_on && (!scx_bpf_dsq_nr_queued(from) || bpf_ktime_get_ns() - on->turn < TURN)) {
		scx_bpf_task_set_slice(prev, TURN);
		return;
	}
	if (scx_bpf_dsq_move_to_local(from))
		return;
	on->began = 0;
	if (runs != GI_NONE)
		scx_bpf_dsq_move_to_local(OTHERS + cpu);
}

SEC("struct_ops/init_task")
int BPF_PROG(init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct membership *parent, *m;

	if (!args->fork)
		return 0;
	/* Children belong to the server of their parent, from birth. */
	parent = bpf_task_storage_get(&memberships, bpf_get_current_task_btf(), 0, 0);
	if (!parent)
		return 0;
	m = bpf_task_storage_get(&memberships, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m)
		return -12; /* ENOMEM */
	m->pool = parent->pool;
	m->server = parent->server;
	return 0;
}

/* Loops of `init`, which end with the first failure. */
static long ready_processor(gi_u32 cpu, int *failed)
{
	struct timed *timed = bpf_map_lookup_elem(&timers, &cpu);

	if (!timed) {
		*failed = -22; /* EINVAL: a processor of a number beyond those that it looks after */
		return 1;
	}
	bpf_timer_init(&timed->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timed->timer, timer);
	*failed = scx_bpf_create_dsq(OTHERS + cpu, ANY_NODE);
	return *failed != 0;
}

static long ready_queue(gi_u32 i, int *failed)
{
	gi_u32 each = settings.servers ? settings.servers : 1;

	*failed = scx_bpf_create_dsq(queue(i / each, i % each), ANY_NODE);
	return *failed != 0;
}

SEC("struct_ops.s/init")
int BPF_PROG(init)
{
	int failed = 0;

	bpf_loop(settings.cpus, ready_processor, &failed, 0);
	if (!failed)
		bpf_loop(settings.pools * settings.servers, ready_queue, &failed, 0);
	return failed;
}

SEC("syscall")
int wake(struct wake *w)
{
	struct processor *on = processor(w->cpu);

	if (!on || !on->pool)
		return -22; /* EINVAL */
	ask_soon(on, w->cpu);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops giusto_servers = {
    .select_cpu = (void *)select_cpu,
    .enqueue = (void *)enqueue,
    .dispatch = (void *)dispatch,
    .runnable = (void *)runnable,
    .running = (void *)running,
    .stopping = (void *)stopping,
    .quiescent = (void *)quiescent,
    .init_task = (void *)init_task,
    .init = (void *)init,
    .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_MIGRATION_DISABLED,
    .name = "giusto",
};

char LICENSE[] SEC("license") = "GPL";
