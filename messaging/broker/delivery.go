// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"slices"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/wire"
)

// rule is what a channel's messages must keep to at delivery.
type rule struct {
	open  bool // no limit
	rate  bucket.Rate
	depth uint64
	lease uint64 // the leases' time until which they may pass; 0: there is none
}

// rule is a channel's: by the file, or else by the distributor's orders. Without orders nothing may pass.
func (b *Broker) rule(topic, channel string) rule {
	if t, named := b.settings.Load().Topics[topic]; named {
		limit, has := t.AtDelivery(channel)
		return rule{open: !has, rate: limit.Rate.Rate, depth: uint64(limit.Depth)}
	}
	f := b.follower
	if f == nil {
		return rule{open: true}
	}
	until := f.delivering.Load()
	order, has := f.atDelivery(topic)
	switch {
	case until == 0:
		return rule{rate: bucket.Rate{Den: 1}, lease: 1}
	case has:
		return rule{rate: holder.Rate(order.Share), depth: order.Depth, lease: until}
	}
	return rule{open: true, lease: until}
}

// follow does what a rule says. A bucket that begins, or begins again, is empty but for `fill`: others may have had
// its tokens, or an earlier life of this broker.
func (c *channel) follow(r rule, again bool, fill uint64) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now() // the old lease ends before the new begins
	c.ruled.Store(!r.open || r.lease > 0)
	c.lease = r.lease
	if r.lease == 0 {
		c.outlet.Until = 0
	}
	now := c.now()
	var err error
	switch {
	case r.open:
		c.outlet.Open = true
	case again || c.outlet.Open:
		err = c.outlet.Start(r.rate, r.depth, min(fill, r.depth), now)
		c.use, _ = bucket.New(r.rate, bucket.Last, bucket.Last, now)
	default:
		err = c.outlet.Set(r.rate, r.depth, now)
	}
	poke(c.stir)
	return err
}

// adopt takes a channel of nsqd's over: its disk queue is ours from then on. No consumer may have come yet.
func (b *Broker) adopt(topic, name string, nsq *nsqd.Channel) *channel {
	b.installing.Lock()
	defer b.installing.Unlock()
	if c := b.engine.adopted(nsq); c != nil {
		return c
	}
	c := &channel{broker: b, topic: topic, name: name, most: int(b.engine.options.MemQueueSize), out: make(chan []byte),
		stir: make(chan struct{}, 1), emptied: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
		alarm: b.alarms.alarm(), counts: b.metrics.flow(topic, name), writers: map[*consumer]struct{}{}}
	b.engine.replace(nsq, c)
	b.channels[topic+":"+name] = c
	fill := b.saved[topic+":"+name]
	delete(b.saved, topic+":"+name)
	if err := c.follow(b.rule(topic, name), true, fill); err != nil {
		b.log("%s:%s: %v", topic, name, err) // it holds
	}
	return c
}

// adoptAll takes over the channels that a topic has.
func (b *Broker) adoptAll(t *nsqd.Topic, name string) {
	for channel, nsq := range b.engine.channels(t) {
		b.adopt(name, channel, nsq)
	}
}

// forget a channel that is closed. Not to be waited for: nsqd has a lock that adopt takes with ours.
func (b *Broker) forget(c *channel) {
	b.installing.Lock()
	defer b.installing.Unlock()
	if key := c.topic + ":" + c.name; b.channels[key] == c {
		delete(b.channels, key)
	}
}

// join is called before a consumer is handed to nsqd, and leave after it has left. It gives nsqd's memory of the
// channel, too; nil where all
// messages are here.
func (b *Broker) join(topic, name string) (*channel, chan *nsqd.Message) {
	nsq := b.engine.topic(topic).GetChannel(name)
	c := b.adopt(topic, name, nsq)
	b.installing.Lock() // nsqd's memory may not be read now
	defer b.installing.Unlock()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.consumers == 0 && !c.running && (c.ruled.Load() || b.follower != nil) {
		c.mutex.Unlock()
		c.narrow(nsq)
		c.mutex.Lock()
	}
	c.consumers++
	return c, *part[chan *nsqd.Message](nsq, channelMemory)
}

func (c *channel) leave() {
	c.mutex.Lock()
	c.consumers--
	c.mutex.Unlock()
}

// narrow makes all messages come here. What nsqd has in memory comes first.
func (c *channel) narrow(nsq *nsqd.Channel) {
	c.broker.engine.alone(nsq, func(memory *chan *nsqd.Message) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		for len(*memory) > 0 {
			c.memory.Push(encode(<-*memory))
		}
		*memory = nil
		c.limited.Store(true)
		c.running = true
	})
	go c.run()
}

// deliver gives all channels the rules that hold now. `again` names topics whose buckets begin anew.
func (b *Broker) deliver(again func(topic string) bool) (err error) {
	for _, c := range b.all() {
		if failed := c.follow(b.rule(c.topic, c.name), again(c.topic), 0); failed != nil {
			err = failed
		}
	}
	b.hurry()
	return err
}

func (b *Broker) all() (all []*channel) {
	b.installing.RLock()
	defer b.installing.RUnlock()
	for _, c := range b.channels {
		all = append(all, c)
	}
	return all
}

// settle waits until what channels were told last is in force: that no message enters a socket by what was before.
// Consumers that take none are let go.
func (b *Broker) settle() {
	all := b.all()
	for waited := 0; ; waited++ {
		all = slices.DeleteFunc(all, (*channel).settled)
		if len(all) == 0 {
			return
		}
		if waited >= 100 {
			for _, c := range all {
				c.cut()
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *channel) settled() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return !c.ruled.Load() || c.outlet.Settled()
}

// cut ends the connections that a message is entering.
func (c *channel) cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for k := range c.writers {
		k.conn.Close()
	}
}

// used is how much of the bucket was in use since it was asked last, and how much waits for tokens now.
func (c *channel) used() (peak uint64, waits int64) {
	depth := c.Depth()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stuck {
		waits = depth
	}
	peak, c.peak = c.peak, 0
	return peak, waits
}

// atDelivery is what the orders in force say of a topic whose limit is at delivery.
func (f *follower) atDelivery(topic string) (wire.Order, bool) {
	orders := f.delivered.Load()
	if orders == nil {
		return wire.Order{}, false
	}
	order, has := (*orders)[topic]
	return order, has
}
