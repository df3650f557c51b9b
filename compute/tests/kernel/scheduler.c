// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#define _GNU_SOURCE
#include "scheduler.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLASS_EXT = 7 };

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

static int recorded(void *context, void *data, size_t size);

/* The object file, which the program of the product has within it. */
static char *read_object(size_t *bytes)
{
	FILE *file = fopen(object, "r");
	char *all;

	if (!file || fseek(file, 0, SEEK_END) || (long)(*bytes = (size_t)ftell(file)) < 0)
		fail("%s: %s", object, strerror(errno));
	rewind(file);
	all = malloc(*bytes);
	if (!all || fread(all, 1, *bytes, file) != *bytes)
		fail("%s cannot be read", object);
	fclose(file);
	return all;
}

static void *mapped(struct scheduler *s, const char *name, size_t *bytes)
{
	struct bpf_map *map = servers_map(&s->loader, name, 0);
	void *at = map ? servers_mapped(&s->loader, map, bytes, false) : NULL;

	if (!at)
		fail("%s", s->loader.why);
	return at;
}

void load(struct scheduler *s, const struct wanted *wanted)
{
	gi_u64 from = now_ns();
	size_t bytes;
	char *read = read_object(&bytes);

	memset(s, 0, sizeof(*s));
	s->count = wanted->count;
	s->native = calloc((size_t)s->count, sizeof(*s->native));
	if (servers_load(&s->loader, read, bytes, wanted))
		fail("%s", s->loader.why);
	free(read);
	s->pools = mapped(s, "pools", &s->pool_bytes);
	s->statistics = mapped(s, "statistics", &s->statistics_bytes);
	s->crowds = bpf_map__fd(servers_map(&s->loader, "crowds", 0));
	s->ring = ring_buffer__new(bpf_map__fd(servers_map(&s->loader, "records", 0)), recorded, s, NULL);
	printf("loaded in %llu ms\n", (unsigned long long)(now_ns() - from) / MS);
}

struct statistics *statistics(const struct scheduler *s, int i)
{
	return (struct statistics *)((char *)s->statistics + (size_t)s->loader.cpu[i] * s->statistics_bytes);
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
	servers_unload(&s->loader);
	free(s->native);
}

static struct gi_pool *pool(const struct scheduler *s, int i)
{
	return (struct gi_pool *)((char *)s->pools + (size_t)i * s->pool_bytes);
}

gi_s64 order(struct scheduler *s, int i, struct gi_call call)
{
	gi_s64 value;

	if (servers_order(&s->loader, i, call, &value))
		fail("%s", s->loader.why);
	return value;
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
	struct sched_param none = {0};
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(s->loader.cpu[i], &cpus);
	if (sched_setaffinity(pid, sizeof(cpus), &cpus))
		fail("process %d: %s", pid, strerror(errno));
	if (servers_note(&s->loader, pid, i, server))
		fail("%s", s->loader.why);
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
	       s->loader.cpu[i], (unsigned long long)seen->decisions, (unsigned long long)seen->calls,
	       (unsigned long long)seen->timers, (unsigned long long)percentile(seen->late, 0.5),
	       (unsigned long long)percentile(seen->late, 0.999), (unsigned long long)percentile(seen->late, 1),
	       (unsigned long long)sum(seen->over), (unsigned long long)percentile(seen->over, 0.5),
	       (unsigned long long)percentile(seen->over, 0.999), (unsigned long long)percentile(seen->over, 1),
	       (unsigned long long)seen->strays);
}
