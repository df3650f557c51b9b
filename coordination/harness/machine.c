/* A machine that fails, around one server: its disk, its clock, its wires. For LD_PRELOAD; machine.py holds the other
 * end.
 *
 * GIUSTO_DISK     the directory whose files count (flat: ZooKeeper's version-2)
 * GIUSTO_MACHINE  what the harness reads and sets:
 *   control       struct control below
 *   live/INO      a second name of each file that was made, opened for writing or removed: an inode is never used twice
 *   durable/INO   what of it would be there after a power loss
 *   dropped/INO   what it held when a forced write failed: Linux takes those pages for written, and does not try again
 *   journal       what happened to names and lengths, in order: c(reate) INO NAME, r(ename) OLD NEW, u(nlink) NAME,
 * t(runcate) INO LENGTH; and s(ync) INO, d(atasync) INO, which is what makes a file system write its own journal
 * GIUSTO_WIRES    "port:port,...": who connects to the first of a pair is connected to the second
 *
 * Nothing is forced to the real disk: durable/ is the disk, and the real files are the page cache.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
	volatile int64_t slow_us;      /* every forced write takes so much longer */
	volatile int64_t sync_errno;   /* and fails with this */
	volatile int64_t write_errno;  /* every write fails with this */
	volatile int64_t create_errno; /* every new file fails with this */
	volatile int64_t clock_ns;     /* the wall clock is wrong by this */
};

#define REAL(type, name, ...)                                                                                          \
	static type (*real)(__VA_ARGS__);                                                                              \
	if (!real)                                                                                                     \
	real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static struct control none, *control = &none;
static const char *disk, *machine, *wires;
static size_t disk_length;
static ino_t disk_inode;
static int journal = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int real_open(const char *path, int flags, mode_t mode)
{
	REAL(int, "open64", const char *, int, ...);
	return real(path, flags, mode);
}

static void at(char *path, const char *directory, ino_t inode)
{
	snprintf(path, 512, "%s/%s/%lu", machine, directory, (unsigned long)inode);
}

__attribute__((constructor)) static void begin(void)
{
	char path[512];
	struct stat s;
	int fd;

	disk = getenv("GIUSTO_DISK"), machine = getenv("GIUSTO_MACHINE"), wires = getenv("GIUSTO_WIRES");
	if (!disk || !machine)
		return;
	disk_length = strlen(disk);
	if (stat(disk, &s) == 0)
		disk_inode = s.st_ino;
	snprintf(path, sizeof path, "%s/control", machine);
	fd = real_open(path, O_RDONLY | O_CLOEXEC, 0);
	void *page = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
	snprintf(path, sizeof path, "%s/journal", machine);
	journal = real_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || page == MAP_FAILED || journal < 0) {
		fprintf(stderr, "machine.c: no control page or journal in %s\n", machine);
		_exit(3);
	}
	control = page;
	close(fd);
}

/* The name of a file of the disk, or NULL. */
static const char *name_of(const char *path)
{
	return journal >= 0 && path && strncmp(path, disk, disk_length) == 0 && path[disk_length] == '/'
		   ? path + disk_length + 1
		   : NULL;
}

static int on_disk(int fd)
{
	char link[64], path[512];
	ssize_t n;

	if (journal < 0)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	return name_of(path) != NULL;
}

static ssize_t plain_write(int fd, const void *data, size_t n)
{
	REAL(ssize_t, "write", int, const void *, size_t);
	return real(fd, data, n);
}

static void note(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (plain_write(journal, line, n) != n)
		abort();
}

/* What is in the page cache of a file is written, but for pages that are as they were when they were dropped. Bytes
 * that were there already are written again, with the same values. */
static void copy(ino_t inode, const char *to, int dirty_only)
{
	char from[512], data[4096], old[4096];
	off_t length = 0, end;
	ssize_t n;
	struct stat s;
	int dropped = -1;

	at(from, "live", inode);
	int in = real_open(from, O_RDONLY | O_CLOEXEC, 0), out = real_open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (in < 0 || out < 0 || fstat(out, &s) != 0)
		abort();
	if (dirty_only) {
		at(from, "dropped", inode);
		dropped = real_open(from, O_RDONLY | O_CLOEXEC, 0);
	}
	for (end = s.st_size; (n = read(in, data, sizeof data)) > 0; length += n) {
		if (dropped >= 0 && pread(dropped, old, sizeof old, length) == n && memcmp(old, data, n) == 0)
			continue;
		if (lseek(out, length, SEEK_SET) < 0 || plain_write(out, data, n) != n)
			abort();
		if (length + n > end)
			end = length + n;
	}
	REAL(int, "ftruncate64", int, off_t);
	real(out, end < length ? end : length);
	close(in), close(out);
	if (dropped >= 0)
		close(dropped);
}

/* Who is cut is written anew. */
static void note_shorter(ino_t inode, off_t length)
{
	char dropped[512];

	at(dropped, "dropped", inode);
	(void)!truncate(dropped, length);
	note("t %lu %ld\n", (unsigned long)inode, (long)length);
}

/* A file that is about to change or to lose its name: its inode stays, and what it holds is what it held when the
 * machine started. */
static ino_t keep(const char *path)
{
	char live[512], durable[512], half[520];
	struct stat s;

	if (stat(path, &s) != 0)
		return 0;
	at(live, "live", s.st_ino), at(durable, "durable", s.st_ino);
	if (access(durable, F_OK) != 0) {
		(void)!link(path, live);
		/* The server may be killed at any instruction. */
		snprintf(half, sizeof half, "%s.half", durable);
		copy(s.st_ino, half, 0);
		rename(half, durable);
	}
	return s.st_ino;
}

