// SPDX-License-Identifier: Apache-2.0

package control

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// A world in virtual time: distributors (this package), a store that elects one of them, an operator, brokers (the gate, bucket and holder
// that ship), publishers, and a network that delays, loses and cuts. Machines stop, sleep and start again; their clocks differ.
type world struct {
	random   *rand.Rand
	now      time.Duration
	events   events
	seq      int
	store    *shelf
	leaders  []*distributor
	brokers  []*station
	twins    []*station // others of the same names
	senders  []*sender
	operator *operator
	topics   []*story
	cut      map[[2]string]int // for so many reasons nothing goes from the one to the other
	faulty   bool
	end      time.Duration // then publishers stop
	counts   map[string]int
	lease    time.Duration // the longest that any distributor gives
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + d, w.seq, do})
}

func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)))
}

// oneIn says yes once in so many times.
func (w *world) oneIn(n int) bool { return w.random.IntN(n) == 0 }

// node is a machine: its clock, whether it lives, and until when it sleeps.
type node struct {
	w      *world
	name   string
	life   int // another after each start
	dead   bool
	asleep time.Duration
	offset time.Duration
	drift  float64
}

func (w *world) node(name string) node {
	return node{w: w, name: name, offset: w.between(time.Second, 100*time.Second), drift: (w.random.Float64() - 0.5) * 0.008}
}

// clock is its own time.
func (n *node) clock() time.Duration { return n.offset + time.Duration(float64(n.w.now)*(1+n.drift)) }

// real is when its clock showed that.
func (n *node) real(local time.Duration) time.Duration {
	return time.Duration(float64(local-n.offset) / (1 + n.drift))
}

// later does something on this node if it still lives then; when it sleeps, after that.
func (n *node) later(d time.Duration, do func()) {
	life := n.life
	var try func()
	try = func() {
		switch {
		case n.dead || n.life != life:
		case n.w.now < n.asleep:
			n.w.after(n.asleep-n.w.now, try)
		default:
			do()
		}
	}
	n.w.after(d, try)
}

// send lets something happen at another node, unless the network loses it.
func (n *node) send(to *node, do func()) {
	if n.w.cut[[2]string{n.name, to.name}] > 0 || n.w.faulty && n.w.oneIn(50) {
		n.w.counts["lost"]++
		return
	}
	delay := n.w.between(100*time.Microsecond, 2*time.Millisecond)
	if n.w.faulty && n.w.oneIn(20) {
		delay = n.w.between(0, 800*time.Millisecond)
		n.w.counts["late"]++
	}
	to.later(delay, do)
}
