// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"slices"
	"time"

	"giusto.dev/messaging/ledger"
	"giusto.dev/messaging/wire"
)

// Orders are what a broker is to do now. Its lease begins again. To one that says that it has all orders of a version,
// `since`, and has them still, only what has changed since is told.
func (c *Control) Orders(now time.Duration, id string, since uint64) (wire.Orders, bool) {
	c.advance(now)
	b := c.brokers[id]
	if b == nil {
		return wire.Orders{}, false
	}
	lease, _ := c.Lease()
	o := wire.Orders{Epoch: c.epoch, Lease: lease}
	if since > 0 && since == b.sentNumber && b.seen == (ledger.Version{Epoch: c.epoch, Number: since}) {
		o.Since = since
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(b.dirty)) {
		t, before, had := c.topics[name], b.orders[name], false
		_, had = b.orders[name]
		if t == nil || !b.serves(t) {
			if had {
				changed = true
				delete(b.orders, name)
				o.Free = append(o.Free, name)
			}
			continue
		}
		share, _ := t.book.Current(b.holder)
		order := wire.Order{Topic: name, Share: share, Delivery: t.spec.Delivery, Queue: t.spec.Queue, Channels: c.consumed[name]}
		if !had || !order.Same(before) {
			changed = true
			b.orders[name] = order
			o.Topics = append(o.Topics, order)
		}
	}
	clear(b.dirty)
	if b.number == b.sentNumber && changed {
		c.number++
		b.number = c.number
	}
	b.sentNumber = b.number
	if o.Version = b.number; o.Since == 0 {
		o.Topics, o.Free = wire.All(b.orders), nil
	}
	delete(c.news.brokers, id)
	c.lend(b.holder, lease)
	return o, true
}

// recount finds the channels of all topics at a broker anew, since it has come or gone.
func (c *Control) recount(b *broker) {
	for topic, s := range b.stats {
		if len(s.ready) > 0 {
			c.reconsume(topic)
		}
	}
}

// empty forgets what a broker has told of topics.
func (c *Control) empty(b *broker) {
	told := b.stats
	b.unmanaged, b.stats = 0, map[string]*stats{}
	for name, s := range told {
		if t := c.topics[name]; t != nil && t.stats[b.id] == s {
			delete(t.stats, b.id)
		}
		if len(s.ready) > 0 {
			c.reconsume(name)
		}
	}
}

// reconsume finds the channels of a topic anew that consumers are at anywhere.
func (c *Control) reconsume(topic string) {
	var names []string
	for _, b := range c.brokers {
		if s := b.stats[topic]; s != nil && b.up {
			for _, name := range s.ready {
				if n, there := slices.BinarySearch(names, name); !there {
					names = slices.Insert(names, n, name)
				}
			}
		}
	}
	if slices.Equal(names, c.consumed[topic]) {
		return
	}
	if c.consumed[topic] = names; names == nil {
		delete(c.consumed, topic)
	}
	c.soil(topic)
}

// soil takes note that the orders of a topic may be others now, for all brokers.
func (c *Control) soil(topic string) {
	for _, b := range c.brokers {
		b.dirty[topic] = true
	}
}

// hold takes note that a holder may have a share of a topic, or may not know of it.
func (c *Control) hold(holder string, t *topic) {
	if c.held[holder] == nil {
		c.held[holder] = map[*topic]bool{}
	}
	c.held[holder][t] = true
}
