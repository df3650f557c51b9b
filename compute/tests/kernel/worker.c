// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler.h"

/* A step is some hundred instructions, so that what a switch takes away is seen. */
static void step(volatile gi_u64 *steps)
{
	for (int i = 0; i < 100; i++)
		__asm__ volatile("");
	*steps += 1;
}

static void work_forever(enum work work, gi_u64 seed, volatile gi_u64 *steps)
{
	if (work != PERIODIC)
		seed = seed * 0x9e3779b97f4a7c15ull + 1;
	for (;;) {
		gi_u64 count = work == SPIN ? 1000 : work == PERIODIC ? seed : 1 + random_below(&seed, 300);

		for (gi_u64 i = 0; i < count; i++)
			step(steps);
		if (work == PERIODIC)
			sleep_until(now_ns() / (10 * MS) * (10 * MS) + 10 * MS);
		if (work == SPIN_AND_SLEEP || work == FORK)
			sleep_until(now_ns() + random_below(&seed, MS));
		if (work == FORK) {
			pid_t child = fork();

			if (!child) {
				step(steps);
				_exit(0);
			}
			if (child > 0)
				waitpid(child, NULL, 0);
		}
	}
}

void start(struct worker *w, enum work work, gi_u64 seed)
{
	int gate[2];
	char none;

	w->steps = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->steps == MAP_FAILED || pipe(gate))
		fail("no worker: %s", strerror(errno));
	w->pid = fork();
	if (w->pid < 0)
		fail("no worker: %s", strerror(errno));
	if (!w->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(gate[1]);
		while (read(gate[0], &none, 1) < 0)
			;
		if (work == TWINS && !fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work_forever(SPIN, seed, w->steps + 1);
		}
		work_forever(work, seed, w->steps);
	}
	close(gate[0]);
	w->go = gate[1];
}

void begin(struct worker *w)
{
	if (write(w->go, "", 1) != 1)
		fail("a worker is not to be begun: %s", strerror(errno));
}

void stop(struct worker *w)
{
	close(w->go);
	kill(w->pid, SIGKILL);
	waitpid(w->pid, NULL, 0);
	munmap((void *)w->steps, 4096);
}
