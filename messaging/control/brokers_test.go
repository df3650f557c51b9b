// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/gate"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/outlet"
	"giusto.dev/messaging/wire"
)

// station is a broker.
type station struct {
	node
	id       string
	holder   *holder.Holder
	lines    map[*story]*line
	replaces string
	asking   int
	next     int
	orders   map[string]wire.Order // in force, of `has`; it need only be told what changes
	has      wire.Orders
	settling []func() // what orders are in force for once no more is entering sockets than they allow
}

// line is a topic at a broker.
type line struct {
	gate   *gate.Gate[time.Duration] // of messages: when they were sent; nil: the topic has no limit
	orders bool                      // it had orders for it
	second wire.Second
	told   []wire.Second
	// Of a topic whose limit is at delivery, instead of the gate: what waits, since when, and what is on its way to its consumer.
	outlet *outlet.Outlet
	queue  []time.Duration
	next   int
	rings  uint64 // when it looks again
	use    bucket.Bucket
	peak   uint64
}

// kept is how many messages wait.
func (l *line) kept() int {
	if l.gate != nil {
		return l.gate.Kept()
	}
	return len(l.queue)
}

// idOf numbers messages.
func idOf(n int) (id outlet.ID) {
	copy(id[:], fmt.Sprint(n))
	return id
}

func (b *station) incarnation() string { return fmt.Sprint(b.name, ".", b.life) }

func (b *station) start() {
	b.holder, b.lines, b.settling = &holder.Holder{}, map[*story]*line{}, nil
	b.orders, b.has = map[string]wire.Order{}, wire.Orders{}
	for _, s := range b.w.topics {
		b.lines[s] = &line{second: wire.Second{Delivery: wire.Histogram{}}}
	}
	b.report()
	b.poll()
}

// holds says whether it has a share of anything.
func (b *station) holds() bool {
	for _, l := range b.lines {
		if (l.gate != nil || l.outlet != nil) && l.orders {
			return true
		}
	}
	return false
}

// report asks the distributors, one after the other; a request that is not answered in time is given up.
func (b *station) report() {
	for _, l := range b.lines {
		if l.outlet != nil && !l.outlet.Settled() { // the orders are not in force yet
			b.w.counts["orders wait for what enters"]++
			b.later(time.Millisecond, b.report)
			return
		}
	}
	for _, do := range b.settling {
		do()
	}
	b.settling = nil
	b.asking++
	asked, number := b.clock(), b.asking
	epoch, version := b.holder.Seen()
	r := wire.Report{Broker: b.id, Incarnation: b.incarnation(), Replaces: b.replaces, V2: b.name, Epoch: epoch, Seen: version}
	if epoch == b.has.Epoch && version == b.has.Version {
		r.Since = version
	}
	for _, s := range b.w.topics {
		l := b.lines[s]
		told := wire.TopicReport{Topic: s.name, Seconds: l.told, Ready: []string{"c"}}
		told.Kept = uint64(l.kept())
		r.Topics = append(r.Topics, told)
		l.told = nil
	}
	d := b.w.leaders[b.next%len(b.w.leaders)]
	b.send(&d.node, func() {
		d.take(func() {
			if err := d.control.Report(d.clock(), r); err != nil {
				b.w.counts["report refused"]++
				return
			}
			reply := func() {
				o, granted := wire.Orders{}, b.w.now
				o, _ = d.control.Orders(d.clock(), b.id, r.Since)
				d.answered = append(d.answered, func() {
					d.send(&b.node, func() {
						if b.asking == number {
							b.apply(asked, granted, o)
						}
					})
				})
			}
			if c := d.control.brokers[b.id]; c.sentNumber != c.number || r.Epoch != d.control.epoch || r.Seen != c.number {
				reply()
			} else {
				d.waiting = append(d.waiting, &request{id: b.id, end: b.w.now + 300*time.Millisecond, answer: reply})
			}
		})
	})
	b.later(600*time.Millisecond, func() {
		if b.asking == number {
			b.next++
			b.report()
		}
	})
}

