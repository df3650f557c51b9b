// SPDX-License-Identifier: Apache-2.0

package control

import "giusto.dev/messaging/distribute"

// leave begins sessions in the topics that have publishers at a broker that is drained, or on their way there.
func (c *Control) leave(id string) {
	for _, t := range c.topics {
		_, there := t.load[id]
		for _, p := range t.publishers {
			there = there || p.to == id
		}
		if there {
			t.changed(c.now)
		}
	}
}

// gain begins sessions in the topics that may gain by a broker that has come, or by the room that another topic, which
// is gone, had at brokers. A session that runs goes on: if it finds no plan, the next one has the broker.
func (c *Control) gain(freed map[string]load) {
	for _, t := range c.topics {
		if len(t.publishers) > 0 && t.session == nil && !t.gather && c.gains(t, freed) {
			t.changed(c.now)
		}
	}
}

// gains says whether a topic that had no plan may have one now, or one that is at several brokers would fit on fewer. That
// measurements spread it is not tried again for a broker that comes, but for load that has left one of its own.
func (c *Control) gains(t *topic, freed map[string]load) bool {
	if t.stuck {
		return true
	}
	brokers := c.candidates(t)
	publishers, at, _ := c.members(t)
	used, fresh := count(at), distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
	measured := t.rounds > 1
	for _, id := range at {
		if _, shared := freed[id]; shared {
			measured = false
		}
	}
	switch {
	case t.note != "":
		return room(fresh, publishers) && (freed != nil || !t.fitted || c.able() > t.tried)
	case used < 2 || measured:
		return false
	}
	if s := c.guess(t, publishers, brokers); s != nil {
		return count(s.Plan()) < used
	}
	return c.fewer(fresh, used)
}

// able is how many brokers may get publishers.
func (c *Control) able() (count int) {
	for id, b := range c.brokers {
		if c.alive(b) && !c.drained[id] && !b.limiter {
			count++
		}
	}
	return count
}

// outdated says whether a session's plan sends a publisher to a broker that has gone or is drained since the session began.
func (c *Control) outdated(t *topic, plan []string) bool {
	for n, id := range plan {
		if t.order[n] != "" && id != "" && (!c.alive(c.brokers[id]) || c.drained[id]) {
			return true
		}
	}
	return false
}
