/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What is kept of a connection: when which bytes arrived, and how far requests and answers have been parsed. */
#ifndef GIUSTO_CONNECTION_H
#define GIUSTO_CONNECTION_H

#include "fast.h"
#include "requests.h"

#define RECORDS 256  /* arrivals that are kept apart */
#define CHUNK GLANCE /* copied from the process at once */

struct record {
	__u64 at;    /* when it arrived */
	__u32 end;   /* the first byte after it */
	__u32 owing; /* requests that begin in it and have no answer yet */
};

/* One direction of a connection. */
struct direction {
	struct parser parser;
	/* The read or write under way. */
	__u64 at;	    /* when */
	const char *pieces; /* struct iovec of the process, `many` of them; none: one piece */
	const char *bytes;  /* of the piece, in the process; none: they cannot be read */
	__u32 many;
	__u32 size; /* of all pieces */
	__u32 done;
	__u32 piece;  /* where the piece ends */
	__u32 start;  /* ... and began */
	__u32 base;   /* the chunk's first byte ... */
	__u32 filled; /* ... and the first one after it */
	__u32 lost;   /* what follows is not understood */
	__u8 chunk[CHUNK];
};

struct connection {
	__u32 service;
	__u8 protocol;
	__u8 placed;	/* positions are known */
	__u8 in_step;	/* requests and answers are counted from the same one on */
	__u8 answered;	/* something was written since the last read */
	__u32 telling;	/* an arrival is being told */
	__u32 received; /* positions in what is sent to the service: arrived, read by it, parsed */
	__u32 read;
	__u32 parsed;
	/* Numbers of records, modulo RECORDS their places: the next one, and those of the byte parsed, of the request
	 * being read, and of the oldest request without an answer. */
	__u32 next;
	__u32 reading;
	__u32 begun;
	__u32 oldest;
	__u32 unmatched; /* answers parsed, not yet taken from a record */
	__u32 requests;	 /* HTTP: numbers of messages */
	__u32 answers;
	__u64 heads; /* HTTP: a bit for each of the last 64 requests, whether it was a HEAD */
	struct direction in;
	struct direction out;
	struct record ring[RECORDS];
};
_Static_assert(sizeof(struct connection) == CONNECTION, "user space knows it as CONNECTION");

/* From here on requests and answers are counted. */
INLINE void in_step(struct connection *c)
{
	__u32 n;

	for (n = 0; n < RECORDS; n++)
		c->ring[n].owing = 0;
	c->reading = c->begun = c->oldest = c->next;
	c->unmatched = c->requests = c->answers = 0;
	c->heads = 0;
	c->parsed = c->received;
	__builtin_memset(&c->in.parser, 0, sizeof(c->in.parser));
	__builtin_memset(&c->out.parser, 0, sizeof(c->out.parser));
	c->in_step = 1;
}

/* Bytes up to `end` have arrived; one at a time is here. */
INLINE void arrived(struct connection *c, __u32 end, __u64 now)
{
	__u32 many = c->next - c->oldest, is_idle;
	struct record *last = &c->ring[(c->next - 1) % RECORDS], *oldest = &c->ring[c->oldest % RECORDS];

	if (!c->in_step && c->protocol != TLS && c->protocol != UNKNOWN && c->received == c->read && c->answered) {
		in_step(c);
		many = 0;
	}
	is_idle = c->parsed == c->received && c->oldest + 1 == c->next && !last->owing && !c->in.parser.inside;
	c->received = end;
	if (!c->in_step)
		return;
	if (is_idle) { /* The last record is of no use any more: the next one would touch other memory. */
		last->at = now;
		last->end = end;
		return;
	}
	/* Half full: those that come soon after the last one, by the length of the backlog, count as having come with
	 * it. */
	if (many >= RECORDS || (many >= RECORDS / 2 && now - last->at < (now - oldest->at) / 64)) {
		last->end = end;
		return;
	}
	last = &c->ring[c->next % RECORDS];
	last->at = now;
	last->end = end; /* It owes nothing since it was left; the reader may be there already. */
	__sync_fetch_and_add(&c->next, 1);
}

/* Bytes up to `end` have arrived, if that is news. The network tells it, and the reader where it was faster, one at a
 * time. 0: the other one is telling. */
INLINE int tell(struct connection *c, __u32 end)
{
	if (__sync_val_compare_and_swap(&c->telling, 0, 1))
		return 0;
	if ((__s32)(end - c->received) > 0)
		arrived(c, end, bpf_ktime_get_ns());
	__sync_lock_test_and_set(&c->telling, 0);
	return 1;
}

#define TURNS 4096 /* some 40 us: who tells was taken from its processor */

struct wait {
	struct connection *c;
	__u32 end;
	__u32 told;
};

static long tell_again(__attribute__((unused)) __u32 turn, struct wait *w)
{
	w->told = tell(w->c, w->end);
	return w->told;
}

/* The reader waits for a network that is telling on another processor: before that the record of what it reads is an
 * old one, or none. 0: in vain. */
INLINE int reader_tells(struct connection *c, __u32 end)
{
	struct wait w = {.c = c, .end = end};

	if (tell(c, end))
		return 1;
	bpf_loop(TURNS, tell_again, &w, 0);
	return w.told;
}

#endif
