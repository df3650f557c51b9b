/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the watch (watch.bpf.c) and the manager (src/manager/watch.rs) share. */
#ifndef GIUSTO_WATCH_H
#define GIUSTO_WATCH_H

#define WATCH_EVENTS (256 * 1024) /* bytes */
#define WATCH_SERVERS 64
#define WATCH_THREADS 8192

enum {
	WATCH_IDLE = 1,	  /* its last running thread fell asleep */
	WATCH_READY = 2,  /* its first thread woke */
	WATCH_NEW = 4,	  /* a thread was born */
	WATCH_GONE = 8,	  /* a thread ended */
	WATCH_MOVED = 16, /* a thread was put into another cgroup, or runs on another core */
};

struct watched {
	__u64 total; /* its sum_exec_runtime, as far as it is accounted for */
	__u64 task;  /* whose that is; 0: not seen yet */
	__u32 server;
	__u32 asleep;
};

struct account {
	__u64 ran;     /* consumed by all its threads, in ns */
	__u64 lost;    /* events that found the buffer full */
	__u32 awake;   /* threads that run or wait for the core */
	__u32 threads; /* born less ended, beside those that the manager has put in */
	__u32 urgent;  /* which events wake the manager */
	__u32 parked;  /* stopped by the manager: that its threads sleep says nothing */
	__u32 astray;  /* WATCH_MOVED has been told, and the manager has not looked yet */
	__u32 pad;
};

struct event {
	__u64 at; /* CLOCK_MONOTONIC, ns */
	__u64 ran;
	__u32 server;
	__u32 what;
	__u32 tid;
	__u32 pad;
};

#endif
