// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Replays calls to the policy core.
 *
 *   replay [--kernel OBJECT] [--rewrite] TRANSCRIPT...
 *   replay [--kernel OBJECT] --random SEED CALLS
 *   replay --kernel OBJECT --together CALLS
 *
 * With --kernel every call is also made in the kernel, and result and pool are compared byte by byte.
 * Exit: 0 as expected, 1 not, 2 bad input, 77 the kernel could not be asked.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

enum { WHOLE_POOL = 64, HUGE_POOL = 21, HUGE_MIXED = 23 };
_Static_assert(sizeof(struct gi_pool) == offsetof(struct gi_pool, server) + sizeof((struct gi_pool *)0)->server &&
		   sizeof(struct gi_pool) % sizeof(gi_u64) == 0,
	       "a pool ends with its servers, in whole words");

struct gi_pool pool;
unsigned long calls_made;
static const struct gi_pool *kernel_pool;
static gi_u64 digest = 14695981039346656037u; /* FNV-1a, by words, over all results */

static void digest_words(const void *words, size_t size)
{
	for (size_t i = 0; i < size / sizeof(gi_u64); i++)
		digest = (digest ^ ((const gi_u64 *)words)[i]) * 1099511628211u;
}

static void same_in_kernel(const struct gi_call *call, gi_s64 value, size_t size)
{
	gi_s64 theirs = kernel_call(call);
	size_t at = 0;

	if (value == theirs && !memcmp(&pool, kernel_pool, size))
		return;
	while (at < size && ((char *)&pool)[at] == ((const char *)kernel_pool)[at])
		at++;
	fprintf(stderr, "call %lu (op %u, index %u, at %llu ns) differs: native returns %lld, kernel %lld; ",
		calls_made, call->op, call->index, (unsigned long long)call->now, (long long)value, (long long)theirs);
	fprintf(stderr, "the pools agree in %zu of %zu bytes\n", at, size);
	exit(EXIT_DIFFERS);
}

/* The servers that were never added are compared only now and then: they are most of the bytes. */
gi_s64 make_call(const struct gi_call *call)
{
	struct gi_result result;
	size_t size = sizeof(pool);

	gi_apply(&pool, call, &result);
	if (calls_made++ % WHOLE_POOL)
		size = offsetof(struct gi_pool, server) + pool.count * sizeof(pool.server[0]);
	if (kernel_pool)
		same_in_kernel(call, result.value, size);
	digest_words(&result, sizeof(result));
	digest_words(&pool, size);
	return result.value;
}

static gi_u64 seed;

