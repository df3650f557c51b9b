// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math/rand/v2"
	"time"

	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/wire"
)

const (
	faults, calm = 5 * time.Second, 18 * time.Second
	// settling is after when all is well again; long is how much longer some runs last, to see that publishers come to rest.
	settling, long = 8 * time.Second, 40 * time.Second
	// prepare and move of all distributors, and when they forget a broker.
	prepare, move = 1500 * time.Millisecond, 600 * time.Millisecond
	forgottenHere = 2 * time.Second
)

// newWorld draws machines, publishers, and what the operator asks for.
func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 13)), cut: map[[2]string]int{}, counts: map[string]int{}, faulty: true, end: faults + calm}
	if w.oneIn(10) {
		w.end += long
		w.counts["long"]++
	}
	w.store = &shelf{node: w.node("store"), records: map[string][]byte{}}
	w.store.drift = 0
	w.store.tick()
	w.lease = w.between(1500*time.Millisecond, 3*time.Second)
	usual := w.lease
	for n := range min(3, 1+w.random.IntN(4)) {
		d := &distributor{node: w.node(fmt.Sprint("d", n)), lease: usual}
		if !w.oneIn(3) {
			d.lease = []time.Duration{w.between(900*time.Millisecond, 1200*time.Millisecond), w.between(3*time.Second, 4500*time.Millisecond)}[w.random.IntN(2)]
			w.counts["another lease"]++
		}
		w.lease = max(w.lease, d.lease)
		w.leaders = append(w.leaders, d)
		d.later(w.between(0, 100*time.Millisecond), d.tick)
	}
	for n := range 1 + w.random.IntN(4) {
		name := fmt.Sprint("b", n)
		w.brokers = append(w.brokers, &station{node: w.node(name), id: name, holder: &holder.Holder{}})
	}
	w.operator = &operator{node: w.node("operator")}
	w.tell("t", 8, 10)
	if w.oneIn(2) {
		w.counts["second topic"]++
		w.tell("u", 3, 3)
	}
	for _, b := range w.brokers {
		b.later(w.between(0, 300*time.Millisecond), b.start)
	}
	return w
}

// tell draws a topic with its publishers, one in so many of which follows no assignment, and its story.
func (w *world) tell(name string, publishers, unmanaged int) {
	t := &story{w: w, name: name, greedy: w.oneIn(2), delivery: w.oneIn(2)}
	w.topics = append(w.topics, t)
	for n := range 1 + w.random.IntN(publishers) {
		s := &sender{node: w.node(fmt.Sprint(name, n)), topic: t, id: fmt.Sprint("p", n), group: fmt.Sprint(n % 3), rate: 2 + 8*w.random.Float64(), managed: true}
		if w.oneIn(unmanaged) {
			s.managed, s.at = false, w.brokers[w.random.IntN(len(w.brokers))]
		}
		t.load += s.rate
		w.senders = append(w.senders, s)
		s.later(w.between(300*time.Millisecond, time.Second), s.start)
	}
	headroom := 1.7 + w.random.Float64()
	if t.greedy {
		headroom = 0.3 + 0.3*w.random.Float64()
		w.counts["publishers beyond the bucket"]++
	}
	// Depth for a burst, and a token for each broker.
	depth := float64(len(w.brokers)) + 3 + 10*w.random.Float64()
	t.base = wire.Share{Rate: uint64(t.load * headroom * wire.Unit), Depth: uint64(depth * wire.Unit)}
	at := w.between(0, 300*time.Millisecond)
	if name != "t" {
		at = w.between(0, faults)
	}
	w.operator.add(act{at: at, topic: t, spec: t.bucket(1)})
	for range w.random.IntN(4) {
		at += w.between(100*time.Millisecond, 2*time.Second)
		w.wish(t, at)
	}
	at = max(at+1500*time.Millisecond, faults)
	w.operator.add(act{at: at, topic: t, spec: t.bucket(1 + w.random.Float64())})
	if name != "t" && w.oneIn(4) {
		w.operator.add(act{at: at + time.Second, topic: t})
	}
}

// wish draws another bucket for a topic, or has it removed and put again.
func (w *world) wish(t *story, at time.Duration) {
	if w.oneIn(3) {
		w.operator.add(act{at: at, topic: t})
		at += w.between(0, 1500*time.Millisecond)
	}
	part := []float64{0.9 + 0.1*w.random.Float64(), 0.03 + 0.3*w.random.Float64(), 1 + w.random.Float64()}[w.random.IntN(3)]
	w.operator.add(act{at: at, topic: t, spec: t.bucket(part)})
}

// holding is a broker that has a share, if one is found.
func (w *world) holding() *station {
	b := w.broker()
	for range 4 {
		if !b.holds() {
			b = w.broker()
		}
	}
	return b
}

func (w *world) broker() *station          { return w.brokers[w.random.IntN(len(w.brokers))] }
func (w *world) distributor() *distributor { return w.leaders[w.random.IntN(len(w.leaders))] }

