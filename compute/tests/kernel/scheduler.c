// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#define _GNU_SOURCE
#include "scheduler.h"

#include <bpf/btf.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLASS_EXT = 7, PAGE = 4096, A_THREAD = 0200 /* PIDFD_THREAD */ };

void fail(const char *format, ...)
{
	va_list words;

	va_start(words, format);
	fputs("FAILED: ", stdout);
	vprintf(format, words);
	puts("");
	va_end(words);
	exit(1);
}

int last_cpu(void)
{
	return (int)sysconf(_SC_NPROCESSORS_CONF) - 1;
}

gi_u64 random_below(gi_u64 *seed, gi_u64 limit)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % limit;
}

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

void wait_for_state(const char *wanted)
{
	for (int i = 0; i < 1000 && strcmp(state(), wanted); i++)
		sleep_until(now_ns() + 10 * MS);
	if (strcmp(state(), wanted))
		fail("sched_ext is %s after 10 s, not %s", state(), wanted);
}

int programs(void)
{
	gi_u32 id = 0;
	int count = 0;

	while (!bpf_prog_get_next_id(id, &id))
		count++;
	return count;
}

void all_gone(void)
{
	wait_for_state("disabled");
	for (int i = 0; i < 1000 && programs() != programs_at_first; i++)
		sleep_until(now_ns() + 10 * MS);
	if (programs() != programs_at_first)
		fail("%d BPF programs are left", programs() - programs_at_first);
}

static struct bpf_map *map(struct scheduler *s, const char *name, unsigned entries)
{
	struct bpf_map *found = bpf_object__find_map_by_name(s->object, name);

	if (!found || (entries && bpf_map__set_max_entries(found, entries)))
		fail("map %s: %s", name, strerror(errno));
	return found;
}

/* Maps an array map; `bytes`: from one value to the next. */
static void *mapped(struct bpf_map *from, size_t *bytes, int writable)
{
	size_t all;
	void *at;

	*bytes = (bpf_map__value_size(from) + 7) / 8 * 8;
	all = (*bytes * bpf_map__max_entries(from) + PAGE - 1) / PAGE * PAGE;
	at = mmap(NULL, all, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, bpf_map__fd(from), 0);
	if (at == MAP_FAILED)
		fail("map %s cannot be mapped: %s", bpf_map__name(from), strerror(errno));
	return at;
}

static int recorded(void *context, void *data, size_t size);

/* Sets a number of the scheduler's description, which libbpf has as the object's own type has it. */
static void describe(struct scheduler *s, struct bpf_map *ops, const char *name, gi_u32 value)
{
	const struct btf *types = bpf_object__btf(s->object);
	int id = btf__find_by_name_kind(types, "sched_ext_ops", BTF_KIND_STRUCT);
	const struct btf_type *type = id > 0 ? btf__type_by_id(types, (gi_u32)id) : NULL;
	size_t size;
	char *at = bpf_map__initial_value(ops, &size);

	for (int i = 0; type && at && i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;

		if (strcmp(btf__name_by_offset(types, member->name_off), name))
			continue;
		memcpy(at + member->offset / 8, &value, sizeof(value));
		return;
	}
	fail("the scheduler's description has no %s", name);
}

/* Its pools are on these processors, in order. */
static void place(struct scheduler *s, const struct wanted *wanted)
{
	for (int i = 0; i < wanted->count; i++) {
		gi_u32 cpu = (gi_u32)wanted->cpu[i];
		struct processor one = {.pool = 1 + (gi_u32)i, .armed = GI_NEVER};

		s->cpu[i] = wanted->cpu[i];
		if (bpf_map_update_elem(s->processors, &cpu, &one, 0))
			fail("processor %u: %s", cpu, strerror(errno));
	}
}

