/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What requests.bpf.c shares with user space (../src/passive/kernel.rs). Fixed widths; times are CLOCK_MONOTONIC's, in
 * ns. */
#ifndef GIUSTO_REQUESTS_H
#define GIUSTO_REQUESTS_H

#include "histogram.h"

#define CONNECTION 4688 /* bytes that are kept of a connection */
#define SERVICES 1	/* observed at once; user space says how many when it loads the programs */
#define PROCESSES 16384 /* of all of them */

struct served {
	__u64 responses[BUCKETS]; /* from the arrival of a request's first byte to the last byte of its answer */
	__u64 waits[BUCKETS];	  /* ... to its being read */
	__u64 connections[PROTOCOLS + 1];
	__u64 unseen;	/* times that a connection was out of step: what it answered until it was idle is in no count */
	__u64 answered; /* requests that are in responses */
	__u64 total;	/* their response times */
	__u64 pad[5];
};

#endif
