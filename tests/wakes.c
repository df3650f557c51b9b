/* The shortest loop that measures wake-ups: wakes CORE COUNT. Once a millisecond, at SCHED_FIFO 99; a line of
 * microseconds and how often for each. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST = 100000, PERIOD = 1000000, SECOND = 1000000000 };

int main(int count, char **words)
{
	static unsigned histogram[MOST + 1];
	struct sched_param first = {.sched_priority = 99};
	struct timespec due, now;
	cpu_set_t core;

	CPU_ZERO(&core);
	CPU_SET(count == 3 ? atoi(words[1]) : 0, &core);
	if (count != 3 || sched_setaffinity(0, sizeof(core), &core) || mlockall(MCL_CURRENT | MCL_FUTURE) ||
	    sched_setscheduler(0, SCHED_FIFO, &first))
		return 3;
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (int left = atoi(words[2]); left; left--) {
		long late;

		due.tv_nsec += PERIOD;
		if (due.tv_nsec >= SECOND) {
			due.tv_nsec -= SECOND;
			due.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		late = ((now.tv_sec - due.tv_sec) * SECOND + now.tv_nsec - due.tv_nsec) / 1000;
		histogram[late < MOST ? late : MOST]++;
	}
	for (int us = 0; us <= MOST; us++)
		if (histogram[us])
			printf("%d %u\n", us, histogram[us]);
	return 0;
}
