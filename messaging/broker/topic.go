// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/gate"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

var (
	errFull     = errors.New("the topic's queue is full")
	errStopping = errors.New("exiting")
)

// oldest: a stamp further back than this counts as this far back. The kernel stamps by a clock that may be set.
const oldest = int64(time.Second)

// arrival is when a message came (CLOCK_REALTIME, ns) and when it was read.
type arrival struct {
	stamp   int64
	read    time.Time
	follows bool // its publisher goes where the distributor says
}

// answer is what a producer waits for who is answered after release.
type answer struct {
	open  int
	err   error
	given chan struct{}
}

// pending is a message that the gate keeps.
type pending struct {
	message  *nsqd.Message
	deferral time.Duration
	came     time.Time
	weight   int64
	answer   *answer // nil: it was acknowledged when it was accepted
}

// place is a publisher that waits for room in the queue.
type place struct {
	weight int64
	given  chan struct{}
}

// topic is one topic's limit: a gate, what bounds the messages it keeps, and a goroutine that lets them out in time.
type topic struct {
	broker *Broker
	name   string
	counts *counts
	tally  *report.Tally // nil: not counted
	nsq    atomic.Pointer[nsqd.Topic]

	mutex   sync.Mutex
	gate    gate.Gate[pending]
	limit   int64 // of `used`
	used    int64 // weight of what is kept, until nsqd has it
	places  []*place
	lease   uint64     // the leases' time until which the gate releases; 0: the limit is the file's
	share   wire.Share // by the distributor's last orders
	late    bool       // answer after release
	over    bool       // no limit any more: everything passes
	alarm   *alarm
	armed   uint64 // when the alarm rings; 0: it does not
	ended   chan struct{}
	outlets sync.WaitGroup
	handing sync.Mutex // held while letOut has messages that are in no queue
}

// newTopic makes a topic whose bucket is what it is at the beginning.
func (b *Broker) newTopic(name string, s settings.Topic, at bucket.Bucket) *topic {
	t := &topic{broker: b, name: name, alarm: b.alarms.alarm(), ended: make(chan struct{}), counts: b.metrics.topic(name), tally: b.tally(name),
		limit: s.Queue, late: s.Ok == settings.Released}
	t.nsq.Store(b.engine.topic(name))
	t.gate.Bucket = at
	t.outlets.Add(1)
	go t.letOut()
	return t
}

// set gives new limits; what was released stands, and no token is added.
func (t *topic) set(s settings.Topic) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.limit, t.late = s.Queue, s.Ok == settings.Released
	t.lease, t.share, t.gate.Until = 0, wire.Share{}, 0
	t.makeRoom(0)
	now := t.broker.clock.At(time.Now())
	err := t.gate.Set(s.Rate.Rate, uint64(s.Depth), now)
	t.arm(now)
	return err
}

// weight is how much of the queue a message takes.
func weight(m *nsqd.Message) int64 { return int64(len(m.Body)+1023) >> 10 }

// publish takes all messages of a command, or none. nil: they may be acknowledged. `before` is called before it waits.
func (t *topic) publish(messages []*nsqd.Message, deferral time.Duration, came arrival, before func() error) error {
	lag := min(max(came.read.UnixNano()-came.stamp, 0), oldest)
	read := t.broker.clock.At(came.read)
	stamp := read - min(uint64(lag), read)
	t.counts.lag.observe(time.Duration(lag))
	total := int64(0)
	for _, m := range messages {
		total += weight(m)
		m.Timestamp = came.stamp // so that nsqd's own end-to-end percentiles count what the limit cost
	}
	since := came.read.Add(-time.Duration(lag))
	var reply *answer
	if lag <= gate.Late {
		// After a pause Go wakes the readers of what came last first. Those of what came before run now, and show that there was one.
		runtime.Gosched()
	}
	t.mutex.Lock()
	if room := min(total, t.limit); t.used > 0 && (t.used+room > t.limit || len(t.places) > 0) {
		if err := t.await(room, before); err != nil {
			t.mutex.Unlock()
			t.counts.refused.Add(uint64(len(messages)))
			return err
		}
		// It waited for room, not to be read: nothing is to be put in order any more.
		t.used -= room
		read = t.broker.clock.At(time.Now())
		stamp = read
	}
	t.renew(came.read)
	if t.late {
		reply = &answer{given: make(chan struct{})}
	}
	t.counts.accepted.Add(uint64(len(messages)))
	passing := 0
	for n, m := range messages {
		kept := pending{m, deferral, since, weight(m), reply}
		if t.over || t.gate.Arrive(stamp, read, kept) {
			// Nothing is kept yet, so these are the first of the command.
			passing = n + 1
			continue
		}
		t.used += kept.weight
		if reply != nil {
			reply.open++
		}
	}
	if t.tally != nil {
		t.tally.Came(read, len(messages), came.follows, t.gate.Peak())
	}
	t.makeRoom(0)
	t.arm(read)
	waits := reply != nil && reply.open > 0
	t.mutex.Unlock()
	var failed error
	for _, m := range messages[:passing] {
		if err := t.put(m, deferral, since); err != nil {
			failed = err
		}
	}
	if waits {
		before()
		<-reply.given
		if failed == nil {
			failed = reply.err
		}
	}
	return failed
}

