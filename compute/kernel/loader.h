/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Loads the scheduler of bpf/servers.bpf.c, has calls of the policy core made by it, and tells it of threads. What
 * fails returns -1, with the reason in `why`. One thread at a time may use it. The scheduler lasts until servers_unload
 * or the end of the process.
 */
#ifndef GIUSTO_LOADER_H
#define GIUSTO_LOADER_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <sys/types.h>

#include "servers.h"

struct wanted {
	int cpu[SERVERS_CPUS]; /* a pool on each of these processors */
	int count;
	unsigned servers;    /* that a pool may have */
	bool recording;	     /* of all calls of the core, in the ring `records` */
	unsigned timeout_ms; /* the kernel's watchdog over threads that wait; 0: its own (30 s) */
	gi_u32 order;	     /* of the pools, which are empty: enum gi_order */
};

struct loader {
	struct bpf_object *object;
	struct bpf_link *link;
	struct orders *orders; /* mapped; from one pool's to the next: */
	size_t orders_bytes;
	int members, wake;
	int count; /* of pools */
	int cpu[SERVERS_CPUS];
	char why[512];
};

/* Loads the scheduler, an object file of so many bytes, and attaches it. What it has made, servers_unload takes back,
 * after a failure too. */
int servers_load(struct loader *l, const void *object, size_t bytes, const struct wanted *wanted);
/* Has a call of the core made for a pool, at the next instant at which its processor asks; what it returned. */
int servers_order(struct loader *l, int pool, struct gi_call call, gi_s64 *value);
/* Notes that a thread is of a server. It is scheduled so from when its class is SCHED_EXT on, with all that it forks.
 */
int servers_note(struct loader *l, pid_t thread, int pool, gi_u32 server);
/* Whether a thread is of that server, noted or born so: 1 or 0. */
int servers_has(struct loader *l, pid_t thread, int pool, gi_u32 server);
/* The thread is of no server from when it next comes to the class on. */
int servers_forget(struct loader *l, pid_t thread);
void servers_unload(struct loader *l);

/* A map of the object, of `entries` unless 0; NULL: there is none. */
struct bpf_map *servers_map(struct loader *l, const char *name, unsigned entries);
/* Maps an array map; `bytes`: from one value to the next. NULL: it cannot be mapped. */
void *servers_mapped(struct loader *l, struct bpf_map *from, size_t *bytes, bool writable);
gi_u64 now_ns(void);
void sleep_until(gi_u64 at);
/* What the kernel says of sched_ext: "enabled", "disabled", ... */
const char *state(void);

#endif