func (b *station) apply(asked, granted time.Duration, o wire.Orders) {
	b.asking++
	now := uint64(b.clock())
	if o.Since > 0 {
		b.w.counts["only what changed"]++
	}
	whole, right := o.Onto(b.has.Epoch, b.has.Version, b.orders)
	if b.has = (wire.Orders{}); !right {
		b.w.counts["changes of other orders"]++
	}
	steps, err := b.holder.Apply(now, uint64(asked), whole)
	if errors.Is(err, holder.ErrStale) {
		b.w.counts["stale orders"]++
	} else if errors.Is(err, holder.ErrLate) {
		b.w.counts["late orders"]++
	} else if err == nil {
		b.has = o
		b.follow(steps, granted, now)
	}
	b.due()
	b.later(b.w.between(5*time.Millisecond, 100*time.Millisecond), func() { b.report() })
}

// follow does what the broker's follower does.
func (b *station) follow(steps []holder.Step, granted time.Duration, now uint64) {
	named := map[string]bool{}
	for _, s := range steps {
		if s.Change == holder.Free {
			b.w.counts["limits taken away"]++
			continue
		}
		named[s.Topic] = true
		story := b.w.story(s.Topic)
		l := b.lines[story]
		if s.Delivery {
			if !l.orders {
				l.orders, s.Change = true, holder.Restart
			}
			b.limit(l, s, now)
			if s.Rate > 0 && s.Depth > 0 {
				b.settling = append(b.settling, func() { story.inForce(s.Queue, granted) })
			}
			continue
		}
		if l.gate == nil {
			l.gate = &gate.Gate[time.Duration]{}
		}
		if !l.orders {
			l.orders, s.Change = true, holder.Restart
		}
		var err error
		switch s.Change {
		case holder.Restart:
			err = l.gate.Restart(holder.Rate(s.Share), s.Depth, b.holder.Until(), now)
			b.w.counts["shares from nothing"]++
		case holder.Set:
			l.gate.Until = b.holder.Until()
			err = l.gate.Set(holder.Rate(s.Share), s.Depth, now)
			b.w.counts["shares changed"]++
		case holder.Keep:
			l.gate.Until = b.holder.Until()
		}
		if err != nil {
			panic(err)
		}
		if s.Rate > 0 && s.Depth > 0 {
			story.inForce(s.Queue, granted)
		}
	}
	for _, s := range b.w.topics {
		if l := b.lines[s]; l.gate != nil && !named[s.name] { // it has no limit any more, and what waits goes out
			l.gate.Flush(func(sent time.Duration) { b.free(s, sent) })
			l.gate, l.orders = nil, false
		} else if l.outlet != nil && !named[s.name] {
			l.outlet.Open, l.outlet.Until, l.orders = true, b.holder.Until(), false
		}
	}
}

// limit gives a line what a step says, at delivery.
func (b *station) limit(l *line, s holder.Step, now uint64) {
	if l.outlet == nil {
		l.outlet = &outlet.Outlet{}
	}
	var err error
	switch {
	case s.Change == holder.Restart || l.outlet.Open:
		l.outlet.Until = b.holder.Until()
		err = l.outlet.Start(holder.Rate(s.Share), s.Depth, 0, now)
		l.use, _ = bucket.New(holder.Rate(s.Share), bucket.Last, bucket.Last, now)
		b.w.counts["shares from nothing"]++
	case s.Change == holder.Set:
		l.outlet.Until = b.holder.Until()
		err = l.outlet.Set(holder.Rate(s.Share), s.Depth, now)
		b.w.counts["shares changed"]++
	}
	l.outlet.Until = b.holder.Until()
	if err != nil {
		panic(err)
	}
}