void load(struct scheduler *s, const struct wanted *wanted, gi_u32 pool_order)
{
	unsigned count = (unsigned)wanted->count;
	struct settings *settings;
	struct bpf_map *ops;
	size_t size;
	gi_u64 from = now_ns();

	memset(s, 0, sizeof(*s));
	s->count = wanted->count;
	s->object = bpf_object__open_file(object, NULL);
	if (!s->object)
		fail("%s cannot be opened: %s", object, strerror(errno));
	settings = bpf_map__initial_value(map(s, ".rodata.settings", 0), &size);
	if (!settings || size < sizeof(*settings))
		fail("%s has no settings", object);
	*settings = (struct settings){.cpus = (gi_u32)sysconf(_SC_NPROCESSORS_CONF),
				      .pools = count,
				      .servers = wanted->servers,
				      .recording = wanted->recording};
	map(s, "pools", count);
	map(s, "news", count);
	map(s, "orders", count);
	map(s, "crowds", count * GI_CAPACITY);
	ops = map(s, "giusto_servers", 0);
	describe(s, ops, "timeout_ms", wanted->timeout_ms);
	if (bpf_object__load(s->object))
		fail("%s is refused: %s", object, strerror(errno));
	s->pools = mapped(map(s, "pools", 0), &s->pool_bytes, 0);
	s->orders = mapped(map(s, "orders", 0), &s->orders_bytes, 1);
	s->statistics = mapped(map(s, "statistics", 0), &s->statistics_bytes, 0);
	s->members = bpf_map__fd(map(s, "memberships", 0));
	s->processors = bpf_map__fd(map(s, "processors", 0));
	s->crowds = bpf_map__fd(map(s, "crowds", 0));
	s->wake = bpf_program__fd(bpf_object__find_program_by_name(s->object, "wake"));
	s->ring = ring_buffer__new(bpf_map__fd(map(s, "records", 0)), recorded, s, NULL);
	s->native = calloc(count, sizeof(*s->native));
	place(s, wanted);
	s->link = bpf_map__attach_struct_ops(ops);
	if (!s->link)
		fail("the scheduler is not taken: %s", strerror(errno));
	if (strcmp(state(), "enabled"))
		fail("the scheduler is loaded, and sched_ext is %s", state());
	for (int i = 0; i < wanted->count; i++)
		order(s, i, (struct gi_call){.op = GI_OP_INIT, .index = pool_order, .flag = 1});
	printf("loaded in %llu ms\n", (unsigned long long)(now_ns() - from) / MS);
}

struct statistics *statistics(const struct scheduler *s, int i)
{
	return (struct statistics *)((char *)s->statistics + (size_t)s->cpu[i] * s->statistics_bytes);
}

unsigned awake(const struct scheduler *s, int i, gi_u32 server)
{
	gi_u32 index = (gi_u32)i * GI_CAPACITY + server;
	struct crowd crowd;

	if (bpf_map_lookup_elem(s->crowds, &index, &crowd))
		fail("server %u: %s", server, strerror(errno));
	return crowd.awake;
}

void unload(struct scheduler *s)
{
	ring_buffer__free(s->ring);
	bpf_link__destroy(s->link);
	bpf_object__close(s->object);
	free(s->native);
}

static struct gi_pool *pool(const struct scheduler *s, int i)
{
	return (struct gi_pool *)((char *)s->pools + (size_t)i * s->pool_bytes);
}

gi_s64 order(struct scheduler *s, int i, struct gi_call call)
{
	struct orders *o = (struct orders *)((char *)s->orders + (size_t)i * s->orders_bytes);
	volatile gi_u64 *done = &o->done;
	struct order *next = &o->order[o->given % SERVERS_ORDERS];
	struct wake wake = {s->cpu[i]};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = &wake, .ctx_size_in = sizeof(wake));
	gi_u64 until = now_ns() + 20000ull * MS;

	next->call = call;
	__sync_fetch_and_add(&o->given, 1);
	if (bpf_prog_test_run_opts(s->wake, &options) || options.retval)
		fail("processor %d is not woken: %s, %d", wake.cpu, strerror(errno), (int)options.retval);
	while (*done < o->given) {
		if (now_ns() > until)
			fail("no order is done on processor %d; sched_ext is %s", wake.cpu, state());
		sleep_until(now_ns() + MS / 5);
	}
	return next->value;
}

gi_s64 add(struct scheduler *s, int i, gi_u32 kind, gi_u64 budget, gi_u64 period, gi_u32 priority)
{
	gi_s64 index = order(
	    s, i,
	    (struct gi_call){.op = GI_OP_ADD, .index = kind, .budget = budget, .period = period, .priority = priority});

	if (index < 0)
		fail("a server is refused: %lld", (long long)index);
	return index;
}

