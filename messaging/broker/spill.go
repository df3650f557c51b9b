// SPDX-License-Identifier: Apache-2.0

package broker

import "time"

// A disk that is full: nsqd's topic gives a message to its channels when it has taken it, and drops it where a
// channel can neither keep it in memory nor write it. So a channel keeps what it cannot write, and tries again; its
// publishers are slowed down, and what is published to the topic meanwhile is refused, so that it grows by little.

// spillEvery is how often it is tried again, and how long a publisher is held up.
const spillEvery = 100 * time.Millisecond

// spill keeps a message that could not be written.
func (c *channel) spill(data []byte, why error) {
	c.mutex.Lock()
	first := c.spilled.Len() == 0
	c.spilled.Push(data)
	c.failed = why
	c.broker.spills.Add(1)
	c.mutex.Unlock()
	if first {
		c.broker.log("%s:%s: messages are kept in memory, and new ones refused: %v", c.topic, c.name, why)
		go c.unspill()
	}
	if c.broker.stopping.Load() {
		return
	}
	select {
	case <-time.After(spillEvery):
	case <-c.quit:
	}
}

// unspill writes what was kept, as soon as it can.
func (c *channel) unspill() {
	for {
		select {
		case <-time.After(spillEvery):
		case <-c.quit:
			return
		}
		c.mutex.Lock()
		var err error
		for c.spilled.Len() > 0 && err == nil {
			if err = c.store(*c.spilled.First()); err == nil {
				c.spilled.Pop()
				c.broker.spills.Add(-1)
			}
		}
		done := c.spilled.Len() == 0
		c.mutex.Unlock()
		c.broker.engine.SetHealth(err)
		if done {
			c.broker.log("%s:%s: all is on disk again", c.topic, c.name)
			return
		}
	}
}

// last writes a message when the channel closes, to the last byte that is free. What cannot be written is lost, and
// told. Called with the lock held.
func (c *channel) last(data []byte) {
	if err := c.inner.Put(data); err != nil {
		c.broker.metrics.topic(c.topic).lost.Add(1)
		c.broker.log("%s:%s: lost a message of %d bytes: %v", c.topic, c.name, len(data), err)
	}
}

// spilling is why a topic takes no more messages: what it has cannot be written. nil: it does.
func (b *Broker) spilling(topic string) error {
	if b.spills.Load() == 0 {
		return nil
	}
	b.installing.RLock()
	defer b.installing.RUnlock()
	for _, c := range b.channels {
		if c.topic != topic {
			continue
		}
		c.mutex.Lock()
		spilled, why := c.spilled.Len(), c.failed
		c.mutex.Unlock()
		if spilled > 0 {
			return why
		}
	}
	return nil
}