/* SplitMix64. */
static gi_u64 random64(void)
{
	gi_u64 z = seed += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Any magnitude alike, 0 and 2^64 - 1 too. */
static gi_u64 any_size(void)
{
	gi_u64 shift = random64() % 64;

	return random64() >> shift;
}

/* Most often what drivers do most often. */
static gi_u32 any_op(void)
{
	static const gi_u32 ops[] = {GI_OP_DECIDE, GI_OP_DECIDE, GI_OP_DECIDE, GI_OP_READY, GI_OP_READY,
				     GI_OP_READY,  GI_OP_CHARGE, GI_OP_CHARGE, GI_OP_LOOK,  GI_OP_SET,
				     GI_OP_BOOST,  GI_OP_OWE,	 GI_OP_ORDER};
	gi_u64 seldom = random64() % 50;

	if (pool.order == GI_MIXED_CRITICALITY && random64() % 20 == 0)
		return random64() % 20 ? GI_OP_SET_MIXED : GI_OP_COOLING;
	if (seldom < 2)
		return seldom ? GI_OP_ADD : GI_OP_REMOVE;
	return ops[random64() % (sizeof(ops) / sizeof(ops[0]))];
}

static gi_u64 any_step(void)
{
	gi_u64 farthest = random64() % 16 ? 20 : 400; /* not below: operands are evaluated in any order */

	switch (random64() % 4) {
	case 0:
		return 0;
	case 1:
		return random64() % 4;
	case 2:
		return random64() % farthest;
	default:
		return pool.until > pool.now && pool.until != GI_NEVER ? pool.until - pool.now : 0;
	}
}

/* The value, or now and then a hostile one: huge, 0, unknown. */
static gi_u64 mostly(gi_u64 value)
{
	return random64() % 100 ? value : any_size();
}

static gi_u32 any_index(gi_u32 op, gi_u32 nth, gi_u32 servers)
{
	if (op == GI_OP_ADD) /* each pool has a kind above all, and others among it */
		return (gi_u32)(random64() % 4 ? nth % GI_KINDS : random64() % GI_KINDS);
	if (op == GI_OP_CHARGE)
		return (gi_u32)(random64() % pool.m);
	return (gi_u32)(random64() % servers);
}

/* Makes it one about a server of mixed criticality: high or low, and now and then what is no such reservation. */
static void mixed(struct gi_call *call, gi_u64 period)
{
	gi_u64 room = call->budget < period ? period - call->budget : 0;

	if (call->op == GI_OP_ADD && random64() % 8)
		call->op = GI_OP_ADD_MIXED;
	call->worst = random64() % 3 ? mostly(call->budget + random64() % (room + 1)) : 0;
	call->virtual_deadline = call->worst ? mostly(call->budget + random64() % (room + 1)) : call->period;
}

static void random_call(gi_u32 op, gi_u32 nth, gi_u32 servers)
{
	gi_u64 now = random64() % 2000 ? pool.now + any_step() : any_size(), longest = nth % 4 ? 40 : 400;
	gi_u64 period = 1 + random64() % longest;
	struct gi_call call = {.op = op, .now = now};

	if (op != GI_OP_ADD && random64() % 50 == 0)
		call.now /= 2; /* past */
	call.index = (gi_u32)mostly(any_index(op, nth, servers));
	call.period = mostly(period);
	call.budget = mostly(1 + random64() % period);
	call.first = mostly(op == GI_OP_BOOST || random64() % 2 ? now + random64() % 50 : 0);
	call.priority = (gi_u32)(random64() % 5);
	call.flag = (gi_u32)(random64() % (op == GI_OP_READY ? 3 : 2));
	if (op == GI_OP_ORDER)
		call.flag = (gi_u32)(random64() % 4 ? GI_CAPACITY : random64() % (servers + 2));
	if (pool.order == GI_MIXED_CRITICALITY && (op == GI_OP_ADD || op == GI_OP_SET_MIXED))
		mixed(&call, period);
	make_call(&call);
}

/*
 * Pools of each order with 1 to 4 cores, every few hundred calls a new one. Most have few servers, which then meet each
 * other often; some have many, and one is full, one of each.
 */
static void random_calls(unsigned long count)
{
	for (gi_u32 nth = 0; calls_made < count; nth++) {
		bool huge = nth == HUGE_POOL || nth == HUGE_MIXED;
		gi_u32 servers = huge ? GI_CAPACITY + 2 : nth % 8 == 7 ? 100 : 2 + nth % 11;
		gi_u32 cores = nth == HUGE_POOL ? GI_CORES : 1 + nth / 3 % 4;

		make_call(&(struct gi_call){.op = GI_OP_INIT, .index = nth % 3, .flag = cores});
		for (gi_u32 i = 0; i < 400 + 2 * servers && calls_made < count; i++)
			random_call(i < servers ? GI_OP_ADD : any_op(), nth, servers);
	}
}

int main(int count, char **words)
{
	bool rewrite = false;
	int files = 0, failed = 0, i;

	for (i = 1; i < count && !strncmp(words[i], "--", 2); i++) {
		if (!strcmp(words[i], "--rewrite")) {
			rewrite = true;
		} else if (!strcmp(words[i], "--kernel") && i + 1 < count) {
#ifdef WITH_KERNEL
			kernel_pool = kernel_open(words[++i]);
		} else if (!strcmp(words[i], "--together") && i + 1 < count && kernel_pool) {
			kernel_together(strtoul(words[i + 1], NULL, 0));
			return 0;
#else
			fprintf(stderr, "this build is without the kernel\n");
			return EXIT_NO_KERNEL;
#endif
		} else if (!strcmp(words[i], "--random") && i + 2 < count) {
			seed = strtoull(words[i + 1], NULL, 0);
			random_calls(strtoul(words[i + 2], NULL, 0));
			i += 2;
		} else {
			fprintf(stderr,
				"unknown option %s; expected --kernel OBJECT, --rewrite or --random SEED CALLS\n",
				words[i]);
			return EXIT_BAD_INPUT;
		}
	}
	for (; i < count; i++, files++)
		failed += !play_transcript(words[i], rewrite);
	printf("files=%d failed=%d calls=%lu digest=%016llx\n", files, failed, calls_made, (unsigned long long)digest);
	return failed ? EXIT_DIFFERS : 0;
}