static int opened(const char *path, int flags, mode_t mode)
{
	const char *name = name_of(path);
	char file[512];
	struct stat s;

	if (!name || (flags & (O_ACCMODE | O_CREAT)) == O_RDONLY)
		return real_open(path, flags, mode);
	pthread_mutex_lock(&lock);
	ino_t before = keep(path);
	if (!before && (flags & O_CREAT) && control->create_errno) {
		pthread_mutex_unlock(&lock);
		errno = control->create_errno;
		return -1;
	}
	int fd = real_open(path, flags, mode), error = errno;
	if (fd >= 0 && !before && fstat(fd, &s) == 0) {
		at(file, "durable", s.st_ino);
		close(real_open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
		at(file, "live", s.st_ino);
		if (link(path, file) != 0)
			abort();
		note("c %lu %s\n", (unsigned long)s.st_ino, name);
	} else if (fd >= 0 && (flags & O_TRUNC)) {
		note_shorter(before, 0);
	}
	pthread_mutex_unlock(&lock);
	errno = error;
	return fd;
}

#define OPEN(name, ...)                                                                                                \
	int name(__VA_ARGS__ const char *path, int flags, ...)                                                         \
	{                                                                                                              \
		va_list args;                                                                                          \
		va_start(args, flags);                                                                                 \
		mode_t mode = va_arg(args, mode_t);                                                                    \
		va_end(args);                                                                                          \
		return opened(path, flags, mode);                                                                      \
	}
OPEN(open)
OPEN(open64)

int rename(const char *from, const char *to)
{
	REAL(int, "rename", const char *, const char *);
	const char *a = name_of(from), *b = name_of(to);

	if (!a || !b)
		return real(from, to);
	pthread_mutex_lock(&lock);
	keep(from), keep(to);
	int done = real(from, to), error = errno;
	if (done == 0)
		note("r %s %s\n", a, b);
	pthread_mutex_unlock(&lock);
	errno = error;
	return done;
}

static int gone(const char *path, int (*real)(const char *))
{
	const char *name = name_of(path);

	if (!name)
		return real(path);
	pthread_mutex_lock(&lock);
	keep(path);
	int done = real(path), error = errno;
	if (done == 0)
		note("u %s\n", name);
	pthread_mutex_unlock(&lock);
	errno = error;
	return done;
}

int unlink(const char *path)
{
	REAL(int, "unlink", const char *);
	return gone(path, real);
}

int remove(const char *path)
{
	REAL(int, "remove", const char *);
	return gone(path, real);
}

int ftruncate64(int fd, off_t length)
{
	REAL(int, "ftruncate64", int, off_t);
	struct stat s;

	if (!on_disk(fd))
		return real(fd, length);
	pthread_mutex_lock(&lock);
	int done = fstat(fd, &s) == 0 ? real(fd, length) : -1, error = errno;
	/* A longer file is data: it waits for a sync. */
	if (done == 0 && length < s.st_size)
		note_shorter(s.st_ino, length);
	pthread_mutex_unlock(&lock);
	errno = error;
	return done;
}

static int forced(int fd, char how, int (*real)(int))
{
	char live[512], to[512];
	struct stat s;

	if (journal < 0 || fstat(fd, &s) != 0)
		return real(fd);
	at(live, "live", s.st_ino);
	int directory = S_ISDIR(s.st_mode) && s.st_ino == disk_inode;
	if (!directory && access(live, F_OK) != 0)
		return real(fd);
	if (control->slow_us)
		usleep(control->slow_us);
	int error = control->sync_errno;
	pthread_mutex_lock(&lock);
	at(to, error ? "dropped" : "durable", s.st_ino);
	if (!directory)
		copy(s.st_ino, to, !error);
	if (!error)
		note("%c %lu\n", how, (unsigned long)s.st_ino);
	pthread_mutex_unlock(&lock);
	errno = error;
	return error ? -1 : 0;
}

int fsync(int fd)
{
	REAL(int, "fsync", int);
	return forced(fd, 's', real);
}

int fdatasync(int fd)
{
	REAL(int, "fdatasync", int);
	return forced(fd, 'd', real);
}

#define WRITE(type, name, parameters, arguments)                                                                       \
	type name parameters                                                                                           \
	{                                                                                                              \
		REAL(type, #name, int, const void *, size_t, ...);                                                     \
		if (control->write_errno && on_disk(fd)) {                                                             \
			errno = control->write_errno;                                                                  \
			return -1;                                                                                     \
		}                                                                                                      \
		return real arguments;                                                                                 \
	}
WRITE(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
WRITE(ssize_t, pwrite64, (int fd, const void *data, size_t n, off_t where), (fd, data, n, where))
WRITE(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))

int clock_gettime(clockid_t id, struct timespec *t)
{
	REAL(int, "clock_gettime", clockid_t, struct timespec *);
	int done = real(id, t);

	if (done == 0 && control->clock_ns && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = t->tv_sec * 1000000000LL + t->tv_nsec + control->clock_ns;
		t->tv_sec = ns / 1000000000, t->tv_nsec = ns % 1000000000;
	}
	return done;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	t->tv_sec = now.tv_sec, t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	REAL(int, "connect", int, const struct sockaddr *, socklen_t);
	struct sockaddr_storage there;
	unsigned from, to;

	if (!wires || length > sizeof there || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return real(fd, address, length);
	memcpy(&there, address, length);
	/* The port has the same place in both families. */
	struct sockaddr_in *in = (struct sockaddr_in *)&there;
	for (const char *pair = wires; pair && sscanf(pair, "%u:%u", &from, &to) == 2;
	     pair = strchr(pair, ',') ? strchr(pair, ',') + 1 : NULL)
		if (ntohs(in->sin_port) == from) {
			in->sin_port = htons(to);
			break;
		}
	return real(fd, (struct sockaddr *)&there, length);
}
