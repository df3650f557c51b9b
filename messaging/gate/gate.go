// SPDX-License-Identifier: Apache-2.0

// Package gate decides when a topic's messages pass: an inbox that puts what was read late into the order of its stamps, before
// a token bucket. Pure: times come in, messages come out. Locks and clocks belong to the caller.
//
// Why an inbox: after a pause of the process many readers deliver at once, in any order. A bucket that sees the latest stamp
// first is full, and the tokens that came between the earlier ones are lost; messages that kept to the limit would wait. So what
// was read more than Late after its stamp is held for a moment, until the others of that pause are here too.
//
// Times are ns of one clock that never steps. Calls are O(log n) in the messages held.
package gate

import (
	"container/heap"

	"giusto.dev/messaging/bucket"
)

const (
	// Late: what was read later than this after its stamp shows a pause. It is held, and what comes while it is.
	Late = 500_000
	// Hold is the longest that the inbox holds a message; it holds as long as the latest of the pause was late.
	Hold = 1_500_000
)

type held[T any] struct {
	stamp, seq uint64
	message    T
}

type late struct{ read, stamp uint64 }

type waiting[T any] struct {
	at      uint64
	message T
}

// Counts of what came and how it passed.
type Counts struct{ Passed, Held, Delayed uint64 }

// Gate is one topic's. Bucket must be set.
type Gate[T any] struct {
	Bucket bucket.Bucket
	Counts Counts
	inbox  inbox[T]
	dues   fifo[late] // what the inbox has, as it was read
	until  uint64     // when the inbox need not hold anything any more, as far as is known
	queue  fifo[waiting[T]]
	seq    uint64
}

// Arrive takes a message stamped `stamp` and read `now`. True: it passes now. False: it is kept, and Due will hand it out.
// An error is the bucket's; nothing was kept then.
func (g *Gate[T]) Arrive(stamp, now uint64, message T) (bool, error) {
	stamp = min(stamp, now)
	g.Counts.Passed++
	if lag := now - stamp; lag > Late {
		g.until = max(g.until, now+min(lag, Hold))
	}
	if now >= g.until && len(g.inbox) == 0 {
		return g.decide(stamp, now, message)
	}
	g.Counts.Held++
	g.seq++
	heap.Push(&g.inbox, held[T]{stamp, g.seq, message})
	g.dues.push(late{now, stamp})
	return false, nil
}

func (g *Gate[T]) decide(stamp, now uint64, message T) (bool, error) {
	at, err := g.Bucket.Take(1, stamp)
	if err != nil {
		return false, err
	}
	if at <= now && g.queue.len() == 0 {
		return true, nil
	}
	if at > now {
		g.Counts.Delayed++
	}
	g.queue.push(waiting[T]{at, message})
	return false, nil
}

// due is when the first of the inbox is decided at the latest. Others of the same pause that turn out to be later make it wait
// longer, for Hold at most.
func (g *Gate[T]) due() uint64 {
	return max(g.dues.first().read, min(g.dues.first().read+Hold, g.until))
}

// Due hands out, in order, what passes by now. What the bucket refuses (no such settings are accepted) goes to `lost`.
func (g *Gate[T]) Due(now uint64, pass func(T), lost func(T, error)) {
	latest, any := uint64(0), false
	for g.dues.len() > 0 && g.due() <= now {
		latest, any = max(latest, g.dues.pop().stamp), true
	}
	for any && len(g.inbox) > 0 && g.inbox[0].stamp <= latest {
		h := heap.Pop(&g.inbox).(held[T])
		// Through the queue, so that what waits there already stays ahead.
		at, err := g.Bucket.Take(1, h.stamp)
		if err != nil {
			lost(h.message, err)
			continue
		}
		if at > now {
			g.Counts.Delayed++
		}
		g.queue.push(waiting[T]{at, h.message})
	}
	for g.queue.len() > 0 && g.queue.first().at <= now {
		pass(g.queue.pop().message)
	}
}

// Next is when Due has something to do; false: nothing is kept.
func (g *Gate[T]) Next() (uint64, bool) {
	next, any := uint64(0), false
	if g.dues.len() > 0 {
		next, any = g.due(), true
	}
	if g.queue.len() > 0 && (!any || g.queue.first().at < next) {
		next, any = g.queue.first().at, true
	}
	return next, any
}

// Kept is how many messages are in the inbox and wait for tokens.
func (g *Gate[T]) Kept() int { return len(g.inbox) + g.queue.len() }

// Flush hands out everything now, in order, whatever the bucket says: at shutdown.
func (g *Gate[T]) Flush(pass func(T)) {
	for g.queue.len() > 0 {
		pass(g.queue.pop().message)
	}
	for len(g.inbox) > 0 {
		pass(heap.Pop(&g.inbox).(held[T]).message)
	}
	g.dues = fifo[late]{}
}

// inbox is a heap by stamp; equal stamps in the order in which they came.
type inbox[T any] []held[T]

func (b inbox[T]) Len() int { return len(b) }
func (b inbox[T]) Less(i, j int) bool {
	if b[i].stamp != b[j].stamp {
		return b[i].stamp < b[j].stamp
	}
	return b[i].seq < b[j].seq
}
func (b inbox[T]) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *inbox[T]) Push(x any)   { *b = append(*b, x.(held[T])) }
func (b *inbox[T]) Pop() any {
	last := len(*b) - 1
	x := (*b)[last]
	(*b)[last] = held[T]{}
	*b = (*b)[:last]
	return x
}

// fifo is a queue whose memory follows its length.
type fifo[T any] struct {
	in   []T
	head int
}

func (q *fifo[T]) len() int  { return len(q.in) - q.head }
func (q *fifo[T]) first() *T { return &q.in[q.head] }
func (q *fifo[T]) push(x T)  { q.in = append(q.in, x) }
func (q *fifo[T]) pop() T {
	var none T
	x := q.in[q.head]
	q.in[q.head] = none
	q.head++
	switch {
	case q.head == len(q.in) && cap(q.in) <= 1024:
		q.in, q.head = q.in[:0], 0
	case q.head == len(q.in):
		q.in, q.head = nil, 0
	case q.head >= 1024 && q.head*2 >= len(q.in):
		q.in, q.head = append([]T(nil), q.in[q.head:]...), 0
	}
	return x
}
