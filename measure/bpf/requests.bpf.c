// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Response times of services that answer requests over stream sockets, without touching them: from the arrival of a
 * request's first byte at the service's socket to the call that gives the socket the last byte of its answer.
 *
 * A connection that the service accepted has a ring of arrivals: up to which byte, and when. What the service reads is
 * parsed for where requests begin (parse.h), which tells when each arrived; what it writes, for where answers end. The
 * n-th answer of a connection is that to its n-th request. Arrivals are told by the network, reads and writes by the
 * service's threads: one writes the ring, the other reads it, and neither waits. A reader may come before what it reads
 * is told (a Unix socket's has the bytes first; on a busy processor a program may be passed over): it tells itself
 * then.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "feed.h"

#pragma clang diagnostic ignored "-Wunused-parameter" /* BPF_PROG's */

#define MSG_PEEK 2	  /* include/linux/socket.h */
#define TCP_ESTABLISHED 1 /* include/net/tcp_states.h */
#define TCP_LISTEN 10
#define AF_UNIX 1 /* include/linux/socket.h */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	int pid;
	int tgid;
};
struct sk_buff {
	unsigned int len;
	char cb[48];
};
struct sk_buff_head {
	struct sk_buff *prev;
	__u32 qlen;
};
struct unix_skb_parms {
	__u32 consumed;
};
struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__u16 skc_num;
};
struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
};
struct tcp_sock {
	__u32 rcv_nxt;
	__u32 copied_seq;
};
struct unix_sock {
	void *addr;
};
struct pt_regs {
#ifdef __TARGET_ARCH_x86
	unsigned long orig_ax;
	unsigned long si;
#else
	__u64 regs[31];
#endif
};
#pragma clang attribute pop

/* System calls, and where a process was when it made one. */
#if defined(__TARGET_ARCH_x86)
#define NUMBER_OF_CALL(regs) ((regs)->orig_ax)
#define SECOND_ARGUMENT(regs) ((regs)->si)
#define CALL_READ 0
#define CALL_WRITE 1
#define CALL_READV 19
#define CALL_WRITEV 20
#define CALL_SENDTO 44
#define CALL_RECVFROM 45
#define CALL_SENDMSG 46
#define CALL_RECVMSG 47
#else
#define NUMBER_OF_CALL(regs) ((regs)->regs[8])
#define SECOND_ARGUMENT(regs) ((regs)->regs[1])
#define CALL_READ 63
#define CALL_WRITE 64
#define CALL_READV 65
#define CALL_WRITEV 66
#define CALL_SENDTO 206
#define CALL_RECVFROM 207
#define CALL_SENDMSG 211
#define CALL_RECVMSG 212
#endif

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE); /* an accepted connection has its listener's */
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

/* Processes of services. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} processes SEC(".maps");

/* Where services listen: ports, and addresses of Unix sockets in the kernel. */
struct place {
	__u32 service;
	__u32 port;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, struct place);
	__type(value, __u8);
} ports SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u64);
	__type(value, __u32);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SERVICES);
	__type(key, __u32);
	__type(value, struct served);
} services SEC(".maps");

/* How a connection begins, whole at once: the network and the reader meet it on different processors. Too large for the
 * stack. */
static const struct connection from_its_middle;
static const struct connection from_its_beginning = {.placed = 1, .in_step = 1};

static __always_inline __u32 *own_service(void)
{
	__u32 process = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&processes, &process);
}

static __always_inline struct connection *watched(struct sock *sk, __u32 service, int is_new)
{
	const struct connection *begins = is_new ? &from_its_beginning : &from_its_middle;
	struct connection *c;

	c = bpf_sk_storage_get(&connections, sk, (void *)begins, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c) /* it was made at the same time on another processor */
		c = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (c)
		c->service = service;
	return c;
}

