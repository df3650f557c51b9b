/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The parts of the replay program: transcripts and random calls, made natively and, if asked, in the kernel too. */
#ifndef GIUSTO_POLICY_REPLAY_H
#define GIUSTO_POLICY_REPLAY_H

#include <stdbool.h>

#include "../call.h"

enum { EXIT_DIFFERS = 1, EXIT_BAD_INPUT = 2, EXIT_NO_KERNEL = 77 };

/*
 * Makes the call, in the kernel too if it is open; there result and pool must be the same bytes. Exits if not.
 * Returns what the function returned; the rest is in `pool`.
 */
gi_s64 make_call(const struct gi_call *call);
extern struct gi_pool pool;
extern unsigned long calls_made;

/* Plays a file; true if every result is as written. Rewrites the results instead if asked. */
bool play_transcript(const char *path, bool rewrite);

/*
 * Loads the BPF object. Returns its pool, mapped, so that it can be read without copying it at every call.
 * Exits: EXIT_NO_KERNEL without BPF or privilege, EXIT_DIFFERS if the verifier refuses it.
 */
const struct gi_pool *kernel_open(const char *object);
gi_s64 kernel_call(const struct gi_call *call);

/* Two processes make calls at a time: one is in the core, the other finds it taken. Exits if anything else happens. */
void kernel_together(unsigned long calls);

#endif
