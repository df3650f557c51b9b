// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

// follower is the side of a broker that follows a distributor: it holds shares of the topics' buckets as long as their lease lasts.
type follower struct {
	broker   *Broker
	reporter *report.Reporter
	until    atomic.Uint64 // the end of the lease, in the leases' time; 0: no orders are done whole
	epoch    atomic.Uint64 // of the orders in force
	version  atomic.Uint64
	// Of topics whose limit is at delivery, and until when all channels may deliver, in the leases' time; 0: no orders yet.
	delivered  atomic.Pointer[map[string]wire.Order]
	delivering atomic.Uint64

	// Under broker.changing.
	holding holder.Holder
	told    map[string]bool // what was logged once

	mutex   sync.Mutex // of tallies
	tallies map[string]*report.Tally
}

// leases is the leases' time.
func (b *Broker) leases(t time.Time) uint64 { return b.clock.Leases(t) }

// tally counts a topic's messages for the distributor; nil: the broker has no distributor.
func (b *Broker) tally(name string) *report.Tally {
	f := b.follower
	if f == nil {
		return nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.tallies[name] == nil {
		f.tallies[name] = &report.Tally{}
	}
	return f.tallies[name]
}

// limited is the limit of a topic; nil: it has none.
func (b *Broker) limited(name string) *topic {
	waits := b.waits()
	if t := (*b.topics.Load())[name]; t != nil || !waits {
		return t
	}
	return b.follower.hold(name)
}

// waits says whether no orders are in force: who leads may have given a limit to any topic. It is to be asked before a topic's limit is
// looked for: those of new orders are there when it says no.
func (b *Broker) waits() bool {
	return b.follower != nil && b.follower.until.Load() < b.leases(time.Now())
}

// hold makes a topic that no orders are in force for wait for them, unless it is the file's, or is known to be
// limited at delivery: then it waits there.
func (f *follower) hold(name string) *topic {
	b := f.broker
	b.changing.Lock()
	defer b.changing.Unlock()
	t := (*b.topics.Load())[name]
	_, named := b.settings.Load().Topics[name]
	_, elsewhere := f.atDelivery(name)
	if t == nil && b.waits() && !named && !elsewhere {
		t = f.follow(name)
		b.swap(map[string]*topic{name: t})
	}
	return t
}

// follow makes a topic that holds everything until it is given a share.
func (f *follower) follow(name string) *topic {
	t := f.broker.newTopic(name, settings.Topic{Queue: settings.Queue, Ok: f.broker.settings.Load().Answer()}, bucket.Bucket{})
	t.lease = 1
	return t
}

// swap puts topics in the place of those there were; nil: it has no limit any more, and what waits goes out. Called with `changing`.
func (b *Broker) swap(changed map[string]*topic) {
	old := *b.topics.Load()
	next := make(map[string]*topic, len(old)+len(changed))
	for name, t := range old {
		next[name] = t
	}
	var gone []*topic
	for name, t := range changed {
		if was := old[name]; was != nil && was != t {
			gone = append(gone, was)
		}
		if next[name] = t; t == nil {
			delete(next, name)
		}
	}
	b.topics.Store(&next)
	for _, t := range gone {
		b.serving.Add(1)
		go func() { defer b.serving.Done(); t.end() }() // nsqd's disk may be full
	}
}

// Apply does what orders say that answer a report sent when the leases' time was `asked`. Shares that are there
// already change first.
func (f *follower) Apply(asked uint64, o wire.Orders) error {
	b := f.broker
	b.changing.Lock()
	defer b.changing.Unlock()
	o.Topics = f.named(o.Topics)
	steps, err := f.holding.Apply(b.leases(time.Now()), asked, o)
	if err != nil {
		return err
	}
	until := f.holding.Until()
	changed, named, again := map[string]*topic{}, map[string]bool{}, map[string]bool{}
	delivered := map[string]wire.Order{}
	for _, s := range steps {
		if again[s.Topic] = s.Change == holder.Restart; s.Delivery {
			delivered[s.Topic] = s.Order
		}
	}
	f.delivered.Store(&delivered)
	f.delivering.Store(until)
	err = b.deliver(func(topic string) bool { return again[topic] })
	b.settle()
	var fresh []holder.Step
	for _, s := range steps {
		t := (*b.topics.Load())[s.Topic]
		_, own := b.settings.Load().Topics[s.Topic]
		switch {
		case s.Change == holder.Free || s.Delivery && !own:
			continue
		case own && t == nil:
			f.once("%s: the distributor's share is not taken: the file has a limit of its own for it", s.Topic)
		case t == nil:
			fresh = append(fresh, s)
		case !t.follows():
			f.once("%s: the distributor's share is not taken: the file has a limit of its own for it", s.Topic)
		default:
			if t.waiting() {
				s.Change = holder.Restart
			}
			err = errors.Join(err, t.order(s, until))
		}
		named[s.Topic] = true
	}
	for _, s := range fresh {
		s.Change = holder.Restart
		changed[s.Topic] = f.follow(s.Topic)
		err = errors.Join(err, changed[s.Topic].order(s, until))
	}
	for name, t := range *b.topics.Load() {
		if t.follows() && !named[name] {
			changed[name] = nil
		}
	}
	if len(changed) > 0 {
		b.swap(changed)
	}
	for _, s := range steps {
		f.channels(s.Order)
	}
	if err != nil {
		f.until.Store(0) // a topic that could not be made would have no limit
		return err
	}
	f.epoch.Store(o.Epoch)
	f.version.Store(o.Version)
	f.until.Store(until)
	return nil
}

// named leaves out orders for names that no client can publish to or consume. The other orders, and the lease, stay in force.
func (f *follower) named(orders []wire.Order) (valid []wire.Order) {
	for _, order := range orders {
		if !settings.ValidName(order.Topic) {
			f.once("the distributor orders %.100q, which is not a topic's name", order.Topic)
			continue
		}
		order.Channels = slices.DeleteFunc(slices.Clone(order.Channels), func(channel string) bool {
			if !settings.ValidName(channel) {
				f.once("%s: the distributor orders %.100q, which is not a channel's name", order.Topic, channel)
				return true
			}
			return false
		})
		valid = append(valid, order)
	}
	return valid
}

// once tells what every report is answered with.
func (f *follower) once(format string, values ...any) {
	if text := fmt.Sprintf(format, values...); !f.told[text] {
		f.told[text] = true
		f.broker.log("%s", text)
	}
}

// channels makes those that are to be there before publishers come.
func (f *follower) channels(o wire.Order) {
	for _, name := range o.Channels {
		topic := f.broker.engine.topic(o.Topic)
		if channel, err := topic.GetExistingChannel(name); err != nil || channel.Exiting() {
			f.broker.engine.prepare(o.Topic + ":" + name)
			topic.GetChannel(name)
		}
	}
}

// leave gives all shares back: nothing passes any more, and then the distributor is told. Without it others would
// wait for the lease's end.
func (f *follower) leave() {
	b := f.broker
	f.reporter.Stop()
	b.changing.Lock()
	defer b.changing.Unlock()
	f.until.Store(0)
	f.delivering.Store(0)
	for _, t := range *b.topics.Load() {
		t.surrender()
	}
	_ = b.deliver(func(string) bool { return false }) // a bucket takes nothing
	b.settle()
	if err := f.reporter.Farewell(); err != nil {
		b.log("others get this broker's shares when its lease is over: %v", err)
	}
}

// surrender makes a followed topic hold for good.
func (t *topic) surrender() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.lease > 0 {
		t.renew(time.Now())
		t.lease, t.gate.Until = 1, 1
	}
}

// follows says whether the topic's limit is a distributor's, not the file's.
func (t *topic) follows() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.lease > 0
}

// waiting says whether a followed topic had no orders yet.
func (t *topic) waiting() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.lease == 1
}

// order gives a followed topic what a step says, until a time of the leases.
func (t *topic) order(s holder.Step, until uint64) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.limit = s.Queue; t.limit == 0 {
		t.limit = settings.Queue
	}
	t.makeRoom(0)
	now := time.Now()
	at := t.broker.clock.At(now)
	var err error
	if s.Change == holder.Restart {
		// The old lease ends before the new begins.
		t.renew(now)
		err = t.gate.Restart(holder.Rate(s.Share), s.Depth, 1, at)
	}
	t.lease = until
	t.renew(now)
	if s.Change == holder.Set {
		err = t.gate.Set(holder.Rate(s.Share), s.Depth, at)
	}
	t.share = s.Share
	t.arm(at)
	return err
}

// renew tells the gate when the lease ends, in its own time: what the machine slept is over. Called with the lock held.
func (t *topic) renew(now time.Time) {
	if t.lease > 0 {
		t.gate.Until = max(1, t.lease-min(t.lease, t.broker.clock.Ahead(now)))
	}
}
