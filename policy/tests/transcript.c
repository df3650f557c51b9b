// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Plays a transcript: calls and what they must result in. README.md has the grammar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

enum { LONGEST_LINE = 400, LONGEST_NAME = 32 };

static const char *path;
static int line_number;
static char names[GI_CAPACITY][LONGEST_NAME];
static gi_u32 servers;
static gi_u64 unit, now;

static void bad(const char *what, const char *found)
{
	fprintf(stderr, "%s:%d: %s: '%s'\n", path, line_number, what, found ? found : "nothing");
	exit(EXIT_BAD_INPUT);
}

static gi_u64 parse_time(const char *text)
{
	char *end;
	gi_u64 ns = strtoull(text, &end, 10) * unit, scale = unit;

	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9' && scale >= 10; end++)
			ns += (gi_u64)(*end - '0') * (scale /= 10);
	if (end == text || *end)
		bad("expected a time, whole ns", text);
	return ns;
}

static void print_time(char *to, size_t size, gi_u64 ns)
{
	gi_u64 rest = ns % unit;
	int used = snprintf(to, size, "%llu", (unsigned long long)(ns / unit));

	if (!rest)
		return;
	used += snprintf(to + used, size - used, ".");
	for (gi_u64 scale = unit / 10; rest; rest %= scale, scale /= 10)
		used += snprintf(to + used, size - used, "%llu", (unsigned long long)(rest / scale));
}

static void print_signed_time(char *to, size_t size, gi_s64 ns)
{
	if (ns < 0)
		*to++ = '-', size--;
	print_time(to, size, ns < 0 ? -(gi_u64)ns : (gi_u64)ns);
}

static gi_u32 find(const char *name)
{
	for (gi_u32 i = 0; name && i < servers; i++)
		if (!strcmp(names[i], name))
			return i;
	bad("expected a server that was added", name);
	return 0;
}

