// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"time"

	"giusto.dev/messaging/wire"
)

// sender is a publisher that follows its assignment.
type sender struct {
	node
	topic   *story
	id      string
	group   string
	rate    float64
	at      *station
	seen    uint64
	failed  string
	asking  int
	next    int
	managed bool
	stopped bool
	moves   []time.Duration
}

func (s *sender) start() {
	s.ask()
	s.publish()
}

func (s *sender) publish() {
	s.later(time.Duration(s.w.random.ExpFloat64()/s.rate*1e9), func() {
		if b := s.at; b != nil && !s.stopped {
			sent := s.w.now
			if b.dead || b.lines == nil { // or has not begun
				s.failed = b.id
				s.ask()
			} else {
				s.send(&b.node, func() { b.arrive(s.topic, sent, s.managed) })
			}
		}
		s.publish()
	})
}

func (s *sender) ask() {
	if !s.managed {
		return
	}
	s.asking++
	number := s.asking
	a := wire.Ask{Topic: s.topic.name, Publisher: s.id, Group: s.group, Rate: s.rate, Failed: s.failed}
	if s.at != nil {
		a.At = s.at.id
	}
	s.failed = ""
	d := s.w.leaders[s.next%len(s.w.leaders)]
	s.send(&d.node, func() {
		d.take(func() {
			tell := func(to wire.Assignment, err error) {
				if err != nil {
					return
				}
				d.answered = append(d.answered, func() {
					d.send(&s.node, func() {
						if s.asking == number {
							s.follow(to)
						}
					})
				})
			}
			reply := func() { tell(d.control.Assign(d.clock(), a)) }
			to, err := d.control.Assign(d.clock(), a)
			if err == nil && to.Version == s.seen && to.Broker == a.At {
				d.waiting = append(d.waiting, &request{id: s.topic.name + "/" + s.id, end: s.w.now + 500*time.Millisecond, answer: reply})
			} else {
				tell(to, err)
			}
		})
	})
	s.later(900*time.Millisecond, func() {
		if s.asking == number {
			s.next++
			s.ask()
		}
	})
}

func (s *sender) follow(a wire.Assignment) {
	s.asking++
	s.seen = a.Version
	for _, b := range slices.Concat(s.w.brokers, s.w.twins) {
		if b.name == a.V2 && b != s.at {
			// It connects, waits for what is under way, and goes.
			s.later(s.w.between(time.Millisecond, 50*time.Millisecond), func() {
				if b.dead || s.w.cut[[2]string{s.name, b.name}] > 0 {
					s.failed = b.id
				} else {
					s.at = b
					s.moves = append(s.moves, s.w.now)
					s.w.counts["moves"]++
				}
				s.ask()
			})
			return
		}
	}
	s.later(s.w.between(5*time.Millisecond, 60*time.Millisecond), s.ask)
}