// await waits for room, in turn, as long as producers bear it; the weight is then taken. Called and left with the lock held.
func (t *topic) await(weight int64, before func() error) error {
	if t.broker.stopping.Load() {
		return errStopping
	}
	p := &place{weight, make(chan struct{})}
	t.places = append(t.places, p)
	t.mutex.Unlock()
	before() // a broken connection shows at its next read
	patience := time.NewTimer(time.Duration(t.broker.settings.Load().Patience))
	select {
	case <-p.given:
	case <-patience.C:
	}
	patience.Stop()
	t.mutex.Lock()
	select {
	case <-p.given:
		return nil
	default:
	}
	for n := range t.places {
		if t.places[n] == p {
			t.places = append(t.places[:n], t.places[n+1:]...)
			break
		}
	}
	t.makeRoom(0)
	return errFull
}

// makeRoom gives weight back, and it to those who wait for it. Called with the lock held.
func (t *topic) makeRoom(weight int64) {
	t.used -= weight
	for len(t.places) > 0 && (t.used == 0 || t.used+t.places[0].weight <= t.limit) {
		t.used += t.places[0].weight
		close(t.places[0].given)
		t.places = t.places[1:]
	}
}

// arm sets the alarm for what the gate has next. Called with the lock held.
func (t *topic) arm(now uint64) {
	next, any := t.gate.Next()
	if t.over || !any || t.armed != 0 && t.armed <= next {
		return
	}
	t.armed = next
	t.alarm.set(time.Duration(next - min(now, next)))
}

// letOut lets out what is due, whenever something is.
func (t *topic) letOut() {
	defer t.outlets.Done()
	var out []pending
	for {
		select {
		case <-t.alarm.rung:
		case <-t.ended:
			t.alarm.stop()
			return
		}
		t.handing.Lock()
		t.mutex.Lock()
		t.armed = 0
		now := time.Now()
		t.renew(now)
		t.gate.Due(t.broker.clock.At(now), func(p pending) { out = append(out, p) })
		t.mutex.Unlock()
		t.hand(out)
		t.handing.Unlock()
		t.mutex.Lock()
		t.arm(t.broker.clock.At(time.Now()))
		t.mutex.Unlock()
		clear(out)
		if out = out[:0]; cap(out) > 4096 {
			out = nil
		}
	}
}

// hand gives what passes to nsqd. What was acknowledged is tried until nsqd takes it (its disk may be full), or the broker ends.
func (t *topic) hand(out []pending) {
	for _, p := range out {
		err := t.put(p.message, p.deferral, p.came)
		for told := false; err != nil && p.answer == nil; err = t.put(p.message, p.deferral, p.came) {
			if !told {
				t.broker.log("%s: messages wait: %v", t.name, err)
				told = true
			}
			select {
			case <-t.broker.lastCall:
				t.broker.log("%s: lost a message of %d bytes: %v", t.name, len(p.message.Body), err)
				t.counts.lost.Add(1)
				err = nil
			case <-time.After(100 * time.Millisecond):
				continue
			}
			break
		}
		t.mutex.Lock()
		t.settle(p, err)
		t.mutex.Unlock()
	}
}

// settle ends a message's stay. Called with the lock held.
func (t *topic) settle(p pending, err error) {
	t.makeRoom(p.weight)
	if p.answer == nil {
		return
	}
	if err != nil {
		p.answer.err = err
	}
	if p.answer.open--; p.answer.open == 0 {
		close(p.answer.given)
	}
}

// put gives a message to nsqd. A topic that was deleted is made again, as nsqd does for a publisher.
func (t *topic) put(m *nsqd.Message, deferral time.Duration, came time.Time) error {
	wait := time.Since(came)
	if deferral > 0 {
		deferBy(m, max(deferral-wait, 1))
	}
	topic := t.nsq.Load()
	if topic.Exiting() && !t.broker.stopping.Load() {
		topic = t.broker.engine.topic(t.name)
		t.nsq.Store(topic)
	}
	err := t.broker.hand(topic, m)
	if err == nil {
		t.counts.released.Add(1)
		t.counts.access.observe(wait)
	}
	return err
}

// kept is how many messages wait.
func (t *topic) kept() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.gate.Kept()
}

// end lets everything out at once, and ends the goroutine.
func (t *topic) end() {
	t.mutex.Lock()
	t.over = true
	var rest []pending
	t.gate.Flush(func(p pending) { rest = append(rest, p) })
	t.mutex.Unlock()
	close(t.ended)
	t.outlets.Wait()
	t.hand(rest)
}
