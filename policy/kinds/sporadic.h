/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Sporadic servers with the replenishment rules of Stanovich et al. (RTAS 2010), which correct those of POSIX.
 *
 * The budget is a queue of at most GI_CHUNKS chunks, each usable from its time on, in the order of their times. What is
 * used of the head returns a period after the head's time: when the head is used up, or the server goes idle. So in no
 * window of length P more than B is consumed, lateness aside. When the queue is full, the rest of a head waits for the
 * next chunk's time instead: never early, at worst late.
 */
#ifndef GIUSTO_POLICY_SPORADIC_H
#define GIUSTO_POLICY_SPORADIC_H

#include "../core/types.h"

/* What is left at `now`, and the deadline. */
static inline void gi_sporadic_settle(struct gi_server *s, gi_u64 now)
{
	gi_u64 due = 0;
	gi_u32 i;

	for (i = 0; i < GI_CHUNKS && i < s->chunks; i++)
		if (s->chunk[i].time <= now)
			due += s->chunk[i].amount;
	if (due)
		s->begun = 1;
	s->left = (gi_s64)due - (gi_s64)s->used;
	s->deadline = s->chunk[0].time + s->period;
}

/* Takes the head out. */
static inline void gi_shift(struct gi_server *s)
{
	gi_u32 i;

	for (i = 0; i + 1 < GI_CHUNKS; i++)
		s->chunk[i] = s->chunk[i + 1];
	s->chunk[GI_CHUNKS - 1].time = s->chunk[GI_CHUNKS - 1].amount = 0;
	s->chunks--;
}

/* Puts a chunk where it belongs by its time. There is room: a chunk was shifted out, or split where there was. */
GI_STEP gi_u32 gi_append(struct gi_server *s, gi_u64 time, gi_u64 amount)
{
	gi_u32 i, at = 0;

	if (!s)
		return 0;

	for (i = GI_CHUNKS - 1; i > 0; i--) {
		if (i > s->chunks || at)
			continue;
		if (s->chunk[i - 1].time <= time)
			at = i;
		else
			s->chunk[i] = s->chunk[i - 1];
	}
	s->chunk[at & (GI_CHUNKS - 1)].time = time;
	s->chunk[at & (GI_CHUNKS - 1)].amount = amount;
	if (s->chunks < GI_CHUNKS)
		s->chunks++;
	return at;
}

/*
 * Heads that are used up return a period later, GI_CHUNKS of them in a call; whether more are used up. What was used
 * beyond what was due is a debt of the next.
 */
GI_STEP gi_u32 gi_sporadic_roll(struct gi_server *s, gi_u64 now)
{
	struct gi_chunk head;
	gi_u64 last, rounds;
	gi_u32 i;

	if (!s)
		return 0;
	last = s->chunk[(s->chunks - 1) & (GI_CHUNKS - 1)].time;
	if (s->budget && s->period && s->used >= s->budget && last <= now &&
	    last <= s->chunk[0].time + s->period) { /* whole rounds of the queue at once */
		rounds = gi_min(s->used / s->budget, (now - last) / s->period + 1);
		for (i = 0; i < GI_CHUNKS && i < s->chunks; i++)
			s->chunk[i].time += rounds * s->period;
		s->used -= rounds * s->budget;
	}
	for (i = 0; i < GI_CHUNKS; i++) {
		head = s->chunk[0];
		if (!s->used || head.time > now || s->used < head.amount)
			break;
		gi_shift(s);
		s->used -= head.amount;
		gi_append(s, head.time + s->period, head.amount);
	}
	gi_sporadic_settle(s, now);
	return s->used >= s->chunk[0].amount && s->used && s->chunk[0].time <= now;
}

/* Goes idle: what was used of the head is split off. */
static inline void gi_sporadic_sleep(struct gi_server *s, gi_u64 now)
{
	struct gi_chunk head;
	gi_u32 i;

	for (i = 0; i < GI_REFILLS / GI_CHUNKS; i++)
		if (!gi_sporadic_roll(s, now))
			break;
	head = s->chunk[0];
	if (s->used && head.time <= now && s->used < head.amount) {
		if (s->chunks < GI_CHUNKS) {
			s->chunk[0].amount -= s->used;
		} else {
			gi_shift(s);
			s->chunk[0].amount += head.amount - s->used;
		}
		gi_append(s, head.time + s->period, s->used);
		s->used = 0;
	}
	gi_sporadic_settle(s, now);
}

/* Becomes ready: the head is used from now on, and what comes before it can be used up is joined to it. */
static inline void gi_sporadic_wake(struct gi_server *s, gi_u64 now)
{
	struct gi_chunk head;
	gi_u32 i;

	if (!s->used) {
		if (s->chunk[0].time < now)
			s->chunk[0].time = now;
		for (i = 0; i < GI_CHUNKS; i++) {
			head = s->chunk[0];
			if (s->chunks < 2 || s->chunk[1].time > head.time + head.amount)
				break;
			gi_shift(s);
			s->chunk[0].time = head.time;
			s->chunk[0].amount += head.amount;
		}
	}
	gi_sporadic_settle(s, now);
}

/* The budget has grown. */
static inline void gi_sporadic_grow(struct gi_server *s, gi_u64 by, gi_u64 now)
{
	gi_u32 i;

	if (s->chunk[0].time <= now || !s->begun || s->chunks >= GI_CHUNKS) {
		s->chunk[0].amount += by;
		return;
	}
	for (i = GI_CHUNKS - 1; i > 0; i--)
		s->chunk[i] = s->chunk[i - 1];
	s->chunks++;
	s->chunk[0].time = now;
	s->chunk[0].amount = by;
}

/* The budget has shrunk: cut from what is not used, the head first; the rest from the head, used or not. */
static inline void gi_sporadic_shrink(struct gi_server *s, gi_u64 by)
{
	gi_u64 cut, free;
	gi_u32 i, kept = 0;

	for (i = 0; i < GI_CHUNKS && i < s->chunks; i++) {
		free = s->chunk[i].amount;
		if (!i)
			free -= gi_min(s->used, free);
		cut = gi_min(by, free);
		s->chunk[i].amount -= cut;
		by -= cut;
	}
	cut = gi_min(by, gi_min(s->used, s->chunk[0].amount));
	s->chunk[0].amount -= cut;
	s->used -= cut;
	for (i = 0; i < GI_CHUNKS && i < s->chunks; i++)
		if (s->chunk[i].amount)
			s->chunk[kept++ & (GI_CHUNKS - 1)] = s->chunk[i];
	s->chunks = kept;
}

#endif
