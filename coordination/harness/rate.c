/* Clients of a ZooKeeper server in one thread: each has a session and one request under way at a time.
 *
 *   rate CLIENTS SECONDS SIZE read|write|create PORT...
 *
 * Client i is at PORT[i mod ports], and reads or writes /rate/cI (create makes these nodes, each of SIZE bytes, and
 * ends). Prints what was answered, the seconds, and the median and the 99th percentile of the answers' times in us.
 * Exit 1: a server refused.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CREATE = 1, GET = 4, SET = 5, MOST = 1024, ROOM = 1 << 17 };

struct client {
	int fd, length, got;
	int64_t sent;
	unsigned char *request, in[ROOM];
};

static struct client *clients;
static uint32_t *times;
static int64_t answers, kept = 1 << 22;

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned char *put(unsigned char *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, 4);
	return at + 4;
}

static unsigned char *bytes(unsigned char *at, const void *data, int length)
{
	at = put(at, length);
	if (data)
		memcpy(at, data, length);
	else
		memset(at, 'x', length);
	return at + length;
}

static uint32_t number(const unsigned char *at)
{
	uint32_t value;
	memcpy(&value, at, 4);
	return ntohl(value);
}

/* The bytes of a request, made once: a session's xid need not grow. */
static void prepare(struct client *c, int i, int type, int size)
{
	char path[32];
	int length = snprintf(path, sizeof path, "/rate/c%d", i);
	unsigned char *at = c->request = malloc(size + 256), *end;
	end = put(put(at + 4, 1), type);
	end = bytes(end, path, length);
	if (type == GET)
		*end++ = 0;
	if (type != GET)
		end = bytes(end, NULL, size);
	if (type == SET)
		end = put(end, -1);
	if (type == CREATE)
		end = put(bytes(bytes(put(put(end, 1), 31), "world", 5), "anyone", 6), 0);
	put(at, end - at - 4);
	c->length = end - at;
}

static void join(struct client *c, int port)
{
	struct sockaddr_in to = {
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	unsigned char hello[49] = {0}, answer[64];
	int one = 1;
	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(c->fd, (struct sockaddr *)&to, sizeof to))
		fail("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	put(hello, 45);
	put(hello + 16, 30000); /* the session's ms; no zxid, no id, */
	put(hello + 28, 16);	/* a password of so many zeros */
	if (write(c->fd, hello, sizeof hello) != sizeof hello || read(c->fd, answer, sizeof answer) < 20)
		fail("session");
}

static void send_one(struct client *c)
{
	c->sent = now();
	if (write(c->fd, c->request, c->length) != c->length)
		fail("write");
}

/* Whether the answer is whole. */
static int receive(struct client *c)
{
	int n = read(c->fd, c->in + c->got, ROOM - c->got);
	if (n <= 0)
		fail("read");
	c->got += n;
	if (c->got < 4 || c->got < 4 + (int)number(c->in))
		return 0;
	int error = number(c->in + 16);
	if (error && error != -110) { /* the node is there */
		fprintf(stderr, "error %d\n", error);
		exit(1);
	}
	c->got = 0;
	return 1;
}

static int up(const void *a, const void *b)
{
	uint32_t x = *(uint32_t *)a, y = *(uint32_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "rate CLIENTS SECONDS SIZE read|write|create PORT...\n");
		return 2;
	}
	int count = atoi(argv[1]), size = atoi(argv[3]), ports = argc - 5;
	int type = argv[4][0] == 'r' ? GET : argv[4][0] == 'w' ? SET : CREATE;
	double seconds = atof(argv[2]);
	struct epoll_event events[MOST];
	int epoll = epoll_create1(0);
	clients = calloc(count, sizeof *clients);
	times = malloc(kept * sizeof *times);
	for (int i = 0; i < count; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
		join(&clients[i], atoi(argv[5 + i % ports]));
		prepare(&clients[i], i, type, size);
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event))
			fail("epoll");
	}
	int64_t start = now(), end = start + (int64_t)(seconds * 1e9);
	for (int i = 0; i < count; i++)
		send_one(&clients[i]);
	for (int under_way = count; under_way;) {
		int n = epoll_wait(epoll, events, MOST, 10000);
		if (n <= 0)
			fail("no answer for 10 s");
		for (int e = 0; e < n; e++) {
			struct client *c = &clients[events[e].data.u32];
			if (!receive(c))
				continue;
			int64_t at = now();
			times[answers++ % kept] = (at - c->sent) / 1000;
			if (type != CREATE && at < end)
				send_one(c);
			else
				under_way--;
		}
	}
	double took = (now() - start) / 1e9;
	int64_t known = answers < kept ? answers : kept;
	qsort(times, known, sizeof *times, up);
	printf("%ld %.6f %u %u\n", (long)answers, took, times[known / 2], times[known * 99 / 100]);
	return 0;
}
