// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Plays transcripts of token buckets; README.md has the grammar.
 *
 *   bucket [--kernel OBJECT] TRANSCRIPT...
 *
 * With --kernel every call is also made in the kernel, and bucket and result must be the same bytes.
 * Exit: 0 as expected, 1 not, 2 bad input, 77 the kernel could not be asked.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bucket_call.h"

enum { EXIT_DIFFERS = 1, EXIT_BAD_INPUT = 2, EXIT_NO_KERNEL = 77, LONGEST_LINE = 400 };

_Static_assert(sizeof(struct gi_bucket) == 6 * sizeof(gi_u64), "no hidden padding");

static const char *path = "options";
static unsigned long line_number, calls;
static int program = -1;

static void bad(const char *expected, const char *found)
{
	fprintf(stderr, "%s:%lu: expected %s: '%s'\n", path, line_number, expected, found ? found : "nothing");
	exit(EXIT_BAD_INPUT);
}

#ifdef WITH_KERNEL
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static void kernel_open(const char *file)
{
	struct bpf_object *object = bpf_object__open_file(file, NULL);
	int error = object ? bpf_object__load(object) : -errno;

	if (error) {
		fprintf(stderr, "%s is not loaded: %s\n", file, strerror(-error));
		exit(error == -EPERM || error == -ENOSYS ? EXIT_NO_KERNEL : EXIT_DIFFERS);
	}
	program = bpf_program__fd(bpf_object__find_program_by_name(object, "bucket_call"));
}

static void kernel_call(const struct gi_bucket_call *in, struct gi_bucket_call *out)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in, .data_size_in = sizeof(*in), .data_out = out,
		    .data_size_out = sizeof(*out));

	if (bpf_prog_test_run_opts(program, &options) || options.retval) {
		fprintf(stderr, "BPF test_run failed: %s, returned %d\n", strerror(errno), (int)options.retval);
		exit(EXIT_DIFFERS);
	}
}
#else
static void kernel_open(const char *file)
{
	fprintf(stderr, "this build is without the kernel: %s\n", file);
	exit(EXIT_NO_KERNEL);
}

static void kernel_call(const struct gi_bucket_call *in, struct gi_bucket_call *out)
{
	*out = *in;
}
#endif

static void make(struct gi_bucket_call *call)
{
	struct gi_bucket_call theirs;

	if (program >= 0)
		kernel_call(call, &theirs);
	gi_bucket_apply(call);
	calls++;
	if (program < 0 || !memcmp(call, &theirs, sizeof(theirs)))
		return;
	fprintf(stderr, "%s:%lu: native and kernel differ: returned %lld and %lld\n", path, line_number,
		(long long)call->value, (long long)theirs.value);
	exit(EXIT_DIFFERS);
}

/* A whole number; `end` is where it ends, or NULL if nothing may follow. */
static gi_u64 number(const char *text, char **end)
{
	char *stop = NULL;
	gi_u64 n = 0;

	errno = 0;
	if (text && *text >= '0' && *text <= '9')
		n = strtoull(text, &stop, 10);
	if (!stop || errno || (!end && *stop))
		bad("a whole number below 2^64", text);
	if (end)
		*end = stop;
	return n;
}

static char *next_word(void)
{
	return strtok(NULL, " \t\n");
}

/* The value of the next word, which must be key=value. */
static char *value(const char *key)
{
	char *word = next_word();
	size_t n = strlen(key);

	if (!word || strncmp(word, key, n) || word[n] != '=')
		bad(key, word);
	return word + n + 1;
}

/* N or N+U: N tokens and U 2^-20ths of one. */
static gi_u64 tokens(char *text)
{
	char *end;
	gi_u64 n = number(text, &end), units = *end == '+' ? number(end + 1, NULL) : 0;

	if ((*end && *end != '+') || n > ~0ull / GI_BUCKET_TOKEN || units >= GI_BUCKET_TOKEN)
		bad("tokens, as N or N+U with U in 2^-20", text);
	return n * GI_BUCKET_TOKEN + units;
}

