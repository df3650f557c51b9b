/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Where messages begin and end in a stream of bytes: one direction of one connection, fed byte by byte. The payload of
 * a message is not looked at but passed over (skip). Pure: no helper, no clock, no memory but the parser's own.
 */
#ifndef GIUSTO_PARSE_H
#define GIUSTO_PARSE_H

#define INLINE static inline __attribute__((always_inline))

/* What a connection speaks. */
enum protocol {
	UNDECIDED, /* nothing has arrived yet */
	RESP,	   /* Redis */
	MEMCACHED, /* its text protocol */
	HTTP,	   /* 1.0 and 1.1 */
	LINES,	   /* a line, a line back */
	TLS,
	UNKNOWN,
	PROTOCOLS,
};

/* What a byte, or the end of a payload, did. */
enum {
	BEGINS = 1, /* a message begins with it */
	ENDS = 2,   /* a message ends with it; with both, in itself */
	SILENT = 4, /* ... that is no request with an answer (noreply), or no answer to one (100 Continue, a push) */
	LOST = 8,   /* what follows is not understood */
};

/* A line consists of words; of each its first characters, in lower case, eight to a number. */
struct parser {
	__u64 skip;   /* payload to come */
	__u64 word;   /* of the word being read */
	__u64 first;  /* of the line's first word ... */
	__u64 second; /* ... and its next eight characters */
	__u64 number; /* the word being read as a number */
	__u64 wanted; /* the number that tells the payload's length */
	__u32 place;  /* characters of the line so far */
	__u32 words;  /* words before the one being read */
	__u32 fill;   /* characters of the word being read */
	__u32 left;   /* RESP: elements to come of this message */
	__u32 status; /* HTTP: of this answer; 0 in a request */
	__u8 type;    /* RESP: the line's first character */
	__u8 minus;   /* the number is negative */
	__u8 inside;  /* a message has begun */
	__u8 ends;    /* the message ends with the payload */
	__u8 silent;
	__u8 body; /* HTTP: enum below */
	__u8 pass; /* the rest of the line says nothing */
	__u8 head; /* HTTP: the answer to come is to a HEAD; the request was one */
};

enum { HEADERS, SIZED, CHUNKED, TRAILER };

#define WORD(a, b, c, d, e, f, g, h)                                                                                   \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 |    \
	 (__u64)(g) << 48 | (__u64)(h) << 56)

INLINE void next_line(struct parser *p)
{
	p->word = p->first = p->second = p->number = 0;
	p->place = p->words = p->fill = 0;
	p->type = p->minus = p->pass = 0;
}

INLINE __u32 message_ends(struct parser *p)
{
	__u32 did = ENDS | (p->silent ? SILENT : 0);

	p->inside = p->ends = p->silent = p->body = 0;
	p->left = p->status = 0;
	p->wanted = 0;
	return did;
}

/* The payload is over. */
INLINE __u32 skipped(struct parser *p)
{
	return p->ends ? message_ends(p) : 0;
}

INLINE __u32 payload(struct parser *p, __u64 length, int ends)
{
	p->skip = length;
	p->ends = ends;
	return length ? 0 : skipped(p);
}

INLINE __u32 resp_line(struct parser *p, int answer)
{
	int bulk = p->type == '$' || p->type == '=' || p->type == '!';
	int counts = p->type == '*' || p->type == '~' || p->type == '>' || p->type == '%' || p->type == '|';

	if (!answer && p->left == 0 && p->type != '*' && p->type != '$') /* an inline command */
		return message_ends(p);
	if (p->left == 0) {
		p->left = 1;
		p->silent = p->type == '>';
	}
	p->left--;
	if (p->minus || !(bulk || counts))
		;
	else if (p->number > 0x3fffffff) /* no length */
		return LOST;
	else if (p->type == '*' || p->type == '~' || p->type == '>')
		p->left += p->number;
	else if (p->type == '%')
		p->left += 2 * p->number;
	else if (p->type == '|')
		p->left += 2 * p->number + 1;
	else if (bulk)
		return payload(p, p->number + 2, !p->left);
	return p->left ? 0 : message_ends(p);
}

/* Which word of a line of memcached's tells the length of the payload; 0: none. */
INLINE __u32 length_word(__u64 first)
{
	switch (first) {
	case WORD('s', 'e', 't', 0, 0, 0, 0, 0):
	case WORD('a', 'd', 'd', 0, 0, 0, 0, 0):
	case WORD('c', 'a', 's', 0, 0, 0, 0, 0):
	case WORD('r', 'e', 'p', 'l', 'a', 'c', 'e', 0):
	case WORD('a', 'p', 'p', 'e', 'n', 'd', 0, 0):
	case WORD('p', 'r', 'e', 'p', 'e', 'n', 'd', 0):
		return 4;
	case WORD('v', 'a', 'l', 'u', 'e', 0, 0, 0):
		return 3;
	case WORD('m', 's', 0, 0, 0, 0, 0, 0):
		return 2;
	case WORD('v', 'a', 0, 0, 0, 0, 0, 0):
		return 1;
	}
	return 0;
}

