// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Replays calls to the policy core.
 *
 *   replay [--kernel OBJECT] [--rewrite] TRANSCRIPT...
 *   replay [--kernel OBJECT] --random SEED CALLS
 *
 * With --kernel every call is also made in the kernel, and result and pool are compared byte by byte.
 * Exit: 0 as expected, 1 not, 2 bad input, 77 the kernel could not be asked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

unsigned long calls_made;
static bool in_kernel;
static gi_u64 digest = 14695981039346656037u; /* FNV-1a over all results */

static void digest_bytes(const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		digest = (digest ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

struct gi_result make_call(const struct gi_call *call)
{
	static struct gi_pool native, kernel;
	struct gi_result result, theirs;

	gi_apply(&native, call, &result);
	calls_made++;
	if (in_kernel) {
		kernel_call(call, &theirs, &kernel);
		if (memcmp(&result, &theirs, sizeof(result)) || memcmp(&native, &kernel, sizeof(native))) {
			fprintf(stderr,
				"call %lu (op %u at %llu ns) differs: native payer %u until %llu, kernel %u %llu\n",
				calls_made, call->op, (unsigned long long)call->now, result.payer,
				(unsigned long long)result.until, theirs.payer, (unsigned long long)theirs.until);
			exit(EXIT_DIFFERS);
		}
		digest_bytes(&theirs, sizeof(theirs));
		digest_bytes(&kernel, sizeof(kernel));
	} else {
		digest_bytes(&result, sizeof(result));
		digest_bytes(&native, sizeof(native));
	}
	return result;
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

/* A pool of each order and every few hundred calls a new one; most calls are sane, some are hostile. */
static void random_calls(unsigned long count)
{
	struct gi_result last = {.until = GI_NEVER};
	gi_u64 now = 0, farthest;

	for (unsigned long i = 0; i < count; i++) {
		bool hostile = random64() % 50 == 0;
		struct gi_call call = {.op = GI_OP_ADD + (gi_u32)(random64() % 5)};

		if (i % 400 == 0)
			call.op = GI_OP_INIT, now = 0;
		else if (i % 400 < 8)
			call.op = GI_OP_ADD;
		else if (call.op == GI_OP_ADD && random64() % 8)
			call.op = GI_OP_DECIDE;
		switch (random64() % 4) {
		case 0:
			break;
		case 1:
			now = last.until == GI_NEVER ? now : last.until;
			break;
		case 2:
			farthest = random64() % 16 ? 20 : 400;
			now += random64() % farthest;
			break;
		default:
			now += random64() % 4;
		}
		call.now = random64() % 1000 ? now : any_size();
		call.index = call.op == GI_OP_ADD    ? (gi_u32)(random64() % 3)
			     : call.op == GI_OP_INIT ? (gi_u32)(i / 400 % 2)
						     : (gi_u32)(random64() % 9);
		if (call.op == GI_OP_CHARGE)
			call.index = 0;
		call.period = hostile ? any_size() : 1 + random64() % 40;
		call.budget = hostile ? any_size() : 1 + random64() % call.period;
		call.first = random64() % 2 ? now + random64() % 50 : 0;
		if (hostile)
			call.first = any_size();
		call.priority = (gi_u32)(random64() % 5);
		call.is_ready = (gi_u32)(random64() % 3);
		last = make_call(&call);
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
			kernel_open(words[++i]);
			in_kernel = true;
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
