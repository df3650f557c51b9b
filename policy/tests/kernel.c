// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The policy core in the running kernel, through BPF test_run. Nothing is attached or pinned. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay.h"

static int program;

static void need_bpf(void)
{
	const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
					   {.code = BPF_JMP | BPF_EXIT}};

	if (bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "nothing", "GPL", nothing, 2, NULL) >= 0)
		return;
	fprintf(stderr,
		"NOT CHECKED IN THE KERNEL: this process may not load BPF programs (%s); run as root with CAP_BPF\n",
		strerror(errno));
	exit(EXIT_NO_KERNEL);
}

const struct gi_pool *kernel_open(const char *path)
{
	struct bpf_object *object;
	struct bpf_map *map;
	void *mapped;

	need_bpf();
	object = bpf_object__open_file(path, NULL);
	map = object ? bpf_object__find_map_by_name(object, "pools") : NULL;
	if (!map || bpf_map__set_map_flags(map, BPF_F_MMAPABLE) || bpf_object__load(object)) {
		fprintf(stderr, "%s: the kernel's verifier refuses it (%s)\n", path, strerror(errno));
		exit(EXIT_DIFFERS);
	}
	program = bpf_program__fd(bpf_object__find_program_by_name(object, "policy_call"));
	mapped = mmap(NULL, sizeof(struct gi_pool), PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
	if (mapped == MAP_FAILED) {
		fprintf(stderr, "%s: cannot map the kernel's pool (%s)\n", path, strerror(errno));
		exit(EXIT_DIFFERS);
	}
	return mapped;
}

/* Runs the program once; what it returned. */
static int run(union gi_message *in, union gi_message *out)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in, .data_size_in = sizeof(*in), .data_out = out,
		    .data_size_out = sizeof(*out));

	return bpf_prog_test_run_opts(program, &options) ? -1 : (int)options.retval;
}

gi_s64 kernel_call(const struct gi_call *call)
{
	union gi_message in, out;
	int returned;

	memset(&in, 0, sizeof(in));
	in.call = *call;
	returned = run(&in, &out);
	if (returned) {
		fprintf(stderr, "BPF test_run failed: %s, returned %d\n", strerror(errno), returned);
		exit(EXIT_DIFFERS);
	}
	return out.result.value;
}

/* Calls that were made, or those that found the core taken, are both fine; anything else is not. */
static unsigned long made(unsigned long calls)
{
	union gi_message in, out;
	unsigned long done = 0;

	for (unsigned long i = 0; i < calls; i++) {
		memset(&in, 0, sizeof(in));
		in.call = (struct gi_call){.op = i % 2 ? GI_OP_DECIDE : GI_OP_READY, .flag = i / 2 % 2, .now = i};
		switch (run(&in, &out)) {
		case 0:
			done++;
			break;
		case GI_TAKEN:
			break;
		default:
			fprintf(stderr, "BPF test_run failed: %s\n", strerror(errno));
			exit(EXIT_DIFFERS);
		}
	}
	return done;
}

void kernel_together(unsigned long calls)
{
	int status;
	pid_t other;
	unsigned long done;

	kernel_call(&(struct gi_call){.op = GI_OP_INIT, .flag = 1});
	kernel_call(&(struct gi_call){.op = GI_OP_ADD, .index = GI_DEFERRABLE, .budget = 1, .period = 2});
	fflush(NULL);
	other = fork();
	if (!other)
		_exit(made(calls) ? 0 : EXIT_DIFFERS);
	done = made(calls);
	if (other < 0 || waitpid(other, &status, 0) != other || status || !done) {
		fprintf(stderr, "two processes at a time: no call of one of them was made\n");
		exit(EXIT_DIFFERS);
	}
	kernel_call(&(struct gi_call){.op = GI_OP_DECIDE, .now = calls}); /* it is not left taken */
	printf("together: %lu of %lu calls found the core free\n", done, calls);
}
