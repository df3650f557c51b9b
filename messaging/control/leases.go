// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"time"
)

// drift: clocks of brokers and distributors differ by less than a part in so many.
const drift = 100

// lasts is how long a lease of this length may be thought to last by a clock that is slower.
func lasts(lease time.Duration) time.Duration { return lease + lease/drift + time.Millisecond }

// name begins to wait until every broker that has a lease knows of a topic: before, it may let the topic's messages pass without limit, and
// no broker gets a share.
func (c *Control) name(t *topic) {
	t.unnamed = map[string]uint64{}
	for holder := range c.leases {
		t.unnamed[holder] = c.number + 1
		c.hold(holder, t)
	}
}

// lend begins a holder's lease, or begins it again. What an earlier leader gave may last longer: it may not hear of this one.
func (c *Control) lend(holder string, lease time.Duration) {
	if _, has := c.leases[holder]; !has {
		c.unsaved[Leased] = true
	}
	c.leases[holder] = max(c.leases[holder], c.now+lasts(lease))
	c.runsOut = min(c.runsOut, c.leases[holder])
}

// longest is the longest lease that any holder may have from now on.
func (c *Control) longest() time.Duration {
	most := c.settings.Lease
	for _, end := range c.leases {
		most = max(most, end-c.now)
	}
	return most
}

// bury takes note that an incarnation is dead for certain.
func (c *Control) bury(holder string) {
	if c.dead[holder] {
		return
	}
	c.dead[holder] = true
	c.lapse(holder)
}

// end takes note that a broker has ended: its shares are free, and its publishers go elsewhere.
func (c *Control) end(b *broker) {
	c.bury(b.holder)
	b.heard = min(b.heard, c.now-c.settings.Silent)
	b.up = false
	c.empty(b)
	c.work()
}

// Dead takes an operator's word that a broker does not run any more; false: there is none of the name. If it runs,
// the topics' limits are broken until its lease is over.
func (c *Control) Dead(now time.Duration, id string) bool {
	c.advance(now)
	b := c.brokers[id]
	if b != nil {
		c.end(b)
	}
	return b != nil
}

// lapse takes note that a holder has nothing any more.
func (c *Control) lapse(holder string) {
	if _, had := c.leases[holder]; had {
		delete(c.leases, holder)
		c.unsaved[Leased] = true
	}
	for t := range c.held[holder] {
		t.book.Gone(holder)
		delete(t.unnamed, holder)
		t.resting = false
	}
	delete(c.held, holder)
	for _, b := range c.brokers {
		if b.holder == holder {
			for name := range b.orders {
				b.dirty[name] = true
			}
		}
	}
}

// pause: if no message came for so long, this process did not run, and brokers and publishers were not silent.
const pause = time.Second

// advance takes note of the time, and of leases that have run out.
func (c *Control) advance(now time.Duration) {
	if gap := now - c.now; gap > pause {
		for _, b := range c.brokers {
			b.heard += gap
		}
		for _, t := range c.topics {
			for _, p := range t.publishers {
				p.asked += gap
			}
		}
	}
	if c.now = max(c.now, now); c.now <= c.runsOut {
		return
	}
	c.runsOut = math.MaxInt64
	for name, end := range c.leases {
		if c.now > end {
			c.lapse(name)
		} else {
			c.runsOut = min(c.runsOut, end)
		}
	}
}

// sweep does what need not be done at once: it forgets brokers, and sums up loads anew.
func (c *Control) sweep() {
	for id, b := range c.brokers {
		if _, holds := c.leases[b.holder]; !holds && c.now-b.heard > c.forgotten {
			c.empty(b)
			delete(c.brokers, id)
		}
	}
	c.reckon()
}