void join(struct scheduler *s, pid_t pid, int i, gi_u32 server)
{
	struct membership of = {.pool = (gi_u32)i, .server = server};
	struct sched_param none = {0};
	cpu_set_t cpus;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	CPU_ZERO(&cpus);
	CPU_SET(s->cpu[i], &cpus);
	if (fd < 0 || sched_setaffinity(pid, sizeof(cpus), &cpus))
		fail("process %d: %s", pid, strerror(errno));
	if (bpf_map_update_elem(s->members, &fd, &of, 0))
		fail("process %d is not noted: %s", pid, strerror(errno));
	close(fd);
	if (sched_setscheduler(pid, CLASS_EXT, &none))
		fail("process %d is not taken: %s", pid, strerror(errno));
}

static int recorded(void *context, void *data, size_t size)
{
	struct scheduler *s = context;
	const struct record *r = data;
	struct gi_result result;
	struct gi_pool *p;

	if (size < sizeof(*r) || r->pool >= (gi_u32)s->count)
		fail("a record of %zu bytes", size);
	p = &s->native[r->pool];
	gi_apply(p, &r->call, &result);
	s->replayed++;
	s->in_hi += r->mode == GI_HI;
	s->by_call[r->call.op & 15]++;
	if (result.value == r->value && p->until == r->until && p->freed == r->freed && p->core[0].runs == r->runs &&
	    p->core[0].payer == r->payer && p->mode == r->mode)
		return 0;
	if (!s->differ++)
		printf("call %lu (op %u, index %u, at %llu) differs: %lld, until %llu, runs %d in the kernel; "
		       "%lld, until %llu, runs %d natively\n",
		       s->replayed, r->call.op, r->call.index, (unsigned long long)r->call.now, (long long)r->value,
		       (unsigned long long)r->until, (int)r->runs, (long long)result.value,
		       (unsigned long long)p->until, (int)p->core[0].runs);
	return 0;
}

void replay(struct scheduler *s)
{
	ring_buffer__consume(s->ring);
}

void replay_all(struct scheduler *s)
{
	gi_u64 lost = 0;

	for (int i = 0; i < s->count; i++) {
		bool same = false;

		/* Servers that burn and boosts that end are decided about without threads, too: between two of these.
		 */
		for (int times = 0; times < 200 && !same; times++) {
			replay(s);
			same = !memcmp(pool(s, i), &s->native[i], sizeof(struct gi_pool));
			if (!same)
				sleep_until(now_ns() + MS / 2);
		}
		lost += statistics(s, i)->unrecorded;
		if (!same)
			fail("pool %d is not the same bytes in the kernel and natively", i);
	}
	printf("replayed: %lu calls, %lu differ, %llu lost; pools: the same bytes\n", s->replayed, s->differ,
	       (unsigned long long)lost);
	if (s->differ || lost || !s->replayed)
		fail("not all calls were replayed with the same answer");
}

static gi_u64 sum(const gi_u64 *histogram)
{
	gi_u64 all = 0;

	for (unsigned i = 0; i < SERVERS_STEPS; i++)
		all += histogram[i];
	return all;
}

gi_u64 percentile(const gi_u64 *histogram, double part)
{
	gi_u64 all = sum(histogram), so_far = 0;

	for (unsigned i = 0; i < SERVERS_STEPS; i++) {
		so_far += histogram[i];
		if (so_far >= (double)all * part)
			return i + 1; /* us, rounded up */
	}
	return 0;
}

void print_late(const struct scheduler *s, int i)
{
	const struct statistics *seen = statistics(s, i);

	printf("processor %d: %llu decisions, %llu calls, %llu timers late p50 %llu p99.9 %llu max %llu us, "
	       "%llu overruns p50 %llu p99.9 %llu max %llu us, %llu strays\n",
	       s->cpu[i], (unsigned long long)seen->decisions, (unsigned long long)seen->calls,
	       (unsigned long long)seen->timers, (unsigned long long)percentile(seen->late, 0.5),
	       (unsigned long long)percentile(seen->late, 0.999), (unsigned long long)percentile(seen->late, 1),
	       (unsigned long long)sum(seen->over), (unsigned long long)percentile(seen->over, 0.5),
	       (unsigned long long)percentile(seen->over, 0.999), (unsigned long long)percentile(seen->over, 1),
	       (unsigned long long)seen->strays);
}
