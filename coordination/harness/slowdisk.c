/* A slow disk: every fsync takes GIUSTO_SLOW_US longer while the file GIUSTO_SLOW_FLAG exists. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void slow(void)
{
	const char *flag = getenv("GIUSTO_SLOW_FLAG"), *us = getenv("GIUSTO_SLOW_US");

	if (flag && us && access(flag, F_OK) == 0)
		usleep((useconds_t)atoi(us));
}

int fsync(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");

	slow();
	return real(fd);
}

int fdatasync(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

	slow();
	return real(fd);
}