static void show_result(char *to, size_t size, const struct gi_bucket_call *call)
{
	static const char *const refusals[] = {"bad_rate", "bad_burst", "bad_fill", "bad_time", "too_many", "never"};

	if (call->value < 0 && call->value >= GI_BUCKET_NEVER)
		snprintf(to, size, "refused=%s", refusals[-call->value - 1]);
	else if (call->op == GI_BUCKET_TAKE)
		snprintf(to, size, "release=%lld", (long long)call->value);
	else
		snprintf(to, size, "%s", call->op != GI_BUCKET_ADMIT ? "ok" : call->value ? "yes" : "no");
}

/* Compares with what is written: a result, then any of at=, fill= and rest=. */
static bool as_expected(const struct gi_bucket_call *call, char *expected)
{
	char actual[LONGEST_LINE] = "", text[64];
	const struct gi_bucket *b = &call->bucket;
	unsigned long long whole = b->level / GI_BUCKET_TOKEN, part = b->level % GI_BUCKET_TOKEN;
	bool same = true;

	for (char *word = strtok(expected, " \t\n"); word; word = next_word()) {
		if (!strncmp(word, "at=", 3))
			snprintf(text, sizeof(text), "at=%llu", (unsigned long long)b->at);
		else if (!strncmp(word, "fill=", 5))
			snprintf(text, sizeof(text), part ? "fill=%llu+%llu" : "fill=%llu", whole, part);
		else if (!strncmp(word, "rest=", 5))
			snprintf(text, sizeof(text), "rest=%llu", (unsigned long long)b->rest);
		else
			show_result(text, sizeof(text), call);
		same &= !strcmp(word, text);
		snprintf(actual + strlen(actual), sizeof(actual) - strlen(actual), " %s", text);
	}
	if (!same)
		fprintf(stderr, "%s:%lu: got%s\n", path, line_number, actual);
	return same;
}

static bool play_line(struct gi_bucket *bucket, char *line, char *expected)
{
	struct gi_bucket_call call = {.bucket = *bucket};
	char *verb = strtok(line, " \t\n"), *end;
	bool known = true;

	if (!verb)
		return true;
	if (!strcmp(verb, "at")) {
		call.now = number(next_word(), NULL);
		verb = next_word();
	}
	if (!verb || (strcmp(verb, "take") && strcmp(verb, "admit"))) {
		known = verb && (!strcmp(verb, "bucket") || !strcmp(verb, "set"));
		if (!known)
			bad("[at NS] bucket, set, take or admit", verb);
		call.op = *verb == 's' ? GI_BUCKET_SET : GI_BUCKET_INIT;
		call.num = number(value("rate"), &end);
		call.den = number(*end == '/' ? end + 1 : end, NULL);
		call.burst = tokens(value("burst"));
		if (call.op == GI_BUCKET_INIT)
			call.fill = tokens(value("fill"));
	} else {
		call.op = *verb == 't' ? GI_BUCKET_TAKE : GI_BUCKET_ADMIT;
		call.num = number(next_word(), NULL);
	}
	if ((end = next_word()))
		bad("->", end);
	make(&call);
	*bucket = call.bucket;
	return as_expected(&call, expected);
}

static bool play(const char *file)
{
	char line[LONGEST_LINE], nothing[] = "", *arrow;
	struct gi_bucket bucket = {0};
	bool same = true;
	FILE *in = fopen(file, "r");

	path = file;
	line_number = 0;
	if (!in)
		bad("a file that can be read", file);
	while (fgets(line, sizeof(line), in)) {
		line_number++;
		line[strcspn(line, "#\n")] = 0;
		arrow = strstr(line, "->");
		if (arrow)
			*arrow = 0;
		same &= play_line(&bucket, line, arrow ? arrow + 2 : nothing);
	}
	fclose(in);
	return same;
}

int main(int count, char **words)
{
	int files = 0, failed = 0, i = 1;

	if (count > 2 && !strcmp(words[1], "--kernel")) {
		kernel_open(words[2]);
		i = 3;
	}
	for (; i < count; i++, files++)
		failed += !play(words[i]);
	printf("files=%d failed=%d calls=%lu\n", files, failed, calls);
	return failed ? EXIT_DIFFERS : 0;
}
