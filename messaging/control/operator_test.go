// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"time"

	"giusto.dev/messaging/wire"
)

// operator asks for topics, one thing after the other, each until it is answered.
type operator struct {
	node
	plan   []act
	asking int
}

// act is one request: a bucket for a topic, nil to remove it; or with a broker, to drain it or to call that off.
type act struct {
	at     time.Duration
	topic  *story
	spec   *wire.Topic
	broker string
	on     bool
}

func (o *operator) add(acts ...act) {
	o.plan = append(o.plan, acts...)
	slices.SortStableFunc(o.plan, func(a, b act) int { return int(a.at - b.at) })
	for _, a := range acts {
		o.later(a.at-o.w.now, o.next)
	}
}

func (o *operator) next() {
	if len(o.plan) == 0 || o.w.now < o.plan[0].at {
		return
	}
	a, d := o.plan[0], o.w.leading()
	o.asking++
	number := o.asking
	if d != nil {
		o.send(&d.node, func() {
			d.take(func() {
				if o.asking != number {
					return // it hung up
				}
				done := a.do(d)
				d.answered = append(d.answered, func() {
					d.send(&o.node, func() {
						if o.asking == number {
							done()
							o.asking++
							n := slices.IndexFunc(o.plan, func(b act) bool { return a == b })
							o.plan = slices.Delete(o.plan, n, n+1)
							o.next()
						}
					})
				})
			})
		})
	}
	o.later(time.Second, func() {
		if o.asking == number {
			o.next()
		}
	})
}

// do is what the leader does; then what comes of the answer.
func (a act) do(d *distributor) (answered func()) {
	w := d.w
	switch {
	case a.broker != "":
		w.counts["drained, or not any more"]++
		d.control.Drain(d.clock(), a.broker, a.on)
	case a.spec == nil:
		w.counts["removed"]++
		d.control.Remove(d.clock(), a.topic.name)
		return a.topic.wish(wire.Topic{}).answered
	default:
		var old *wire.Topic
		if t := d.control.topics[a.topic.name]; t != nil {
			spec := t.spec
			old = &spec
		}
		if err := d.control.Put(d.clock(), *a.spec); err != nil {
			w.counts["put refused"]++
			break
		}
		switch {
		case old == nil && len(a.topic.wishes) > 1:
			w.counts["put again"]++
		case old != nil && a.spec.Rate < old.Rate/2:
			w.counts["far smaller bucket"]++
		case old != nil:
			w.counts["another bucket"]++
		}
		return a.topic.wish(*a.spec).answered
	}
	return func() {}
}