INLINE __u32 memcached_request(struct parser *p)
{
	if (length_word(p->first))
		return payload(p, p->wanted + 2, 1);
	if (p->first == WORD('w', 'a', 't', 'c', 'h', 0, 0, 0))
		return LOST;
	p->silent |= p->first == WORD('q', 'u', 'i', 't', 0, 0, 0, 0);
	return message_ends(p);
}

INLINE __u32 memcached_answer(struct parser *p)
{
	switch (p->first) {
	case WORD('v', 'a', 'l', 'u', 'e', 0, 0, 0):
		return payload(p, p->wanted + 2, 0);
	case WORD('v', 'a', 0, 0, 0, 0, 0, 0):
		return payload(p, p->wanted + 2, 1);
	case WORD('s', 't', 'a', 't', 0, 0, 0, 0):
	case WORD('i', 't', 'e', 'm', 0, 0, 0, 0):
		return 0;
	}
	return message_ends(p);
}

/* The header is over. */
INLINE __u32 http_body(struct parser *p, int answer)
{
	__u32 status = p->status, none = !answer || p->head || status == 204 || status == 304;

	if (answer && status / 100 == 1) {
		p->silent = 1;
		return message_ends(p) | (status == 101 ? LOST : 0);
	}
	if (answer && none)
		return message_ends(p);
	if (p->body == CHUNKED)
		return 0;
	if (p->body == SIZED)
		return payload(p, p->wanted, 1);
	return answer ? LOST : message_ends(p); /* until the connection is closed */
}

/* The line is the size of a chunk. */
INLINE int in_chunks(struct parser *p)
{
	return p->body == CHUNKED && p->wanted;
}

INLINE __u32 http_line(struct parser *p, int answer)
{
	if (p->body == TRAILER)
		return p->place ? 0 : message_ends(p);
	if (in_chunks(p)) {
		if (p->number)
			return payload(p, p->number + 2, 0);
		p->body = TRAILER;
		return 0;
	}
	if (!p->place) {
		if (p->body == CHUNKED)
			p->wanted = 1;
		return http_body(p, answer);
	}
	return 0;
}

INLINE void word_ends(struct parser *p, int protocol, int answer)
{
	if (p->words == 0)
		p->first = p->word;
	if (protocol == MEMCACHED) {
		if (p->words == 0)
			p->left = length_word(p->first);
		else if (p->words == p->left)
			p->wanted = p->number;
		if (p->word == WORD('n', 'o', 'r', 'e', 'p', 'l', 'y', 0) && !answer && p->words)
			p->silent = 1;
	} else if (p->body != TRAILER) {
		if (p->words == 0 && !p->status && !answer && !p->left) { /* the request line */
			p->left = 1;
			p->head = p->first == WORD('h', 'e', 'a', 'd', 0, 0, 0, 0);
			p->pass = 1;
		} else if (p->words == 0 && answer && !p->status) {
			if ((__u32)p->first != ('h' | 't' << 8 | 't' << 16 | 'p' << 24))
				p->pass = 1;
		} else if (p->words == 1 && answer && !p->status) {
			p->status = p->number;
			p->pass = 1;
		} else if (p->words == 1 && p->first == WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') &&
			   p->second == WORD('l', 'e', 'n', 'g', 't', 'h', 0, 0) && p->body != CHUNKED) {
			p->body = SIZED;
			p->wanted = p->number;
		} else if (p->words == 1 && p->first == WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r') &&
			   p->word == WORD('c', 'h', 'u', 'n', 'k', 'e', 'd', 0)) {
			p->body = CHUNKED;
			p->wanted = 0;
		} else if (p->words == 0 && (__u8)p->first != 'c' && (__u8)p->first != 't') {
			p->pass = 1;
		}
	}
	p->words++;
	p->word = p->number = 0;
	p->fill = 0;
}

INLINE __u32 line_ends(struct parser *p, int protocol, int answer)
{
	__u32 did = 0;

	if (p->fill && (protocol == MEMCACHED || protocol == HTTP) && !in_chunks(p))
		word_ends(p, protocol, answer);
	switch (protocol) {
	case RESP:
		if (p->place)
			did = resp_line(p, answer);
		break;
	case MEMCACHED:
		if (p->place)
			did = answer ? memcached_answer(p) : memcached_request(p);
		break;
	case HTTP:
		did = http_line(p, answer);
		break;
	default:
		did = message_ends(p);
	}
	next_line(p);
	return did;
}

