// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Scenes: what a scheduler in the kernel stumbles over. */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler.h"

static void enabled(void)
{
	if (strcmp(state(), "enabled"))
		fail("the scheduler was thrown out: sched_ext is %s", state());
}

static gi_u64 steps_in(struct worker *w, gi_u64 length)
{
	gi_u64 at = now_ns(), before = *w->steps;

	sleep_until(at + length);
	return *w->steps - before;
}

static void only_on(pid_t pid, int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(pid, sizeof(cpus), &cpus))
		fail("process %d: %s", pid, strerror(errno));
}

/* What one process without end does in a server that has the whole core. */
static gi_u64 whole(struct scheduler *s)
{
	struct worker w;
	gi_u64 all;

	start(&w, SPIN, 1);
	join(s, w.pid, 0, (gi_u32)add(s, 0, GI_UNLIMITED, 0, 0, 0));
	begin(&w);
	steps_in(&w, 100 * MS);
	all = steps_in(&w, 500 * MS);
	stop(&w);
	return all;
}

/* A thread without budget waits, though no other thread wants the core: what it was running on must not go on. */
void alone(void)
{
	struct wanted wanted = {.order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = 2};
	struct scheduler s;
	struct worker w;
	double percent;
	gi_u64 all;

	load(&s, &wanted);
	all = whole(&s);
	start(&w, SPIN, 1);
	join(&s, w.pid, 0, (gi_u32)add(&s, 0, GI_DEFERRABLE, 2 * MS, 10 * MS, 0));
	begin(&w);
	steps_in(&w, 100 * MS);
	percent = 100.0 * (double)steps_in(&w, 500 * MS) / (double)all;
	printf("alone with 2 of 10 ms: %.3f %% of what it does on the whole core\n", percent);
	print_late(&s, 0);
	enabled();
	if (fabs(percent - 20) > 0.2)
		fail("it does not keep to its budget");
	stop(&w);
	unload(&s);
	wait_for_state("disabled");
}

/* Who is born in a server shares what that has, in turns. */
void twins(void)
{
	struct wanted wanted = {.order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = 2};
	struct scheduler s;
	struct worker w;
	gi_u64 all, child, parent;
	double percent[2];

	load(&s, &wanted);
	all = whole(&s);
	start(&w, TWINS, 1);
	join(&s, w.pid, 0, (gi_u32)add(&s, 0, GI_UNLIMITED, 0, 0, 0));
	begin(&w);
	steps_in(&w, 100 * MS);
	child = w.steps[1];
	parent = steps_in(&w, 500 * MS);
	child = w.steps[1] - child;
	percent[0] = 100.0 * (double)parent / (double)all;
	percent[1] = 100.0 * (double)child / (double)all;
	printf("two in a server without end: %.3f and %.3f %% of the whole core\n", percent[0], percent[1]);
	enabled();
	if (fabs(percent[0] + percent[1] - 100) > 1 || percent[0] < 40 || percent[1] < 40)
		fail("they do not share it");
	stop(&w);
	unload(&s);
	wait_for_state("disabled");
}

/*
 * Threads of the fair class on the core of an endless server, as per-CPU kernel threads are, go first. Without a mark
 * of what they take the budgets would still be kept: they are not charged.
 */
void fair_first(void)
{
	enum { WAKES = 200 };
	struct wanted wanted = {.order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = 2};
	struct scheduler s;
	struct worker w, fair;
	gi_u64 worst = 0, steps, whole;
	cpu_set_t before;

	load(&s, &wanted);
	start(&w, SPIN, 1);
	join(&s, w.pid, 0, (gi_u32)add(&s, 0, GI_UNLIMITED, 0, 0, 0));
	begin(&w);
	sched_getaffinity(0, sizeof(before), &before);
	only_on(0, wanted.cpu[0]);
	for (int i = 0; i < WAKES; i++) {
		gi_u64 at = now_ns() + MS, late;

		sleep_until(at);
		late = now_ns() - at;
		worst = late > worst ? late : worst;
	}
	sched_setaffinity(0, sizeof(before), &before);
	whole = steps_in(&w, 200 * MS);
	start(&fair, SPIN, 2);
	only_on(fair.pid, wanted.cpu[0]);
	begin(&fair);
	sleep_until(now_ns() + 20 * MS);
	steps = steps_in(&w, 200 * MS);
	printf("a fair thread wakes at most %llu us late beside an endless server; beside an endless fair one the "
	       "server has "
	       "%.3f %%\n",
	       (unsigned long long)worst / 1000, 100.0 * (double)steps / (double)whole);
	print_late(&s, 0);
	enabled();
	if (worst > 2 * MS)
		fail("a fair thread is starved by a server");
	if (statistics(&s, 0)->strays)
		fail("servers ran that were not chosen");
	stop(&fair);
	stop(&w);
	unload(&s);
	wait_for_state("disabled");
}

