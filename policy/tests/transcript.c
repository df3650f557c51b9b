// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Plays a transcript: calls and what they must result in. README.md has the grammar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

enum { LONGEST_LINE = 800, LONGEST_NAME = 32 };

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
	static const char *const orders[] = {"fp", "edf", "mixed"};
	const char *cores = value(next_word(), "m"), *order = value(next_word(), "order"), *word = next_word(), *v;
	gi_u32 m = cores ? (gi_u32)strtoul(cores, NULL, 10) : 0, i = 0;
	struct gi_call cooling = {.op = GI_OP_COOLING, .flag = 1};

	while (order && i < 3 && strcmp(order, orders[i]))
		i++;
	if (m < 1 || m > GI_CORES || !order || i == 3 || (i == GI_MIXED_CRITICALITY && m != 1))
		bad("expected: pool m=N order=fp|edf, or m=1 order=mixed", order);
	make_call(&(struct gi_call){.op = GI_OP_INIT, .index = i, .flag = m});
	servers = 0;
	now = 0;
	if (word && i != GI_MIXED_CRITICALITY)
		bad("expected nothing more but for order=mixed", word);
	for (; word; word = next_word())
		if ((v = value(word, "cool")))
			cooling.flag = (gi_u32)strtoul(v, NULL, 10);
		else if ((v = value(word, "back")) && (!strcmp(v, "idle") || !strcmp(v, "temperature")))
			cooling.index = strcmp(v, "idle") ? GI_BACK_TEMPERATURE : GI_BACK_IDLE;
		else
			bad("expected cool=N or back=idle|temperature", word);
	if (i == GI_MIXED_CRITICALITY)
		make_call(&cooling);
}

static gi_u32 kind_named(const char *name)
{
	for (gi_u32 i = 0; i < GI_KINDS; i++)
		if (!strcmp(name, gi_kind_name(i)))
			return i;
	bad("expected periodic_strict|conserving|reclaiming, polling, deferrable, sporadic, constant_bandwidth, "
	    "unlimited or mixed",
	    name);
	return 0;
}

/* A parameter of a reservation of mixed criticality; false if the word is none. */
static bool mixed_parameter(const char *word, struct gi_call *call)
{
	const char *v;

	if ((v = value(word, "B")))
		call->budget = parse_time(v);
	else if ((v = value(word, "W")))
		call->worst = parse_time(v);
	else if ((v = value(word, "first")) && call->op == GI_OP_ADD_MIXED)
		call->first = parse_time(v);
	else if ((v = value(word, "P")))
		call->period = parse_time(v);
	else if ((v = value(word, "V")))
		call->virtual_deadline = parse_time(v);
	else
		return false;
	return true;
}

/* A parameter of a reservation; false if the word is none. */
static bool parameter(const char *word, struct gi_call *call)
{
	const char *v;

	if ((v = value(word, "B")))
		call->budget = parse_time(v);
	else if ((v = value(word, "P")))
		call->period = parse_time(v);
	else if ((v = value(word, "first")) && call->op == GI_OP_ADD)
		call->first = parse_time(v);
	else if ((v = value(word, "prio")))
		call->priority = (gi_u32)strtoul(v, NULL, 10);
	else
		return false;
	return true;
}

static void add_line(char *actual)
{
	struct gi_call call = {.op = GI_OP_ADD, .now = now};
	const char *name = next_word(), *kind = next_word(), *word;
	gi_s64 index;

	if (!name || strlen(name) >= LONGEST_NAME || !kind)
		bad("expected: add NAME KIND [B=TIME P=TIME] [first=TIME] [prio=N]", name);
	call.index = kind_named(kind);
	if (call.index == GI_MIXED)
		call.op = GI_OP_ADD_MIXED;
	while ((word = next_word()))
		if (!(call.index == GI_MIXED ? mixed_parameter(word, &call) : parameter(word, &call)))
			bad("expected B=, P=, first= or prio=; of a mixed one B=, W=, P=, V= or first=", word);
	if (call.index == GI_MIXED && !call.virtual_deadline)
		call.virtual_deadline = call.period;
	index = make_call(&call);
	if (index < 0) {
		strcpy(actual, "refused");
		return;
	}
	strcpy(names[index], name);
	servers = pool.count;
}

/* set NAME [B=TIME P=TIME] [prio=N] now|next: without prio it stays as it is. Of a mixed one also W= and V=. */
static void set_call(struct gi_call *call)
{
	const char *word;
	bool mixed;

	call->index = find(next_word());
	mixed = pool.server[call->index].kind == GI_MIXED;
	call->op = mixed ? GI_OP_SET_MIXED : GI_OP_SET;
	call->priority = pool.server[call->index].priority;
	while ((word = next_word()) && (mixed ? mixed_parameter(word, call) : parameter(word, call)))
		;
	if (!word || (strcmp(word, "now") && strcmp(word, "next")))
		bad("expected: set NAME [B=TIME P=TIME] [prio=N] [W=TIME] [V=TIME] now|next", word);
	if (mixed && !call->virtual_deadline)
		call->virtual_deadline = call->period;
	call->flag = strcmp(word, "now") ? GI_NEXT_PERIOD : GI_NOW;
}

/* The core that a word ends with, after `key`: of the pool, or there is none. */
static bool core_of(const char *word, const char *key, gi_u32 *core)
{
	size_t n = strlen(key);
	char *end;

	if (strncmp(word, key, n) || word[n] < '0' || word[n] > '9')
		return false;
	*core = (gi_u32)strtoul(word + n, &end, 10);
	if (*end || *core >= pool.m)
		bad("expected a core of the pool", word);
	return true;
}

