/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What is most frequent, told at a glance: a read or write that is one whole short message. Parsing it byte by byte
 * costs ten times as much. Whatever is not recognized here is parsed; tests/streams.rs cuts streams so that both ways
 * are taken.
 */
#ifndef GIUSTO_FAST_H
#define GIUSTO_FAST_H

#include "parse.h"

#define GLANCE 128 /* bytes looked at */
#define ELEMENTS 8 /* of a request of Redis */

INLINE __u32 digit(const __u8 *b, __u32 at)
{
	return (__u32)b[at % GLANCE] - '0';
}

/* "$5\r\nhello\r\n" at `at`: where it ends; 0: something else, or more than three digits. */
INLINE __u32 bulk_ends(const __u8 *b, __u32 at)
{
	__u32 length = digit(b, at + 1);

	if (b[at % GLANCE] != '$' || length > 9)
		return 0;
	at += 2;
	if (b[at % GLANCE] != '\r') {
		if (digit(b, at) > 9)
			return 0;
		length = length * 10 + digit(b, at++);
	}
	if (b[at % GLANCE] != '\r') {
		if (digit(b, at) > 9)
			return 0;
		length = length * 10 + digit(b, at++);
	}
	return b[at % GLANCE] == '\r' ? at + 2 + length + 2 : 0;
}

/* The first of the first 64 bytes that ends a line; 64: none does. */
INLINE __u32 line_ends_at(const __u8 *b)
{
	const __u64 ones = 0x0101010101010101, highs = 0x8080808080808080;
	__u64 eight;
	__u32 at;

	for (at = 0; at < 64; at += 8) {
		eight = *(const __u64 *)(b + at) ^ ones * '\n';
		eight = (eight - ones) & ~eight & highs;
		if (eight)
			return at + __builtin_popcountll((eight & -eight) - 1) / 8;
	}
	return 64;
}

INLINE int one_redis_request(const __u8 *b, __u32 size)
{
	__u32 at = 4, n, elements = digit(b, 1);

	if (b[0] != '*' || b[2] != '\r' || elements < 1 || elements > ELEMENTS)
		return 0;
	for (n = 0; n < ELEMENTS && n < elements; n++) {
		if (at > GLANCE - 8)
			return 0;
		at = bulk_ends(b, at);
		if (!at)
			return 0;
	}
	return at == size;
}

/* Whether `size` bytes, of which b has the first, are one whole message; only where one begins. */
INLINE int is_one(const __u8 *b, __u32 size, int protocol, int answer)
{
	int one_line = size <= 64 && line_ends_at(b) == size - 1;

	if (protocol == RESP && !answer)
		return one_redis_request(b, size);
	if (protocol == RESP)
		return b[0] == '$' ? bulk_ends(b, 0) == size : one_line && (b[0] == '+' || b[0] == '-' || b[0] == ':');
	if (protocol == MEMCACHED && answer) /* STORED, END, EXISTS, HD */
		return one_line && ((b[0] == 'S' && b[2] == 'O') || b[0] == 'E' || b[0] == 'H');
	if (protocol == MEMCACHED)
		return one_line && b[0] == 'g' && b[1] == 'e' && b[2] == 't';
	return protocol == LINES && one_line;
}

#endif
