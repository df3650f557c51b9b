// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"time"

	"giusto.dev/messaging/gate"
	"giusto.dev/messaging/holder"
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
}

// line is a topic at a broker.
type line struct {
	gate   *gate.Gate[time.Duration] // of messages: when they were sent; nil: the topic has no limit
	orders bool                      // it had orders for it
	second wire.Second
	told   []wire.Second
}

func (b *station) incarnation() string { return fmt.Sprint(b.name, ".", b.life) }

func (b *station) start() {
	b.holder, b.lines = &holder.Holder{}, map[*story]*line{}
	for _, s := range b.w.topics {
		b.lines[s] = &line{second: wire.Second{Delivery: wire.Histogram{}}}
	}
	b.report()
	b.poll()
}

// holds says whether it has a share of anything.
func (b *station) holds() bool {
	for _, l := range b.lines {
		if l.gate != nil && l.orders {
			return true
		}
	}
	return false
}

// report asks the distributors, one after the other; a request that is not answered in time is given up.
func (b *station) report() {
	b.asking++
	asked, number := b.clock(), b.asking
	epoch, version := b.holder.Seen()
	r := wire.Report{Broker: b.id, Incarnation: b.incarnation(), Replaces: b.replaces, V2: b.name, Epoch: epoch, Seen: version}
	for _, s := range b.w.topics {
		l := b.lines[s]
		told := wire.TopicReport{Topic: s.name, Seconds: l.told, Ready: []string{"c"}}
		if l.gate != nil {
			told.Kept = uint64(l.gate.Kept())
		}
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
				o, _ = d.control.Orders(d.clock(), b.id)
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
	steps, err := b.holder.Apply(now, uint64(asked), o)
	if errors.Is(err, holder.ErrStale) {
		b.w.counts["stale orders"]++
	} else if errors.Is(err, holder.ErrLate) {
		b.w.counts["late orders"]++
	} else {
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
		}
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
	if l.gate == nil && b.holder.Until() < now {
		l.gate = &gate.Gate[time.Duration]{Until: 1}
	}
	if l.gate == nil {
		b.free(s, sent)
	} else if l.gate.Arrive(now, now, sent) {
		b.pass(s, sent)
	}
}