// trouble makes one thing go wrong, for a while.
func (w *world) trouble() {
	nodes := []*node{&w.store.node}
	for _, d := range w.leaders {
		nodes = append(nodes, &d.node)
	}
	for _, b := range w.brokers {
		nodes = append(nodes, &b.node)
	}
	for _, s := range w.senders {
		nodes = append(nodes, &s.node)
	}
	one, other := nodes[w.random.IntN(len(nodes))], nodes[w.random.IntN(len(nodes))]
	length := w.between(50*time.Millisecond, 2500*time.Millisecond)
	if w.oneIn(4) {
		length += w.lease
	}
	switch w.random.IntN(13) {
	case 0:
		w.counts["broker killed"]++
		b := w.broker()
		w.kill(&b.node, length, func() {
			b.replaces = fmt.Sprint(b.name, ".", b.life-1)
			if w.oneIn(3) {
				b.replaces = "" // another machine: there is no proof that the old one is dead
				w.counts["broker without its past"]++
			}
			b.start()
		})
	case 1:
		w.counts["distributor killed"]++
		w.killDistributor(w.distributor(), length)
	case 2:
		w.counts["asleep"]++
		one.asleep = max(one.asleep, w.now+length)
	case 3:
		w.counts["cut one way"]++
		w.part(one, other, length)
	case 4:
		w.counts["cut both ways"]++
		w.part(one, other, length)
		w.part(other, one, length)
	case 5:
		w.store.bad = max(w.store.bad, w.now+length)
		if d := w.leading(); d != nil && w.oneIn(2) { // and its save comes when another leads
			w.after(w.between(0, 500*time.Millisecond), func() { d.asleep = max(d.asleep, w.now+w.between(session, 3*session)) })
		}
	case 6:
		w.operator.add(act{at: w.now, broker: w.broker().id, on: true}, act{at: w.now + length, broker: w.broker().id})
	case 7:
		w.counts["cut for longer than it takes to be forgotten"]++
		w.lonely(w.broker(), 0, lasts(w.lease)+forgottenHere+500*time.Millisecond)
	case 8:
		w.double(w.broker(), length)
	case 9:
		b := w.broker()
		b.asleep = max(b.asleep, w.now+w.lease+w.between(0, time.Second))
		w.change(w.now + w.between(0, w.lease))
	case 10:
		w.behind(w.holding())
	default:
		if w.behind(w.broker()); w.oneIn(2) { // of one that had a lease of the leader between
			w.killLeader()
			w.after(w.between(1500*time.Millisecond, 2500*time.Millisecond), func() { w.behind(w.holding()) })
		}
	}
}

// change has the operator ask for something, and later for a bucket that publishers can go on with.
func (w *world) change(at time.Duration) {
	t := w.topics[w.random.IntN(len(w.topics))]
	w.wish(t, at)
	w.operator.add(act{at: at + 1600*time.Millisecond, topic: t, spec: t.bucket(1 + w.random.Float64())})
}

// behind lets leadership change, once or twice, while a broker does not hear the new leader; and the operator asks for something just then.
func (w *world) behind(b *station) {
	w.counts["another leads behind a broker's back"]++
	length := w.lease + w.between(0, 2*time.Second)
	deaf := time.Duration(0)
	if !w.oneIn(3) { // the new leader hears it for a while
		deaf = w.between(time.Second, 2500*time.Millisecond)
	}
	w.lonely(b, deaf, length)
	w.change(w.now + w.between(0, 2500*time.Millisecond))
	if w.killLeader(); w.oneIn(2) {
		w.after(w.between(1500*time.Millisecond, 2500*time.Millisecond), w.killLeader)
	}
}

func (w *world) killLeader() {
	if d := w.leading(); d != nil {
		w.killDistributor(d, w.between(time.Second, 2*time.Second))
	}
}

// lonely lets a broker hear of no distributor for so long; after `deaf` its own reports do not arrive any more.
func (w *world) lonely(b *station, deaf, length time.Duration) {
	for _, d := range w.leaders {
		w.part(&d.node, &b.node, length)
		w.after(deaf, func() { w.part(&b.node, &d.node, length-deaf) })
	}
}

// double starts another broker of a name on another machine, and ends it; the first is cut off for a while.
func (w *world) double(b *station, length time.Duration) {
	w.counts["two brokers of a name"]++
	w.lonely(b, 0, w.between(500*time.Millisecond, 2*time.Second))
	twin := &station{node: w.node(b.name + "'" + fmt.Sprint(w.seq)), id: b.id, holder: &holder.Holder{}}
	w.twins = append(w.twins, twin)
	twin.start()
	w.after(length, func() { twin.dead = true })
}

func (w *world) killDistributor(d *distributor, length time.Duration) {
	w.kill(&d.node, length, func() {
		d.valid = 0
		d.end()
		d.tick()
	})
}

func (w *world) kill(n *node, length time.Duration, start func()) {
	if n.dead {
		return
	}
	n.dead = true
	w.after(length, func() {
		n.dead, n.asleep = false, 0
		n.life++
		start()
	})
}

func (w *world) part(from, to *node, length time.Duration) {
	ends := [2]string{from.name, to.name}
	w.cut[ends]++
	w.after(length, func() { w.cut[ends]-- })
}

func (w *world) leading() *distributor {
	for _, d := range w.leaders {
		if !d.dead && d.control != nil && d.leads() {
			return d
		}
	}
	return nil
}