/* One byte that is no payload. */
INLINE __u32 parse(struct parser *p, __u8 byte, int protocol, int answer)
{
	__u8 low = byte >= 'A' && byte <= 'Z' ? byte + 32 : byte;
	__u32 did = 0;

	if (byte == '\n') {
		/* An empty line between messages belongs to none. */
		if (!p->inside && !p->place && protocol != LINES) {
			next_line(p);
			return 0;
		}
		did = p->inside ? 0 : BEGINS;
		p->inside = 1;
		return did | line_ends(p, protocol, answer);
	}
	if (byte == '\r')
		return 0;
	if (!p->inside) {
		p->inside = 1;
		did = BEGINS;
	}
	p->place++;
	if (p->pass || protocol == LINES)
		return did;
	if (protocol == RESP && p->place == 1) {
		p->type = byte;
		return did;
	}
	if (protocol == RESP) {
		if (byte == '-')
			p->minus = 1;
	} else if (in_chunks(p)) {
		if (byte == ' ' || byte == ';')
			p->pass = 1;
		else
			p->number = p->number << 4 | ((low >= 'a' ? low - 'a' + 10 : low - '0') & 15);
		return did;
	} else if (byte == ' ' || (protocol == HTTP && (byte == ':' || byte == ','))) {
		if (p->fill)
			word_ends(p, protocol, answer);
		return did;
	}
	if (byte >= '0' && byte <= '9')
		p->number = p->number * 10 + (byte - '0');
	if (p->fill < 8)
		p->word |= (__u64)low << 8 * p->fill;
	else if (p->fill < 16 && !p->words)
		p->second |= (__u64)low << 8 * (p->fill - 8);
	p->fill++;
	return did;
}

INLINE int is_memcached(__u64 word)
{
	switch (word) {
	case WORD('g', 'e', 't', 0, 0, 0, 0, 0):
	case WORD('g', 'e', 't', 's', 0, 0, 0, 0):
	case WORD('g', 'a', 't', 0, 0, 0, 0, 0):
	case WORD('g', 'a', 't', 's', 0, 0, 0, 0):
	case WORD('i', 'n', 'c', 'r', 0, 0, 0, 0):
	case WORD('d', 'e', 'c', 'r', 0, 0, 0, 0):
	case WORD('d', 'e', 'l', 'e', 't', 'e', 0, 0):
	case WORD('t', 'o', 'u', 'c', 'h', 0, 0, 0):
	case WORD('s', 't', 'a', 't', 's', 0, 0, 0):
	case WORD('v', 'e', 'r', 's', 'i', 'o', 'n', 0):
	case WORD('m', 'g', 0, 0, 0, 0, 0, 0):
	case WORD('m', 'd', 0, 0, 0, 0, 0, 0):
	case WORD('m', 'a', 0, 0, 0, 0, 0, 0):
	case WORD('m', 'n', 0, 0, 0, 0, 0, 0):
		return 1;
	}
	return length_word(word) == 4 || length_word(word) == 2;
}

INLINE int is_method(__u64 word)
{
	switch (word) {
	case WORD('G', 'E', 'T', 0, 0, 0, 0, 0):
	case WORD('P', 'U', 'T', 0, 0, 0, 0, 0):
	case WORD('H', 'E', 'A', 'D', 0, 0, 0, 0):
	case WORD('P', 'O', 'S', 'T', 0, 0, 0, 0):
	case WORD('P', 'A', 'T', 'C', 'H', 0, 0, 0):
	case WORD('D', 'E', 'L', 'E', 'T', 'E', 0, 0):
	case WORD('O', 'P', 'T', 'I', 'O', 'N', 'S', 0):
		return 1;
	}
	return 0;
}

/* What a connection speaks, by the first of the n bytes of its first read, and whether a line ends in them. */
INLINE int speaks(const __u8 *b, __u32 n, int has_lines)
{
	__u32 at, printable = 1, words = 0;
	__u64 word = 0;
	__u8 after = 0;

	for (at = 0; at < 8; at++) {
		if (at >= n)
			continue;
		if ((b[at] < ' ' && b[at] != '\r' && b[at] != '\n' && b[at] != '\t') || b[at] == 127)
			printable = 0;
		if (b[at] <= ' ') {
			words++;
		} else if (!words) {
			word |= (__u64)b[at] << 8 * at;
		} else if (!after) {
			after = b[at];
		}
	}
	if (n >= 2 && b[0] == '*' && b[1] >= '1' && b[1] <= '9')
		return RESP;
	if (n >= 2 && b[0] == 0x16 && b[1] == 3)
		return TLS;
	if (!printable || !n)
		return UNKNOWN;
	if (is_method(word) && (!after || after == '/' || after == '*' || after == 'h'))
		return HTTP;
	if (word == WORD('P', 'R', 'I', 0, 0, 0, 0, 0) && after == '*') /* HTTP/2 */
		return UNKNOWN;
	if (words && is_memcached(word))
		return MEMCACHED;
	return has_lines ? LINES : UNKNOWN;
}

#endif