/* The address of a Unix socket in the kernel, which an accepted one has from its listener; 0: none, as a client's. */
static __always_inline __u64 address(struct sock *sk)
{
	return (__u64)BPF_CORE_READ((struct unix_sock *)sk, addr);
}

static __always_inline void unix_arrives(struct sock *sk)
{
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct sk_buff *last;
	__u64 key;
	__u32 *service, unread, received;

	if (!c) {
		key = address(sk);
		service = key ? bpf_map_lookup_elem(&addresses, &key) : 0;
		if (!service || sk->__sk_common.skc_state == TCP_LISTEN)
			return;
		c = watched(sk, *service, 1);
		if (!c)
			return;
	}
	/* The reader may have read some of it, or all, and may go on: what it tells meanwhile must not count twice. */
	received = *(volatile __u32 *)&c->received;
	if (!sk->sk_receive_queue.qlen)
		return;
	last = BPF_CORE_READ(sk, sk_receive_queue.prev);
	unread = BPF_CORE_READ(last, len) - BPF_CORE_READ((struct unix_skb_parms *)&last->cb, consumed);
	if (BPF_CORE_READ(sk, sk_receive_queue.prev) == last)
		tell(c, received + unread);
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(arrives, struct sock *sk)
{
	struct connection *c;
	struct tcp_sock *tcp;

	if (sk->__sk_common.skc_family == AF_UNIX) {
		unix_arrives(sk);
		return 0;
	}
	c = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!c || sk->__sk_common.skc_state == TCP_LISTEN)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	if (!c->placed) {
		c->received = c->read = c->parsed = tcp->copied_seq;
		c->placed = 1;
	}
	tell(c, tcp->rcv_nxt);
	return 0;
}

/* Where the system call under way has its bytes. */
static __always_inline void bytes_of_call(struct direction *d)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	const char *second = (void *)SECOND_ARGUMENT(regs);
	struct {
		const char *pieces;
		__u64 many;
	} message;

	d->bytes = d->pieces = 0;
	switch ((__s32)NUMBER_OF_CALL(regs)) {
	case CALL_READ:
	case CALL_WRITE:
	case CALL_SENDTO:
	case CALL_RECVFROM:
		d->bytes = second;
		break;
	case CALL_READV:
	case CALL_WRITEV:
		d->pieces = second;
		d->many = VECTORS;
		break;
	case CALL_SENDMSG:
	case CALL_RECVMSG:
		if (bpf_probe_read_user(&message, sizeof(message), second + 16)) /* struct user_msghdr */
			break;
		d->pieces = message.pieces;
		d->many = message.many;
	}
}

static __always_inline int protocol_of(struct direction *d)
{
	__u32 at, size = d->size, lines = 0;
	struct piece first = {.base = d->bytes, .length = size};
	__u8 last = 0;

	if (d->pieces && bpf_probe_read_user(&first, sizeof(first), d->pieces))
		return UNKNOWN;
	if (size > first.length)
		size = first.length;
	if (size && !bpf_probe_read_user(&last, 1, first.base + size - 1))
		lines = last == '\n';
	barrier_var(size);
	if (size > CHUNK)
		size = CHUNK;
	if (!first.base || bpf_probe_read_user(d->chunk, size, first.base))
		return UNKNOWN;
	for (at = 0; at < CHUNK; at += 8)
		lines |= !passes(*(__u64 *)&d->chunk[at]);
	return speaks(d->chunk, size, lines);
}

