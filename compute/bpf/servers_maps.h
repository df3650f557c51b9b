/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the scheduler in the kernel keeps in maps, and how it finds that. */
#ifndef GIUSTO_SERVERS_MAPS_H
#define GIUSTO_SERVERS_MAPS_H

#include "servers.h"

#define OTHERS (1ull << 32) /* the queue of a processor's threads that are of no server */

const volatile struct settings settings SEC(".rodata.settings") = {.cpus = 1, .pools = 1, .servers = 1};

struct timed {
	struct bpf_timer timer;
};

#define ARRAY(name, entries, flags, of)                                                                                \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(map_flags, flags);                                                                              \
		__uint(max_entries, entries);                                                                          \
		__type(key, gi_u32);                                                                                   \
		__type(value, of);                                                                                     \
	} name SEC(".maps")

ARRAY(pools, 1, BPF_F_MMAPABLE, struct gi_pool); /* the loader says how many of these four */
ARRAY(news, 1, 0, struct news);
ARRAY(orders, 1, BPF_F_MMAPABLE, struct orders);
ARRAY(crowds, GI_CAPACITY, 0, struct crowd);
ARRAY(processors, SERVERS_CPUS, 0, struct processor);
ARRAY(timers, SERVERS_CPUS, 0, struct timed);
ARRAY(statistics, SERVERS_CPUS, BPF_F_MMAPABLE, struct statistics);

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct membership);
} memberships SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SERVERS_RECORDS);
} records SEC(".maps");

static __always_inline struct processor *processor(gi_u32 cpu)
{
	return bpf_map_lookup_elem(&processors, &cpu);
}

static __always_inline struct gi_pool *pool_of(gi_u32 pool)
{
	return bpf_map_lookup_elem(&pools, &pool);
}

static __always_inline struct crowd *crowd(gi_u32 pool, gi_u32 server)
{
	gi_u32 index = pool * GI_CAPACITY + (server & (GI_CAPACITY - 1u));

	return bpf_map_lookup_elem(&crowds, &index);
}

static __always_inline struct membership *membership(struct task_struct *p)
{
	return bpf_task_storage_get(&memberships, p, 0, 0);
}

static __always_inline gi_u64 queue(gi_u32 pool, gi_u32 server)
{
	return (gi_u64)pool * GI_CAPACITY + server;
}

static __always_inline void count(gi_u64 *histogram, gi_u64 ns)
{
	gi_u64 step = ns / 1000;

	__sync_fetch_and_add(&histogram[step < SERVERS_STEPS ? step & (SERVERS_STEPS - 1) : SERVERS_STEPS - 1], 1);
}

#endif