/* Another class, another affinity, stopped and continued, ended, with hundreds of forks beside. */
void comings(void)
{
	enum { WORKERS = 6, TURNS = 60, EXT = 7 };
	struct wanted wanted = {
	    .order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = WORKERS, .recording = true};
	static const struct sched_param none = {0}, one = {.sched_priority = 1};
	struct worker w[WORKERS];
	struct scheduler s;
	gi_u64 seed = 7;

	load(&s, &wanted);
	for (gi_u32 i = 0; i < WORKERS; i++) {
		start(&w[i], i < 2 ? FORK : i < 4 ? SPIN_AND_SLEEP : SPIN, i);
		join(&s, w[i].pid, 0, (gi_u32)add(&s, 0, GI_CONSTANT_BANDWIDTH, MS, 8 * MS, 0));
		begin(&w[i]);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		gi_u32 i = (gi_u32)random_below(&seed, WORKERS);

		switch (turn % 6) {
		case 0:
			sched_setscheduler(w[i].pid, SCHED_OTHER, &none);
			break;
		case 1:
			sched_setscheduler(w[i].pid, SCHED_FIFO, &one);
			break;
		case 2:
			only_on(w[i].pid, 0);
			break;
		case 3:
			kill(w[i].pid, SIGSTOP);
			break;
		case 4:
			sched_setscheduler(w[i].pid, EXT, &none);
			break;
		default:
			stop(&w[i]);
			start(&w[i], SPIN_AND_SLEEP, (gi_u64)turn);
			join(&s, w[i].pid, 0, i);
			begin(&w[i]);
		}
		sleep_until(now_ns() + random_below(&seed, 10 * MS));
		for (i = 0; i < WORKERS; i++) {
			kill(w[i].pid, SIGCONT);
			only_on(w[i].pid, wanted.cpu[0]);
			sched_setscheduler(w[i].pid, EXT, &none);
		}
		replay(&s);
		enabled();
	}
	for (gi_u32 i = 0; i < WORKERS; i++)
		if (!steps_in(&w[i], 100 * MS))
			fail("worker %u stands still", i);
	print_late(&s, 0);
	for (int i = 0; i < WORKERS; i++)
		stop(&w[i]);
	sleep_until(now_ns() + 100 * MS);
	for (gi_u32 i = 0; i < WORKERS; i++)
		if (awake(&s, 0, i))
			fail("server %u has %u threads awake, and there is none", i, awake(&s, 0, i));
	replay_all(&s);
	unload(&s);
	wait_for_state("disabled");
}

/* The loader dies at any moment: no thread is lost, and nothing is left. */
void killed(void)
{
	enum { WORKERS = 3 };
	const char *times = getenv("KILLS");
	int kills = times && *times ? atoi(times) : 6, while_enabled = 0;
	gi_u64 seed = 11, load_takes = 0;

	for (int i = 0; i < kills; i++) {
		struct worker w[WORKERS];
		gi_u64 from = now_ns();
		int ready[2];
		char none;
		pid_t loader;

		for (gi_u32 j = 0; j < WORKERS; j++)
			start(&w[j], j ? SPIN : FORK, j);
		if (pipe(ready))
			fail("%s", strerror(errno));
		fflush(NULL);
		loader = fork();
		if (!loader) {
			struct wanted wanted = {.order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = WORKERS};
			struct scheduler s;

			load(&s, &wanted);
			for (gi_u32 j = 0; j < WORKERS; j++)
				join(&s, w[j].pid, 0, (gi_u32)add(&s, 0, GI_CONSTANT_BANDWIDTH, MS, 8 * MS, 0));
			for (int j = 0; j < WORKERS; j++)
				begin(&w[j]);
			if (write(ready[1], "", 1) != 1)
				fail("%s", strerror(errno));
			for (;;)
				pause();
		}
		close(ready[1]);
		if (i % 3 == 2) { /* while it loads */
			sleep_until(from + random_below(&seed, load_takes));
		} else {
			if (read(ready[0], &none, 1) != 1)
				fail("the loader ended");
			load_takes = now_ns() - from;
			sleep_until(now_ns() + random_below(&seed, 50 * MS));
		}
		while_enabled += !strcmp(state(), "enabled");
		kill(loader, SIGKILL);
		waitpid(loader, NULL, 0);
		all_gone();
		for (int j = 0; j < WORKERS; j++) {
			begin(&w[j]);
			if (!steps_in(&w[j], 100 * MS))
				fail("worker %d stands still after the loader's death", j);
			stop(&w[j]);
		}
		close(ready[0]);
	}
	printf("%d loaders killed, %d of them while the scheduler was enabled\n", kills, while_enabled);
	if (!while_enabled)
		fail("no loader was killed while the scheduler was enabled");
}

