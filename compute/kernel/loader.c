// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#define _GNU_SOURCE
#include "loader.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define PATIENCE                                                                                                       \
	(10000ull *                                                                                                    \
	 MS) /* for an order, which a processor that is not emulated does in microseconds; less than who asks has */

enum { PAGE = 4096, A_THREAD = 0200 /* PIDFD_THREAD */ };

gi_u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (gi_u64)t.tv_sec * 1000 * MS + (gi_u64)t.tv_nsec;
}

void sleep_until(gi_u64 at)
{
	struct timespec t = {.tv_sec = at / (1000 * MS), .tv_nsec = at % (1000 * MS)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

const char *state(void)
{
	static char text[64];
	FILE *file = fopen("/sys/kernel/sched_ext/state", "r");

	strcpy(text, "no sched_ext");
	if (file) {
		if (!fgets(text, sizeof(text), file))
			strcpy(text, "unreadable");
		fclose(file);
	}
	text[strcspn(text, "\n")] = 0;
	return text;
}

__attribute__((format(printf, 2, 3))) static int refused(struct loader *l, const char *format, ...)
{
	va_list words;

	va_start(words, format);
	vsnprintf(l->why, sizeof(l->why), format, words);
	va_end(words);
	return -1;
}

struct bpf_map *servers_map(struct loader *l, const char *name, unsigned entries)
{
	struct bpf_map *found = bpf_object__find_map_by_name(l->object, name);

	if (found && (!entries || !bpf_map__set_max_entries(found, entries)))
		return found;
	refused(l, "map %s: %s", name, strerror(errno));
	return NULL;
}

void *servers_mapped(struct loader *l, struct bpf_map *from, size_t *bytes, bool writable)
{
	size_t all;
	void *at;

	*bytes = (bpf_map__value_size(from) + 7) / 8 * 8;
	all = (*bytes * bpf_map__max_entries(from) + PAGE - 1) / PAGE * PAGE;
	at = mmap(NULL, all, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, bpf_map__fd(from), 0);
	if (at != MAP_FAILED)
		return at;
	refused(l, "map %s cannot be mapped: %s", bpf_map__name(from), strerror(errno));
	return NULL;
}

/* Sets a number of the scheduler's description, which libbpf has as the object's own type has it. */
static int describe(struct loader *l, struct bpf_map *ops, const char *name, gi_u32 value)
{
	const struct btf *types = bpf_object__btf(l->object);
	int id = btf__find_by_name_kind(types, "sched_ext_ops", BTF_KIND_STRUCT);
	const struct btf_type *type = id > 0 ? btf__type_by_id(types, (gi_u32)id) : NULL;
	size_t size;
	char *at = bpf_map__initial_value(ops, &size);

	for (int i = 0; type && at && i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;

		if (strcmp(btf__name_by_offset(types, member->name_off), name))
			continue;
		memcpy(at + member->offset / 8, &value, sizeof(value));
		return 0;
	}
	return refused(l, "the scheduler's description has no %s", name);
}

/* Writes all that has to be there before it is loaded. */
static int prepare(struct loader *l, const struct wanted *wanted, struct bpf_map **ops)
{
	unsigned count = (unsigned)wanted->count;
	struct bpf_map *rodata = servers_map(l, ".rodata.settings", 0);
	size_t size = 0;
	struct settings *settings = rodata ? bpf_map__initial_value(rodata, &size) : NULL;

	if (!settings || size < sizeof(*settings))
		return refused(l, "the object has no settings");
	*settings = (struct settings){.cpus = (gi_u32)sysconf(_SC_NPROCESSORS_CONF),
				      .pools = count,
				      .servers = wanted->servers,
				      .recording = wanted->recording};
	*ops = servers_map(l, "giusto_servers", 0);
	if (!*ops || !servers_map(l, "pools", count) || !servers_map(l, "news", count) ||
	    !servers_map(l, "orders", count) || !servers_map(l, "crowds", count * GI_CAPACITY))
		return -1;
	return describe(l, *ops, "timeout_ms", wanted->timeout_ms);
}

/* Its pools are on these processors, in order. */
static int place(struct loader *l)
{
	struct bpf_map *processors = servers_map(l, "processors", 0);

	for (int i = 0; processors && i < l->count; i++) {
		gi_u32 cpu = (gi_u32)l->cpu[i];
		struct processor one = {.pool = 1 + (gi_u32)i, .armed = GI_NEVER};

		if (bpf_map__update_elem(processors, &cpu, sizeof(cpu), &one, sizeof(one), 0))
			return refused(l, "processor %u: %s", cpu, strerror(errno));
	}
	return processors ? 0 : -1;
}

int servers_load(struct loader *l, const void *object, size_t bytes, const struct wanted *wanted)
{
	struct bpf_map *ops = NULL;

	memset(l, 0, sizeof(*l));
	l->count = wanted->count;
	memcpy(l->cpu, wanted->cpu, sizeof(l->cpu));
	l->object = bpf_object__open_mem(object, bytes, NULL);
	if (!l->object)
		return refused(l, "the object cannot be opened: %s", strerror(errno));
	if (prepare(l, wanted, &ops))
		return -1;
	if (bpf_object__load(l->object))
		return refused(l, "the kernel refuses the scheduler: %s", strerror(errno));
	l->orders = servers_mapped(l, servers_map(l, "orders", 0), &l->orders_bytes, true);
	l->members = bpf_map__fd(servers_map(l, "memberships", 0));
	l->wake = bpf_program__fd(bpf_object__find_program_by_name(l->object, "wake"));
	if (!l->orders || place(l))
		return -1;
	l->link = bpf_map__attach_struct_ops(ops);
	if (!l->link)
		return refused(l, "the scheduler is not taken: %s", strerror(errno));
	if (strcmp(state(), "enabled"))
		return refused(l, "the scheduler is loaded, and sched_ext is %s", state());
	for (int i = 0; i < l->count; i++) {
		gi_s64 value;

		if (servers_order(l, i, (struct gi_call){.op = GI_OP_INIT, .index = wanted->order, .flag = 1}, &value))
			return -1;
	}
	return 0;
}

int servers_order(struct loader *l, int pool, struct gi_call call, gi_s64 *value)
{
	struct orders *o = (struct orders *)((char *)l->orders + (size_t)pool * l->orders_bytes);
	volatile gi_u64 *done = &o->done;
	struct order *next = &o->order[o->given % SERVERS_ORDERS];
	struct wake wake = {l->cpu[pool]};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = &wake, .ctx_size_in = sizeof(wake));
	gi_u64 until = now_ns() + PATIENCE;

	next->call = call;
	__sync_fetch_and_add(&o->given, 1);
	if (bpf_prog_test_run_opts(l->wake, &options) || options.retval)
		return refused(l, "processor %d is not woken: %s, %d", wake.cpu, strerror(errno), (int)options.retval);
	while (*done < o->given) {
		if (now_ns() > until || strcmp(state(), "enabled"))
			return refused(l, "no order is done on processor %d; sched_ext is %s", wake.cpu, state());
		sleep_until(now_ns() + MS / 5);
	}
	*value = next->value;
	return 0;
}

/* A descriptor of a thread, or -1. */
static int opened(struct loader *l, pid_t thread)
{
	int fd = (int)syscall(SYS_pidfd_open, thread, A_THREAD);

	return fd < 0 ? refused(l, "thread %d: %s", thread, strerror(errno)) : fd;
}

int servers_note(struct loader *l, pid_t thread, int pool, gi_u32 server)
{
	struct membership of = {.pool = (gi_u32)pool, .server = server};
	int fd = opened(l, thread), failed;

	if (fd < 0)
		return -1;
	failed = bpf_map_update_elem(l->members, &fd, &of, 0);
	if (failed)
		refused(l, "thread %d is not noted: %s", thread, strerror(errno));
	close(fd);
	return failed ? -1 : 0;
}

int servers_has(struct loader *l, pid_t thread, int pool, gi_u32 server)
{
	struct membership of;
	int fd = opened(l, thread), missing;

	if (fd < 0)
		return -1;
	missing = bpf_map_lookup_elem(l->members, &fd, &of);
	close(fd);
	return !missing && of.pool == (gi_u32)pool && of.server == server;
}

int servers_forget(struct loader *l, pid_t thread)
{
	int fd = opened(l, thread);

	if (fd < 0)
		return -1;
	bpf_map_delete_elem(l->members, &fd); /* not there: just as well */
	close(fd);
	return 0;
}

void servers_unload(struct loader *l)
{
	bpf_link__destroy(l->link);
	bpf_object__close(l->object);
}
