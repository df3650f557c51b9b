/* The only program of the test guest: a busy thread pinned to each CPU counts what it has worked. Once a second the
 * counts of all CPUs are written down with the guest's clock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

enum { CPUS = 64, UNIT = 10000 };

static struct {
	_Alignas(128) atomic_ulong done;
} counts[CPUS];

static void *work(void *argument)
{
	long cpu = (long)(intptr_t)argument;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
		perror("pin a thread");
	for (uint64_t x = 1;;) {
		for (int i = 0; i < UNIT; i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			__asm__ volatile("" : "+r"(x)); /* every step is taken */
		}
		atomic_fetch_add_explicit(&counts[cpu].done, 1, memory_order_relaxed);
	}
	return NULL;
}

int main(void)
{
	mount("dev", "/dev", "devtmpfs", 0, NULL); /* PID 1 in an initramfs */
	FILE *out = fopen("/dev/ttyS1", "w");
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (out == NULL || cpus > CPUS) {
		perror("/dev/ttyS1");
		return 1;
	}
	for (long cpu = 0; cpu < cpus; cpu++) {
		pthread_t thread;
		pthread_create(&thread, NULL, work, (void *)(intptr_t)cpu);
	}
	for (;;) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		fprintf(out, "%lld", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
		for (long cpu = 0; cpu < cpus; cpu++)
			fprintf(out, " %lu", atomic_load_explicit(&counts[cpu].done, memory_order_relaxed));
		fprintf(out, "\n");
		fflush(out);
		sleep(1);
	}
}
