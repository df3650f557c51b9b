// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The policy core as the scheduler of a kernel that has sched_ext, which it needs to itself: a guest
 * (tests/kernel-guest.sh).
 *
 *   servers OBJECT SCENE...
 *
 * Exit: 0 all scenes as expected, 1 not, 77 the kernel has no sched_ext.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler.h"

const char *object;
int programs_at_first;

static const struct {
	const char *name;
	void (*play)(void);
} scenes[] = {
    {"shares", shares},		{"deadline", deadline}, {"criticality", criticality},
    {"calls", calls},		{"alone", alone},	{"twins", twins},
    {"fair_first", fair_first}, {"comings", comings},	{"killed", killed},
    {"starved", starved},	{"many", many},		{"hotplug", hotplug},
};

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(state(), "no sched_ext")) {
		printf("NOT RUN: this kernel has no sched_ext\n");
		return EXIT_CANNOT;
	}
	object = words[1];
	programs_at_first = programs();
	for (int i = 2; i < count; i++)
		for (size_t j = 0; j < sizeof(scenes) / sizeof(scenes[0]); j++)
			if (!strcmp(words[i], scenes[j].name)) {
				printf("--- %s\n", scenes[j].name);
				scenes[j].play();
				printf("passed: %s\n", scenes[j].name);
			}
	return 0;
}
