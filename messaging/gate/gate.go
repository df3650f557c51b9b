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
	"giusto.dev/messaging/fifo"
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

// waiting is a message that waits for tokens, since when.
type waiting[T any] struct {
	stamp, since uint64
	message      T
}

// released is a message whose release was decided, and for when.
type released[T any] struct {
	at      uint64
	message T
}

// Counts of what came and how it passed.
type Counts struct{ Passed, Held, Delayed uint64 }

// Gate is one topic's. Bucket must be set before the first message; Set and Restart change it then.
//
// Of what waits only the first's release is decided, and not given before it has come: a smaller share takes effect at once. The
// releases are the same as if each was decided when it arrived.
type Gate[T any] struct {
	Bucket bucket.Bucket
	Counts Counts
	// Until is the last instant for which a release is decided: the end of a lease. 0: there is none. It may be put off as long as it
	// has not come; then Restart is needed.
	Until uint64
	// At is for when the release of what passed last was decided: not after it was handed out.
	At uint64

	inbox  inbox[T]
	dues   fifo.Queue[late] // what the inbox has, as it was read
	until  uint64           // when the inbox need not hold anything any more, as far as is known
	queue  fifo.Queue[waiting[T]]
	ready  fifo.Queue[released[T]] // decided for an instant before Bucket was changed, not handed out yet
	seq    uint64
	next   bucket.Bucket // Bucket after the release of the queue's first, if that is decided
	first  uint64        // for when
	chosen bool          // whether it is decided
	use    bucket.Bucket // as Bucket, but so deep that nothing waits: what it lacks is in use
	peak   uint64
}

// Arrive takes a message stamped `stamp` and read `now`. True: it passes now. False: it is kept, and Due will hand it out.
func (g *Gate[T]) Arrive(stamp, now uint64, message T) bool {
	stamp = min(stamp, now)
	g.Counts.Passed++
	if lag := now - stamp; lag > Late {
		g.until = max(g.until, now+min(lag, Hold))
	}
	if now >= g.until && len(g.inbox) == 0 {
		first := g.queue.Len() == 0 && g.ready.Len() == 0
		g.wait(stamp, now, message)
		if at, any := g.head(); first && any && at <= now {
			g.release()
			return true
		}
		return false
	}
	g.Counts.Held++
	g.seq++
	heap.Push(&g.inbox, held[T]{stamp, g.seq, message})
	g.dues.Push(late{now, stamp})
	return false
}

// wait puts a message into the queue.
func (g *Gate[T]) wait(stamp, now uint64, message T) {
	g.queue.Push(waiting[T]{stamp, now, message})
	if g.use.Admit(1, stamp) {
		g.peak = max(g.peak, g.use.Lacks())
	}
}

// head is for when the release of the queue's first is decided; false: there is none, or it must wait for another share or lease.
func (g *Gate[T]) head() (uint64, bool) {
	if g.queue.Len() == 0 {
		return 0, false
	}
	if !g.chosen {
		var err error
		g.next = g.Bucket
		if g.first, err = g.next.Take(1, g.queue.First().stamp); err != nil {
			return 0, false // a share of less than one token, or of no rate
		}
		g.chosen = true
	}
	return g.first, g.Until == 0 || g.first <= g.Until
}

// release gives the release that head decided.
func (g *Gate[T]) release() T {
	g.Bucket, g.chosen, g.At = g.next, false, g.first
	w := g.queue.Pop()
	if g.At > w.since {
		g.Counts.Delayed++
	}
	return w.message
}

// keep sets aside what was released by now, before the bucket changes.
func (g *Gate[T]) keep(now uint64) {
	g.sort(now)
	for at, any := g.head(); any && at <= now; at, any = g.head() {
		message := g.release()
		g.ready.Push(released[T]{g.At, message})
	}
	g.chosen = false
}

// Set gives a new rate and depth from now on. No token is added; see bucket.Set, whose errors it has.
func (g *Gate[T]) Set(rate bucket.Rate, depth, now uint64) error {
	g.keep(now)
	err := g.Bucket.Set(rate, depth, now)
	if err == nil && g.use != (bucket.Bucket{}) {
		err = g.use.Set(rate, bucket.Last, now)
	}
	return err
}

// Restart begins a lease after a gap: with an empty bucket, and Until as given. Errors are bucket.New's.
func (g *Gate[T]) Restart(rate bucket.Rate, depth, until, now uint64) error {
	fresh, err := bucket.New(rate, depth, 0, now)
	if err != nil {
		return err
	}
	g.keep(now)
	g.Bucket, g.Until = fresh, until
	g.use, err = bucket.New(rate, bucket.Last, bucket.Last-uint64(g.queue.Len())*bucket.Token, now)
	return err
}

// Peak is the most tokens, in the bucket's unit, that were in use since the last call: as many as the bucket's depth lacked if it had
// been full before, and one for each message that waited. Since the last Restart; before, it is 0.
func (g *Gate[T]) Peak() uint64 {
	peak := g.peak
	g.peak = 0
	return peak
}

// due is when the first of the inbox is decided at the latest. Others of the same pause that turn out to be later make it wait
// longer, for Hold at most.
func (g *Gate[T]) due() uint64 {
	return max(g.dues.First().read, min(g.dues.First().read+Hold, g.until))
}

// sort moves what the inbox need not hold any more to the queue, in the order of the stamps.
func (g *Gate[T]) sort(now uint64) {
	latest, any := uint64(0), false
	for g.dues.Len() > 0 && g.due() <= now {
		latest, any = max(latest, g.dues.Pop().stamp), true
	}
	for any && len(g.inbox) > 0 && g.inbox[0].stamp <= latest {
		h := heap.Pop(&g.inbox).(held[T])
		g.wait(h.stamp, now, h.message)
	}
}

// Due hands out, in order, what passes by now.
func (g *Gate[T]) Due(now uint64, pass func(T)) {
	g.sort(now)
	for g.ready.Len() > 0 {
		r := g.ready.Pop()
		g.At = r.at
		pass(r.message)
	}
	for at, any := g.head(); any && at <= now; at, any = g.head() {
		pass(g.release())
	}
}

// Next is when Due has something to do; false: nothing is kept, or all of it until the share or the lease changes.
func (g *Gate[T]) Next() (uint64, bool) {
	if g.ready.Len() > 0 {
		return g.ready.First().at, true
	}
	next, any := g.head()
	if g.dues.Len() > 0 && (!any || g.due() < next) {
		return g.due(), true
	}
	return next, any
}

// Kept is how many messages are in the inbox and wait for tokens.
func (g *Gate[T]) Kept() int { return len(g.inbox) + g.queue.Len() + g.ready.Len() }

// Flush hands out everything now, in order, whatever the bucket says: at shutdown.
func (g *Gate[T]) Flush(pass func(T)) {
	for g.ready.Len() > 0 {
		pass(g.ready.Pop().message)
	}
	for g.queue.Len() > 0 {
		pass(g.queue.Pop().message)
	}
	for len(g.inbox) > 0 {
		pass(heap.Pop(&g.inbox).(held[T]).message)
	}
	g.dues, g.chosen = fifo.Queue[late]{}, false
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
