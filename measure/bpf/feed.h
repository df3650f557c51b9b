/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads and writes of a service on their way through the parser, and what they tell of response times. */
#ifndef GIUSTO_FEED_H
#define GIUSTO_FEED_H

#include "connection.h"
#include "jobs.h"

#define VECTORS 1024	/* pieces of one read or write (UIO_MAXIOV) */
#define AT_ONCE 16	/* bytes parsed in one step */
#define BYTES (1 << 20) /* looked at in one of them; beyond, the connection is out of step */

INLINE void out_of_step(struct connection *c, struct served *s)
{
	c->in_step = 0;
	__sync_fetch_and_add(&s->unseen, 1);
}

/* Handed from step to step. */
struct work {
	struct connection *c;
	struct served *served;
	__u32 answer;
};

INLINE void did(struct work *w, struct direction *d, __u32 what)
{
	struct connection *c = w->c;
	struct record *record;

	if (what & BEGINS) {
		if (w->answer)
			d->parser.head = c->heads >> (c->answers % 64) & 1;
		else
			c->begun = c->reading;
	}
	if (what & ENDS && !(what & SILENT)) {
		if (w->answer) {
			c->answers++;
			c->unmatched++;
		} else {
			c->heads &= ~(1ull << c->requests % 64);
			c->heads |= (__u64)d->parser.head << c->requests % 64;
			c->requests++;
			record = &c->ring[c->begun % RECORDS];
			record->owing++;
			count(w->served->waits, d->at - record->at);
		}
	}
	if (what & LOST)
		d->lost = 1;
}

/* The oldest answer that is not matched yet goes to the oldest request without one, or one record further. */
INLINE void match(struct connection *c, struct served *served, __u64 at)
{
	struct record *record = &c->ring[c->oldest % RECORDS];
	__u64 arrived = record->at, took = at - arrived, task = bpf_get_current_pid_tgid();

	if (record->owing && c->oldest != c->next) {
		barrier(); /* The record may be used again as soon as it owes nothing. */
		record->owing--;
		c->unmatched--;
		count(served->responses, took);
		__sync_fetch_and_add(&served->answered, 1);
		__sync_fetch_and_add(&served->total, took);
		tell_job(c->service, arrived, at, task >> 32, task);
	} else if (c->oldest != c->begun) {
		c->oldest++;
	} else {
		c->unmatched = 0; /* what was not asked for: a greeting */
	}
}

/* Functions of their own, which the kernel verifies once. */
__attribute__((noinline)) int parsed(struct parser *p, __u32 byte, __u32 protocol, __u32 answer)
{
	return p ? parse(p, byte, protocol, answer) : LOST;
}

__attribute__((noinline)) int glanced(struct direction *d, __u32 protocol, __u32 answer)
{
	return d && !d->parser.inside && !d->parser.skip && is_one(d->chunk, d->size, protocol, answer);
}

/* Eight bytes without the end of a line. */
INLINE int passes(__u64 eight)
{
	const __u64 ones = 0x0101010101010101, highs = 0x8080808080808080;

	eight ^= ones * '\n';
	return !((eight - ones) & ~eight & highs);
}

/* One byte, one payload, one chunk, or one record further. */
static long step(__u32 turn, struct work *w)
{
	struct connection *c = w->c;
	struct direction *d = w->answer ? &c->out : &c->in;
	struct parser *p = &d->parser;
	__u32 part, at, what = 0;

	if (w->answer && c->unmatched) {
		match(c, w->served, d->at);
		return 0;
	}
	if (d->lost || d->done >= d->piece)
		return 1;
	if (p->skip) {
		part = p->skip < d->piece - d->done ? p->skip : d->piece - d->done;
		p->skip -= part;
		d->done += part;
		if (!p->skip)
			did(w, d, skipped(p));
		return 0;
	}
	if (!w->answer && c->reading + 1 != c->next &&
	    (__s32)(c->ring[c->reading % RECORDS].end - c->parsed - d->done) <= 0) {
		c->reading++;
		return 0;
	}
	if (d->done >= d->filled || d->done < d->base) {
		part = d->piece - d->done;
		barrier_var(part);
		if (part > CHUNK)
			part = CHUNK;
		d->base = d->done;
		d->filled = d->done + part;
		if (!d->bytes || bpf_probe_read_user(d->chunk, part, d->bytes + (d->done - d->start)))
			d->lost = 1;
		return 0;
	}
	for (turn = 0; turn < AT_ONCE && d->done < d->filled; turn++) {
		at = d->done - d->base;
		barrier_var(at);
		if (p->pass && d->done + 8 <= d->filled && at <= CHUNK - 8 && passes(*(__u64 *)&d->chunk[at])) {
			d->done += 8;
			continue;
		}
		d->done++;
		what = parsed(p, d->chunk[at % CHUNK], c->protocol, w->answer);
		if (what || p->skip)
			break;
	}
	did(w, d, what);
	return 0;
}

struct piece { /* struct iovec */
	const char *base;
	__u64 length;
};

static long next_piece(__u32 nth, struct work *w)
{
	struct direction *d = w->answer ? &w->c->out : &w->c->in;
	struct piece vector;

	if (d->lost || d->done >= d->size)
		return 1;
	if (bpf_probe_read_user(&vector, sizeof(vector), d->pieces + nth * sizeof(vector))) {
		d->lost = 1;
		return 1;
	}
	d->bytes = vector.base;
	d->start = d->base = d->filled = d->done;
	d->piece = vector.length < d->size - d->done ? d->done + vector.length : d->size;
	bpf_loop(BYTES, step, w, 0);
	return 0;
}

/* Whether it was one short message in one piece, which is counted then. */
INLINE int glance(struct work *w, struct direction *d)
{
	struct connection *c = w->c;
	struct record *record;
	__u32 part = d->size;

	if (!d->bytes || c->protocol == HTTP || c->unmatched)
		return 0;
	barrier_var(part);
	if (part > CHUNK)
		part = CHUNK;
	if (bpf_probe_read_user(d->chunk, part, d->bytes))
		return 0;
	d->filled = part;
	if (!glanced(d, c->protocol, w->answer))
		return 0;
	if (w->answer) {
		record = &c->ring[c->oldest % RECORDS];
		c->unmatched = 1;
		if (!record->owing || c->oldest == c->next)
			return d->done = d->size, 0; /* it is not of the oldest record */
		match(c, w->served, d->at);
	} else {
		record = &c->ring[c->reading % RECORDS];
		if ((__s32)(record->end - c->parsed) <= 0 && c->reading + 1 != c->next)
			return 0;
		did(w, d, BEGINS | ENDS);
	}
	return 1;
}

/* All of a read or write; what is not understood puts the connection out of step. */
INLINE void fed(struct work *w, struct direction *d)
{
	d->done = d->start = d->base = d->filled = d->lost = 0;
	d->piece = d->size;
	if (glance(w, d))
		return;
	if (d->pieces)
		bpf_loop(d->many < VECTORS ? d->many : VECTORS, next_piece, w, 0);
	else
		bpf_loop(BYTES, step, w, 0);
	if (d->lost || d->done < d->size)
		out_of_step(w->c, w->served);
}

#endif