/* The service's thread has read `size` bytes. */
static __always_inline void has_read(struct connection *c, struct served *served, __u32 size)
{
	struct work work = {.c = c, .served = served};
	struct direction *in = &c->in;

	c->answered = 0;
	if (!c->in_step)
		return;
	if (c->read - size != c->parsed) { /* not all was read by calls that tell */
		out_of_step(c, served);
		return;
	}
	in->size = size;
	in->at = bpf_ktime_get_ns();
	bytes_of_call(in);
	if (c->protocol == UNDECIDED) {
		c->protocol = protocol_of(in);
		__sync_fetch_and_add(&served->connections[c->protocol % PROTOCOLS], 1);
	}
	if (c->protocol == TLS || c->protocol == UNKNOWN) {
		c->in_step = 0;
		return;
	}
	fed(&work, in);
	barrier(); /* Records of what is parsed may be used again. */
	c->parsed = c->read;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(reads, struct sock *sk, int size, int flags)
{
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);
	__u32 *service, *known = 0, family = sk->__sk_common.skc_family;
	struct place place = {};
	struct served *served;
	struct tcp_sock *tcp;
	int is_new = 0;
	__u64 key;

	if (size <= 0 || flags & MSG_PEEK)
		return 0;
	/* New, where its address is known; or there before it was watched: its requests count once it has been idle. */
	if (!c) {
		service = own_service();
		if (!service)
			return 0;
		if (family == AF_UNIX) {
			key = address(sk);
			if (!key)
				return 0;
			known = bpf_map_lookup_elem(&addresses, &key);
			is_new = known && *known == *service;
			bpf_map_update_elem(&addresses, &key, service, BPF_ANY);
		} else {
			place.service = *service;
			place.port = sk->__sk_common.skc_num;
			if (!bpf_map_lookup_elem(&ports, &place))
				return 0;
		}
		c = watched(sk, *service, is_new);
		if (!c)
			return 0;
	}
	if (family == AF_UNIX && !c->read) { /* Addresses are used again. */
		service = own_service();
		key = address(sk);
		if (!service) {
			bpf_map_delete_elem(&addresses, &key);
			bpf_sk_storage_delete(&connections, sk);
			return 0;
		}
		if (c->service != *service)
			bpf_map_update_elem(&addresses, &key, service, BPF_ANY);
		c->service = *service;
	}
	served = bpf_map_lookup_elem(&services, &c->service);
	if (!served)
		return 0;
	if (family == AF_UNIX) {
		c->read += size;
	} else {
		tcp = bpf_skc_to_tcp_sock(sk);
		if (!tcp)
			return 0;
		c->read = tcp->copied_seq;
		if (!c->placed)
			c->received = tcp->rcv_nxt;
		/* With its last bytes a socket reads the end of the stream, which has a number too. */
		if (sk->__sk_common.skc_state != TCP_ESTABLISHED && c->read - size == c->parsed + 1)
			c->read--;
	}
	c->placed = 1;
	if (reader_tells(c, c->read))
		has_read(c, served, size);
	else if (c->in_step)
		out_of_step(c, served);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(writes, struct sock *sk, int size)
{
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct work work = {.c = c, .answer = 1};

	if (!c || size <= 0)
		return 0;
	c->answered = 1;
	work.served = bpf_map_lookup_elem(&services, &c->service);
	if (!work.served || !c->in_step)
		return 0;
	c->out.size = size;
	c->out.at = bpf_ktime_get_ns();
	bytes_of_call(&c->out);
	fed(&work, &c->out);
	return 0;
}

/* A service listens: what it accepts from now on is watched. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(listens, struct sock *sk, int before, int state)
{
	__u32 *service;
	struct place place = {};
	struct connection *c;
	__u8 yes = 1;

	if (state != TCP_LISTEN)
		return 0;
	service = own_service();
	if (!service)
		return 0;
	place.service = *service;
	place.port = sk->__sk_common.skc_num;
	bpf_map_update_elem(&ports, &place, &yes, BPF_ANY);
	c = watched(sk, *service, 0);
	if (c)
		c->in_step = 1;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forks, struct task_struct *parent, struct task_struct *child)
{
	__u32 old = parent->tgid, process = child->tgid;
	__u32 *service = bpf_map_lookup_elem(&processes, &old);

	if (service && process == (__u32)child->pid)
		bpf_map_update_elem(&processes, &process, service, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