/* A thread that waits for longer than the kernel bears: it throws the scheduler out, and all go on in the fair class.
 */
void starved(void)
{
	struct wanted wanted = {.order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = 2, .timeout_ms = 1000};
	struct worker w[2];
	struct scheduler s;
	gi_u64 from;

	load(&s, &wanted);
	for (gi_u32 i = 0; i < 2; i++) {
		start(&w[i], SPIN, i);
		join(&s, w[i].pid, 0,
		     (gi_u32)add(&s, 0, i ? GI_UNLIMITED : GI_CONSTANT_BANDWIDTH, 10 * MS, 10 * MS, 0));
		begin(&w[i]);
	}
	from = now_ns();
	wait_for_state("disabled");
	printf("thrown out after %llu ms\n", (unsigned long long)(now_ns() - from) / MS);
	for (int i = 0; i < 2; i++)
		if (!steps_in(&w[i], 100 * MS))
			fail("worker %d stands still after that", i);
	for (int i = 0; i < 2; i++)
		stop(&w[i]);
	unload(&s);
}

/* As many servers as the core has, and one more. */
void many(void)
{
	struct wanted wanted = {
	    .order = GI_EDF, .cpu = {last_cpu()}, .count = 1, .servers = GI_CAPACITY, .recording = true};
	struct gi_call one = {.op = GI_OP_ADD, .index = GI_DEFERRABLE, .budget = MS / 100, .period = 20 * MS};
	struct scheduler s;
	struct worker w;

	load(&s, &wanted);
	for (gi_u32 i = 0; i < GI_CAPACITY; i++) {
		if (i == GI_CAPACITY - 1)
			one.budget = MS;
		if (order(&s, 0, one) != i)
			fail("server %u is refused", i);
	}
	if (order(&s, 0, one) != GI_FULL)
		fail("a server too many is taken");
	start(&w, SPIN, 1);
	join(&s, w.pid, 0, GI_CAPACITY - 1);
	begin(&w);
	if (!steps_in(&w, 200 * MS))
		fail("the last server does not serve");
	print_late(&s, 0);
	enabled();
	stop(&w);
	sleep_until(now_ns() + 50 * MS);
	replay_all(&s);
	unload(&s);
	wait_for_state("disabled");
}

static int set_online(int cpu, const char *value)
{
	char path[64];
	FILE *file;
	int failed;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	file = fopen(path, "w");
	if (!file)
		return -1;
	failed = fputs(value, file) < 0;
	return fclose(file) || failed ? -1 : 0;
}

/* A processor goes: the kernel throws the scheduler out, which may be loaded again. */
void hotplug(void)
{
	struct wanted wanted = {.order = GI_EDF, .cpu = {0}, .count = 1, .servers = 1};
	struct scheduler s;
	struct worker w;

	if (last_cpu() == 0) {
		printf("not played: one processor only\n");
		return;
	}
	load(&s, &wanted);
	start(&w, SPIN, 1);
	join(&s, w.pid, 0, (gi_u32)add(&s, 0, GI_CONSTANT_BANDWIDTH, 5 * MS, 10 * MS, 0));
	begin(&w);
	if (set_online(last_cpu(), "0"))
		fail("processor %d cannot be taken offline", last_cpu());
	wait_for_state("disabled");
	if (!steps_in(&w, 100 * MS))
		fail("the worker stands still");
	unload(&s);
	if (set_online(last_cpu(), "1"))
		fail("processor %d cannot be taken online", last_cpu());
	/* Beside a thread without end, on a processor that has just come, the loading takes 25 times as long. */
	kill(w.pid, SIGSTOP);
	load(&s, &wanted);
	kill(w.pid, SIGCONT);
	join(&s, w.pid, 0, (gi_u32)add(&s, 0, GI_CONSTANT_BANDWIDTH, 5 * MS, 10 * MS, 0));
	if (!steps_in(&w, 100 * MS))
		fail("the worker stands still under the scheduler loaded again");
	enabled();
	stop(&w);
	unload(&s);
	wait_for_state("disabled");
}