// deliver takes what waits and may go, and lets each message enter its consumer's socket some time later. If the
// machine sleeps in between, it finds out then that the lease is over; but for the last step, which is the kernel's.
func (b *station) deliver(s *story, l *line) {
	for len(l.queue) > 0 {
		now := uint64(b.clock())
		at, any := l.outlet.Next(now)
		if !any || !l.outlet.Grant(idOf(l.next), now) {
			if any && at > now && (l.rings <= now || at < l.rings) {
				l.rings = at
				b.later(time.Duration(at-now)+time.Microsecond, func() { b.deliver(s, l) })
			}
			return
		}
		id, sent, free := idOf(l.next), l.queue[0], l.outlet.Open
		l.next++
		l.queue = l.queue[1:]
		life, held := b.life, l.outlet
		way, write := b.w.between(0, 200*time.Microsecond), b.w.between(0, 200*time.Microsecond)
		if b.w.oneIn(8) {
			way, write = b.w.between(0, 80*time.Millisecond), b.w.between(0, 45*time.Millisecond)
		}
		if b.w.faulty && b.w.oneIn(400) { // just now
			b.w.counts["asleep with a message on its way"]++
			b.asleep = max(b.asleep, b.w.now+b.w.lease+b.w.between(0, 2*time.Second))
		}
		b.later(way, func() {
			if l.outlet != held || !held.Enter(id, uint64(b.clock())) {
				b.w.counts["not let in any more"]++
				l.queue = append([]time.Duration{sent}, l.queue...)
				return
			}
			b.w.after(write, func() {
				if b.dead || b.life != life {
					return
				}
				if free {
					b.free(s, sent)
				} else {
					s.pass(release{at: b.w.now, by: b}, sent)
					b.w.counts["delivered"]++
					l.second.Delivery.Observe(b.w.now - sent)
				}
				b.later(0, func() {
					held.Left(id, uint64(b.clock()))
					b.deliver(s, l)
				})
			})
		})
	}
}

// poll hands out what is due, now and then late, and ends the seconds of the statistics.
func (b *station) poll() {
	b.due()
	at := int64(b.clock() / time.Second)
	for _, s := range b.w.topics {
		l := b.lines[s]
		if at == l.second.At {
			continue
		}
		if l.second.At > 0 {
			if l.gate != nil {
				l.second.Used = l.gate.Peak()
			}
			if l.outlet != nil {
				l.second.Used, l.peak = l.peak, 0
			}
			l.told = append(l.told, l.second)
		}
		l.second = wire.Second{At: at, Delivery: wire.Histogram{}}
	}
	b.later(20*time.Millisecond, b.poll)
}

func (b *station) due() {
	for _, s := range b.w.topics {
		if l := b.lines[s]; l.gate != nil {
			l.gate.Due(uint64(b.clock()), func(sent time.Duration) { b.pass(s, sent) })
		} else if l.outlet != nil {
			b.deliver(s, l)
		}
	}
}

func (b *station) pass(s *story, sent time.Duration) {
	s.pass(release{at: b.real(time.Duration(b.lines[s].gate.At)), by: b}, sent)
	b.lines[s].second.Delivery.Observe(b.w.now - sent)
}

// free lets pass what has no limit.
func (b *station) free(s *story, sent time.Duration) {
	b.w.counts["passed without limit"]++
	s.pass(release{at: b.w.now, by: b, free: true}, sent)
	b.lines[s].second.Delivery.Observe(b.w.now - sent)
}

// arrive takes a message. Without orders in force all is held.
func (b *station) arrive(s *story, sent time.Duration, managed bool) {
	l := b.lines[s]
	l.second.Messages++
	if !managed {
		l.second.Unmanaged++
	}
	now := uint64(b.clock())
	if s.delivery {
		if l.outlet == nil && b.holder.Until() >= now { // no limit yet
			b.free(s, sent)
			return
		}
		if l.outlet == nil {
			l.outlet = &outlet.Outlet{}
		}
		if l.use.Admit(1, now) {
			l.peak = max(l.peak, l.use.Lacks())
		}
		l.queue = append(l.queue, sent)
		b.deliver(s, l)
		return
	}
	if l.gate == nil && b.holder.Until() < now {
		l.gate = &gate.Gate[time.Duration]{Until: 1}
	}
	if l.gate == nil {
		b.free(s, sent)
	} else if l.gate.Arrive(now, now, sent) {
		b.pass(s, sent)
	}
}