/* The value after key=, or NULL. */
static const char *value(const char *word, const char *key)
{
	size_t n = strlen(key);

	return word && !strncmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static char *next_word(void)
{
	return strtok(NULL, " \t\n");
}

static void single_spaces(char *to, const char *from)
{
	for (from += strspn(from, " \t"); *from; from++)
		if (*from != ' ' && *from != '\t')
			*to++ = *from;
		else if (from[1] && from[1] != ' ' && from[1] != '\t')
			*to++ = ' ';
	*to = 0;
}

static void unit_line(const char *name)
{
	if (!name || (strcmp(name, "ns") && strcmp(name, "ms")))
		bad("expected: unit ns|ms", name);
	unit = strcmp(name, "ns") ? 1000000 : 1;
}

static void pool_line(void)
{
	const char *cores = value(next_word(), "m"), *order = value(next_word(), "order");

	if (!cores || strcmp(cores, "1") || !order || (strcmp(order, "fp") && strcmp(order, "edf")))
		bad("expected: pool m=1 order=fp|edf", order);
	make_call(&(struct gi_call){.op = GI_OP_INIT, .index = strcmp(order, "edf") ? GI_FIXED_PRIORITY : GI_EDF});
	servers = 0;
	now = 0;
}

static void add_line(char *actual)
{
	static const char *const kinds[] = {"deferrable", "constant_bandwidth", "unlimited"};
	struct gi_call call = {.op = GI_OP_ADD, .now = now, .index = 3};
	const char *name = next_word(), *kind = next_word(), *word, *v;

	if (!name || strlen(name) >= LONGEST_NAME || !kind)
		bad("expected: add NAME KIND [B=TIME P=TIME] [first=TIME] [prio=N]", name);
	for (gi_u32 i = 0; i < 3; i++)
		if (!strcmp(kind, kinds[i]))
			call.index = i;
	if (call.index == 3)
		bad("expected deferrable, constant_bandwidth or unlimited", kind);
	while ((word = next_word())) {
		if ((v = value(word, "B")))
			call.budget = parse_time(v);
		else if ((v = value(word, "P")))
			call.period = parse_time(v);
		else if ((v = value(word, "first")))
			call.first = parse_time(v);
		else if ((v = value(word, "prio")))
			call.priority = (gi_u32)strtoul(v, NULL, 10);
		else
			bad("expected B=, P=, first= or prio=", word);
	}
	if (make_call(&call).value < 0)
		strcpy(actual, "refused");
	else
		strcpy(names[servers++], name);
}

/* Appends " key=value", for the keys that the expectation asks for. */
static void show(char *actual, const char *key, const struct gi_result *decided)
{
	char text[LONGEST_NAME] = "never", name[LONGEST_NAME];
	const char *dot = strchr(key, '.');

	if (!strcmp(key, "core0")) {
		strcpy(text, decided->payer == GI_NOBODY ? "idle" : names[decided->payer]);
	} else if (!strcmp(key, "until")) {
		if (decided->until != GI_NEVER)
			print_time(text, sizeof(text), decided->until);
	} else if (!strcmp(key, "changed")) {
		strcpy(text, decided->changed ? "yes" : "no");
	} else if (dot && (!strcmp(dot, ".left") || !strcmp(dot, ".deadline"))) {
		snprintf(name, sizeof(name), "%.*s", (int)(dot - key), key);
		struct gi_result seen = make_call(&(struct gi_call){.op = GI_OP_LOOK, .index = find(name)});

		if (dot[1] == 'l')
			print_signed_time(text, sizeof(text), seen.left);
		else if (seen.deadline != GI_NEVER)
			print_time(text, sizeof(text), seen.deadline);
	} else {
		bad("expected core0, until, changed, NAME.left or NAME.deadline", key);
	}
	sprintf(actual + strlen(actual), "%s%s=%s", *actual ? " " : "", key, text);
}

static void at_line(char *actual, char *expected)
{
	const char *word = next_word();
	struct gi_result decided;

	if (!word)
		bad("expected: at TIME CALL...", word);
	now = parse_time(word);
	while ((word = next_word())) {
		struct gi_call call = {.now = now, .op = GI_OP_READY};

		if (!strcmp(word, "decide"))
			continue; /* a line ends with it anyway */
		if (!strcmp(word, "charge")) {
			word = next_word();
			call.op = GI_OP_CHARGE;
			call.budget = parse_time(word ? word : "");
		} else if (!strcmp(word, "ready") || !strcmp(word, "idle")) {
			call.is_ready = word[0] == 'r';
			call.index = find(next_word());
		} else {
			bad("expected decide, charge TIME, ready NAME or idle NAME", word);
		}
		make_call(&call);
	}
	decided = make_call(&(struct gi_call){.op = GI_OP_DECIDE, .now = now});
	for (word = strtok(expected, " \t\n"); word; word = next_word()) {
		char key[2 * LONGEST_NAME];

		snprintf(key, sizeof(key), "%.*s", (int)strcspn(word, "="), word);
		show(actual, key, &decided);
	}
}

/* Plays a line, cut into its parts; leaves what it really resulted in. */
static void play_line(char *calls, char *expected, char *actual)
{
	const char *verb = strtok(calls, " \t\n");

	if (!verb)
		return;
	if (!strcmp(verb, "pool"))
		pool_line();
	else if (!strcmp(verb, "unit"))
		unit_line(next_word());
	else if (!strcmp(verb, "add"))
		add_line(actual);
	else if (!strcmp(verb, "at"))
		at_line(actual, expected);
	else
		bad("expected pool, unit, add or at", verb);
}

bool play_transcript(const char *file, bool rewrite)
{
	char line[LONGEST_LINE], calls[LONGEST_LINE], expected[LONGEST_LINE], wanted[LONGEST_LINE],
	    actual[4 * LONGEST_LINE];
	FILE *in = fopen(file, "r"), *out = rewrite ? tmpfile() : NULL;
	bool same = true;
	int c;

	path = file;
	unit = 1000000;
	line_number = servers = now = 0;
	if (!in)
		bad("cannot be read", file);
	while (fgets(line, sizeof(line), in)) {
		size_t code = strcspn(line, "#\n");
		const char *comment = line + code, *arrow = strstr(line, "->");
		size_t call_end = arrow && arrow < comment ? (size_t)(arrow - line) : code;

		line_number++;
		snprintf(calls, sizeof(calls), "%.*s", (int)call_end, line);
		snprintf(expected, sizeof(expected), "%.*s", call_end < code ? (int)(code - call_end - 2) : 0,
			 call_end < code ? arrow + 2 : "");
		actual[0] = 0;
		single_spaces(wanted, expected);
		play_line(calls, expected, actual);
		if (out) {
			fprintf(out, "%.*s%s%s%s%s", (int)call_end, line, *actual ? "-> " : "", actual,
				*actual && *comment == '#' ? "  " : "", comment);
		} else if (strcmp(wanted, actual)) {
			fprintf(stderr, "%s:%d: expected '%s', got '%s'\n", file, line_number, wanted, actual);
			same = false;
		}
	}
	fclose(in);
	if (out && (in = fopen(file, "w"))) {
		for (rewind(out); (c = fgetc(out)) != EOF;)
			fputc(c, in);
		fclose(in);
	}
	return same;
}