/* The names in the order of the pool: `!` after who keeps a core empty, `|` before those without a claim. */
static void show_order(char *text, size_t size)
{
	gi_u32 n = (gi_u32)make_call(&(struct gi_call){.op = GI_OP_ORDER, .flag = GI_CAPACITY}), i, mark, before = 0;
	int used = snprintf(text, size, "%s", n ? "" : "none");

	for (i = 0; i < n && used < (int)size; i++, before = mark) {
		mark = pool.place[i] & (GI_KEEPS | GI_LEFTOVERS);
		used += snprintf(text + used, size - (size_t)used, "%s%s%s",
				 mark == GI_LEFTOVERS && before != mark ? "|"
				 : i					? ","
									: "",
				 names[pool.place[i] & (GI_CAPACITY - 1u)], mark == GI_KEEPS ? "!" : "");
	}
}

/* What was asked for, as text. */
static void show_value(char *text, size_t size, const char *key)
{
	const char *dot = strchr(key, '.');
	gi_u64 time = pool.until;
	char name[LONGEST_NAME];
	gi_u32 core;

	strcpy(text, "never");
	if (core_of(key, "core", &core)) {
		strcpy(text, pool.core[core].runs == GI_NONE ? "idle" : names[pool.core[core].runs]);
		return;
	}
	if (core_of(key, "payer", &core)) {
		strcpy(text, pool.core[core].payer == GI_NONE ? "none" : names[pool.core[core].payer]);
		return;
	}
	if (core_of(key, "changed", &core)) {
		strcpy(text, pool.changed >> core & 1 ? "yes" : "no");
		return;
	}
	if (!strcmp(key, "changed")) {
		strcpy(text, pool.changed ? "yes" : "no");
		return;
	}
	if (!strcmp(key, "order")) {
		show_order(text, size);
		return;
	}
	if (!strcmp(key, "freed")) {
		print_time(text, size, pool.freed);
		return;
	}
	if (!strcmp(key, "mode")) {
		strcpy(text, pool.mode == GI_HI ? "hi" : "lo");
		return;
	}
	if (strcmp(key, "until")) {
		snprintf(name, sizeof(name), "%.*s", dot ? (int)(dot - key) : 0, key);
		make_call(&(struct gi_call){.op = GI_OP_LOOK, .index = find(name)});
		if (!strcmp(dot, ".left")) {
			print_signed_time(text, size, pool.seen.left);
			return;
		}
		if (strcmp(dot, ".deadline") && strcmp(dot, ".boosted"))
			bad("expected coreN, payerN, until, freed, changed, mode, order, NAME.left, .deadline or "
			    ".boosted",
			    key);
		time = dot[1] == 'd' ? pool.seen.deadline : pool.seen.boost_ns;
	}
	if (time != GI_NEVER)
		print_time(text, size, time);
}

/* Appends " key=value", for the keys that the expectation asks for; what was refused is said anyway. */
static void show(char *actual, const char *key)
{
	char text[LONGEST_LINE];

	if (!strcmp(key, "refused"))
		return;
	show_value(text, sizeof(text), key);
	sprintf(actual + strlen(actual), "%s%s=%s", *actual ? " " : "", key, text);
}

/* The call that a word begins. */
static struct gi_call parse_call(const char *word)
{
	struct gi_call call = {.now = now};

	if (!strcmp(word, "charge") || core_of(word, "charge", &call.index)) {
		word = next_word();
		call.op = GI_OP_CHARGE;
		call.budget = parse_time(word ? word : "");
	} else if (!strcmp(word, "ready") || !strcmp(word, "idle")) {
		call.op = GI_OP_READY;
		call.flag = word[0] == 'r';
		call.index = find(next_word());
	} else if (!strcmp(word, "set")) {
		set_call(&call);
	} else if (!strcmp(word, "remove")) {
		call.op = GI_OP_REMOVE;
		call.index = find(next_word());
	} else if (!strcmp(word, "owe")) {
		call.op = GI_OP_OWE;
		call.index = find(next_word());
		word = next_word();
		call.budget = parse_time(word ? word : "");
	} else if (!strcmp(word, "boost")) {
		call.op = GI_OP_BOOST;
		call.index = find(next_word());
		word = value(next_word(), "until");
		call.first = parse_time(word ? word : "");
	} else {
		bad("expected decide, charge[N] TIME, owe NAME TIME, ready NAME, idle NAME, remove NAME, set NAME ... "
		    "or boost NAME until=TIME",
		    word);
	}
	return call;
}

static void at_line(char *actual, char *expected)
{
	const char *word = next_word();

	if (!word)
		bad("expected: at TIME CALL...", word);
	now = parse_time(word);
	while ((word = next_word())) {
		struct gi_call call;

		if (!strcmp(word, "decide"))
			continue; /* a line ends with it anyway */
		call = parse_call(word);
		if (make_call(&call) < 0)
			strcpy(actual, "refused");
		else if (call.op == GI_OP_REMOVE)
			names[call.index][0] = 0;
	}
	make_call(&(struct gi_call){.op = GI_OP_DECIDE, .now = now});
	for (word = strtok(expected, " \t\n"); word; word = next_word()) {
		char key[2 * LONGEST_NAME];

		snprintf(key, sizeof(key), "%.*s", (int)strcspn(word, "="), word);
		show(actual, key);
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
