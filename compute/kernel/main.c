// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * giusto-kernel: loads the policy core as the kernel's scheduler of threads under SCHED_EXT, for `giusto run --backend
 * kernel`. A program of its own, as it needs libbpf, and as loading takes as long as the kernel takes to verify it.
 *
 *   giusto-kernel CORE...      a pool of servers on each of these cores, in the order of deadlines
 *
 * Its first line is `ready VERSION`. It answers each line on its standard input, which begins with a number, with one
 * that begins with the same: `NUMBER VALUE`, or `NUMBER failed: WHY`.
 *
 *   order POOL OP INDEX BUDGET PERIOD FLAG     a call of the core (policy/call.h), times in ns; what it returned
 *   note THREAD POOL SERVER                    the thread, which is not of the class SCHED_EXT yet, is of that server;
 * 0 has THREAD POOL SERVER                     whether it is, noted or born so; 1 or 0 forget THREAD it is of no
 * server, from when it comes to the class again; 0
 *
 * At the end of its input it ends, and with it the scheduler: the kernel puts all threads into the fair class.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"

enum { SERVERS = 256, EXIT_CANNOT = 4 };

/* servers.bpf.o, put in by the linker. */
extern const char _binary_servers_bpf_o_start[], _binary_servers_bpf_o_end[];

static int silent(enum libbpf_print_level level, const char *format, va_list words)
{
	(void)level, (void)format, (void)words;
	return 0;
}

/* What a line asks for; -1: it is in `why`. */
static int answer(struct loader *l, const char *line, gi_s64 *value)
{
	unsigned long long budget, period;
	int pool = 0, thread;
	unsigned op, index, flag;

	if (sscanf(line, "order %d %u %u %llu %llu %u", &pool, &op, &index, &budget, &period, &flag) == 6) {
		struct gi_call call = {.op = op, .index = index, .budget = budget, .period = period, .flag = flag};

		if (pool >= 0 && pool < l->count)
			return servers_order(l, pool, call, value);
	} else if (sscanf(line, "note %d %d %u", &thread, &pool, &index) == 3) {
		*value = servers_note(l, thread, pool, index);
		return (int)*value;
	} else if (sscanf(line, "has %d %d %u", &thread, &pool, &index) == 3) {
		*value = servers_has(l, thread, pool, index);
		return *value < 0 ? -1 : 0;
	} else if (sscanf(line, "forget %d", &thread) == 1) {
		*value = servers_forget(l, thread);
		return (int)*value;
	}
	snprintf(l->why, sizeof(l->why),
		 "expected 'order', 'note', 'has' or 'forget' of a pool that there is, not '%.60s'", line);
	return -1;
}

int main(int count, char **words)
{
	static struct loader loader;
	struct wanted wanted = {.servers = SERVERS, .order = GI_EDF};
	size_t bytes = (size_t)(_binary_servers_bpf_o_end - _binary_servers_bpf_o_start);
	char line[256];
	int failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	libbpf_set_print(silent);
	for (int i = 1; i < count; i++) {
		char *rest;
		long core = strtol(words[i], &rest, 10);

		if (*rest || core < 0 || core >= (long)SERVERS_CPUS || wanted.count == (int)SERVERS_CPUS) {
			printf("failed: expected cores from 0 to %u, not '%.20s'\n", SERVERS_CPUS - 1, words[i]);
			return EXIT_CANNOT;
		}
		wanted.cpu[wanted.count++] = (int)core;
	}
	if (!wanted.count) {
		printf("failed: expected the cores to serve; giusto run --backend kernel starts this program\n");
		return EXIT_CANNOT;
	}
	failed = servers_load(&loader, _binary_servers_bpf_o_start, bytes, &wanted);
	if (failed)
		printf("failed: %s\n", loader.why);
	else
		puts("ready 1");
	while (!failed && fgets(line, sizeof(line), stdin)) {
		char *asked;
		unsigned long number = strtoul(line, &asked, 10);
		gi_s64 value = 0;

		line[strcspn(line, "\n")] = 0;
		if (answer(&loader, asked + strspn(asked, " "), &value))
			printf("%lu failed: %s\n", number, loader.why);
		else
			printf("%lu %lld\n", number, (long long)value);
	}
	servers_unload(&loader);
	return failed ? EXIT_CANNOT : 0;
}
