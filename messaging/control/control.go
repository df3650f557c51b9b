// SPDX-License-Identifier: Apache-2.0

// Package control is the distributor that leads: which publisher sends to which broker, and who holds which share of a topic's token bucket. Pure:
// what brokers and publishers say comes in with a time, what they are to do goes out; network, clock and disk belong to the caller.
//
// The caller's duties, without which the law (package ledger) does not hold:
//   - what Unsaved names is durable before any Orders leave that were made after it changed;
//   - no Orders leave when another may lead already.
//
// Times are of one clock that never steps. A call is O(brokers + what changes). Topics at rest are looked at once a
// second; Tick is O(publishers) of all others.
package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/ledger"
	"giusto.dev/messaging/wire"
)

// Settings of a distributor.
type Settings struct {
	// Lease is how long a broker keeps its shares when it hears nothing, if no topic's gap asks for less. A broker that is
	// lost for good keeps its part of the rate from others for so
	// long; a distributor that is lost must be replaced within it, or all brokers hold.
	Lease time.Duration
	// Silent: a broker that has not reported for so long gets no publishers, and loses those it has.
	Silent time.Duration
	// Gone: a publisher that has not asked for so long counts as gone.
	Gone time.Duration
	// Gather is how long no publisher comes or goes before a topic is distributed anew.
	Gather time.Duration
	// Round is how long a measurement takes, and Calm how long the topic is left alone before it.
	Round, Calm time.Duration
	// Prepare is how long a broker has to make a topic ready (its consumers may ask nsqlookupd only once a minute), and Move how long
	// a publisher has to move.
	Prepare, Move time.Duration
	// Window of statistics that the shares follow, in seconds.
	Window int
	// Capacity of a broker that does not say its own, in messages a second.
	Capacity float64
	// Kind of distribution.
	Kind distribute.Kind
	// Model foretells tails of a topic with these publishers; nil: all is measured.
	Model func(wire.Topic, []distribute.Publisher) distribute.Predict
}

// Defaults is what holds where nothing is said.
func Defaults() Settings {
	return Settings{Lease: 5 * time.Second, Silent: 2 * time.Second, Gone: 90 * time.Second, Gather: 3 * time.Second,
		Round: 20 * time.Second, Calm: 3 * time.Second, Prepare: 90 * time.Second, Move: 10 * time.Second, Window: 10,
		Capacity: 10_000, Kind: distribute.SRTM}
}

// Record is what a later leader has to know of a topic; or, by the names Drained and Leased, of brokers.
type Record struct {
	Topic wire.Topic   `json:"topic"`
	Book  *ledger.Book `json:"book,omitempty"`
	// Unnamed: some broker with a lease may not know of the topic yet, and let it pass.
	Unnamed bool     `json:"unnamed,omitempty"`
	Drained []string `json:"drained,omitempty"`
	// Leased: who may have orders in force, if only such as do not know of a topic; Lease is the longest that any of them may still last.
	Leased []string      `json:"leased,omitempty"`
	Lease  time.Duration `json:"lease,omitempty"`
}

// Drained names the record of brokers that are to have no publishers, Leased that of who has orders. No topic may be called so.
const Drained, Leased = "~drained", "~leased"

type broker struct {
	id, incarnation, v2, http string
	holder                    string // of shares: id and incarnation
	limiter                   bool
	capacity                  float64
	unmanaged                 float64 // messages a second of all topics that follow no assignment
	heard                     time.Duration
	up                        bool                  // it counted as alive when that was looked at last
	number                    uint64                // of its orders
	orders                    map[string]wire.Order // as they were when it got some last, which sentNumber stands for
	sentNumber                uint64
	dirty                     map[string]bool // topics whose orders may be other than these
	seen                      ledger.Version  // what it acknowledged last
	stats                     map[string]*stats
}

// serves says whether a topic is of its kind.
func (b *broker) serves(t *topic) bool { return b.limiter == t.spec.Requests }

func key(id, incarnation string) string { return id + "/" + incarnation }

// Control is a leader's state.
type Control struct {
	settings Settings
	epoch    uint64
	now      time.Duration
	began    time.Duration
	number   uint64 // of the latest orders, of all brokers
	brokers  map[string]*broker
	topics   map[string]*topic
	names    []string                   // of topics, in order
	consumed map[string][]string        // the channels of each topic that consumers are at anywhere
	assigned map[string]float64         // messages a second that brokers get, of all topics, and
	wished   map[string]float64         // that publishers will bring who were not told yet
	leases   map[string]time.Duration   // when a holder's has run out for certain
	runsOut  time.Duration              // no lease does before
	swept    time.Duration              // when what changes slowly was looked at last
	held     map[string]map[*topic]bool // all topics that a holder may have a share of, or may not know of; some more
	dead     map[string]bool            // incarnations
	unsaved  map[string]bool
	drained  map[string]bool
	came     time.Duration // when a broker came last that publishers may go to
	hasty    string        // the topic with the shortest gap; "": none has one
	news     struct{ brokers, publishers map[string]bool }
	// forgotten: a broker that was silent for so long, and holds nothing, counts as gone.
	forgotten time.Duration
}

// New takes over as leader of this epoch with what earlier leaders saved. A lease that is saved may have begun just now.
func New(settings Settings, now time.Duration, epoch uint64, saved []Record) *Control {
	c := &Control{settings: settings, epoch: epoch, now: now, began: now, brokers: map[string]*broker{},
		topics: map[string]*topic{}, assigned: map[string]float64{}, wished: map[string]float64{},
		leases: map[string]time.Duration{}, dead: map[string]bool{}, unsaved: map[string]bool{}, drained: map[string]bool{},
		forgotten: time.Hour,
		consumed:  map[string][]string{}, held: map[string]map[*topic]bool{}}
	c.news.brokers, c.news.publishers = map[string]bool{}, map[string]bool{}
	var leased Record
	for _, record := range saved {
		for _, id := range record.Drained {
			c.drained[id] = true
		}
		if len(record.Leased) > 0 {
			leased = record
		}
	}
	lease := max(settings.Lease, leased.Lease)
	for _, holder := range leased.Leased {
		c.leases[holder] = now + lasts(lease)
	}
	if len(leased.Leased) > 0 && leased.Lease < settings.Lease {
		c.unsaved[Leased] = true
	}
	for _, record := range saved {
		if record.Book == nil {
			continue
		}
		t := newTopic(record.Topic, record.Book)
		t.assigned = c.assigned
		wanted := map[string]wire.Share{}
		for _, holder := range t.book.Holders() {
			c.lend(holder, lease)
			c.hold(holder, t)
			wanted[holder], _ = t.book.Current(holder)
		}
		t.book.Want(wanted)
		t.planned, t.inherited = 1e-9, true // it was distributed by an earlier leader
		c.topics[record.Topic.Name] = t
	}
	c.names = slices.Sorted(maps.Keys(c.topics))
	c.hasten()
	for _, record := range saved {
		if t := c.topics[record.Topic.Name]; t != nil && record.Unnamed {
			c.name(t)
		}
	}
	return c
}

// Report takes in what a broker says. Orders answers it.
func (c *Control) Report(now time.Duration, r wire.Report) error {
	c.advance(now)
	if r.Broker == "" || r.Incarnation == "" || r.V2 == "" && !r.Limiter {
		return fmt.Errorf("a report needs broker, incarnation and v2")
	}
	if c.dead[key(r.Broker, r.Incarnation)] && !r.Leaves {
		return fmt.Errorf("%s: this incarnation was replaced by another", r.Broker)
	}
	if r.Replaces != "" && r.Replaces != r.Incarnation {
		c.bury(key(r.Broker, r.Replaces))
	}
	b := c.brokers[r.Broker]
	if b == nil || b.incarnation != r.Incarnation {
		if b != nil && !c.dead[b.holder] && now-b.heard < c.settings.Silent {
			return fmt.Errorf("%s: another broker of this name reported %v ago; each needs its own", r.Broker, now-b.heard)
		}
		c.number++
		before := b
		b = &broker{id: r.Broker, incarnation: r.Incarnation, holder: key(r.Broker, r.Incarnation), limiter: r.Limiter,
			number: c.number,
			orders: map[string]wire.Order{}, dirty: map[string]bool{}, stats: map[string]*stats{}}
		c.brokers[r.Broker] = b
		if before != nil {
			c.empty(before)
		}
		for name := range c.topics {
			b.dirty[name] = true
		}
	}
	b.heard, b.v2, b.http, b.capacity = now, r.V2, r.HTTP, r.Capacity
	if b.capacity <= 0 {
		b.capacity = c.settings.Capacity
	}
	if r.Leaves {
		c.end(b)
		return nil
	}
	if !b.up {
		b.up = true
		c.recount(b)
		c.stir()
		if !b.limiter {
			c.came = now
			c.gain(nil)
		}
	}
	if seen := (ledger.Version{Epoch: r.Epoch, Number: r.Seen}); seen != b.seen {
		b.seen = seen
		for t := range c.held[b.holder] {
			t.book.Acknowledge(b.holder, seen)
			if number, waits := t.unnamed[b.holder]; waits && !seen.Before(ledger.Version{Epoch: c.epoch, Number: number}) {
				delete(t.unnamed, b.holder)
			}
		}
	}
	here := map[string]bool{}
	for _, told := range r.Topics {
		c.count(b, told)
		here[told.Topic] = true
	}
	for name, s := range b.stats {
		if !here[name] {
			delete(b.stats, name)
			if t := c.topics[name]; t != nil {
				delete(t.stats, b.id)
			}
			if len(s.ready) > 0 {
				c.reconsume(name)
			}
		}
	}
	c.unmanaged(b)
	for t := range c.held[b.holder] {
		_, waits := t.unnamed[b.holder]
		switch {
		case c.topics[t.spec.Name] == t && t.book.Offers[b.holder] != nil:
			here[t.spec.Name] = true
		case c.topics[t.spec.Name] != t || !waits:
			delete(c.held[b.holder], t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if t := c.topics[name]; t != nil && !c.rests(t) {
			c.bring(t)
		}
	}
	return nil
}

func (c *Control) alive(b *broker) bool { return b != nil && c.now-b.heard < c.settings.Silent }

// Put makes a topic, or gives it another bucket and promise.
func (c *Control) Put(now time.Duration, spec wire.Topic) error {
	if err := c.Check(now, spec); err != nil {
		return err
	}
	t := c.topics[spec.Name]
	if t == nil {
		t = newTopic(spec, ledger.New(spec.Share)) // shares of one of this name that was removed are gone when all know of this one
		t.assigned = c.assigned
		c.topics[spec.Name] = t
		n, _ := slices.BinarySearch(c.names, spec.Name)
		c.names = slices.Insert(c.names, n, spec.Name)
		c.name(t)
		for id, b := range c.brokers { // what they get of it was unassigned
			if s := b.stats[spec.Name]; s != nil {
				t.stats[id] = s
			}
			c.unmanaged(b)
		}
	}
	hasty := t.spec.Gap > 0 || spec.Gap > 0
	if t.spec, t.book.Whole, t.shared = spec, spec.Share, nil; hasty {
		c.hasten()
	}
	t.changed(now)
	c.unsaved[spec.Name] = true
	c.reissue(spec.Name)
	c.bring(t)
	return nil
}

// Remove forgets a topic: it has no limit then. What others may gain by the room is looked at, O(publishers of others).
func (c *Control) Remove(now time.Duration, name string) bool {
	c.advance(now)
	t := c.topics[name]
	if t == nil {
		return false
	}
	delete(c.topics, name)
	n, _ := slices.BinarySearch(c.names, name)
	c.names = slices.Delete(c.names, n, n+1)
	if t.spec.Gap > 0 {
		c.hasten()
	}
	c.reckon()
	c.unsaved[name] = true
	c.gain(t.load)
	c.reissue(name)
	c.work()
	return true
}

// Drain sends all publishers away from a broker, without haste, and lets none come, until it is called off.
func (c *Control) Drain(now time.Duration, id string, on bool) bool {
	c.advance(now)
	if c.brokers[id] == nil && !c.drained[id] {
		return false
	}
	if c.drained[id] != on {
		c.unsaved[Drained] = true
	}
	if was := c.drained[id]; on && !was {
		c.drained[id] = true
		c.leave(id)
	} else if !on && was {
		delete(c.drained, id)
		c.came = now
		c.gain(nil)
	}
	c.work()
	return true
}

// reissue gives all brokers new orders, because a topic has changed.
func (c *Control) reissue(topic string) {
	c.soil(topic)
	c.number++
	for id, b := range c.brokers {
		b.number, c.news.brokers[id] = c.number, true
	}
}

// Unsaved are the topics that must be saved before Orders leave; one that is gone has no record.
func (c *Control) Unsaved() map[string]*Record {
	records := map[string]*Record{}
	for name := range c.unsaved {
		records[name] = nil
		if t := c.topics[name]; t != nil {
			records[name] = &Record{Topic: t.spec, Book: t.book, Unnamed: len(t.unnamed) > 0}
		}
		switch name {
		case Drained:
			records[name] = &Record{Drained: slices.Sorted(maps.Keys(c.drained))}
		case Leased:
			records[name] = &Record{Leased: slices.Sorted(maps.Keys(c.leases)), Lease: c.longest()}
		}
	}
	return records
}

// Saved takes note that a topic was saved.
func (c *Control) Saved(name string) { delete(c.unsaved, name) }

// Changed are brokers that have new orders, and publishers ("topic/publisher") that have another assignment, since the last call.
func (c *Control) Changed() (brokers, publishers []string) {
	brokers, publishers = slices.Sorted(maps.Keys(c.news.brokers)), slices.Sorted(maps.Keys(c.news.publishers))
	clear(c.news.publishers)
	return brokers, publishers
}

// Tick does what time brings. It is to be called several times a second.
func (c *Control) Tick(now time.Duration) {
	c.advance(now)
	for _, b := range c.brokers {
		if up := c.alive(b); up != b.up {
			b.up = up
			c.recount(b)
			c.stir()
		}
	}
	if c.now-c.swept >= time.Second {
		c.swept = c.now
		c.sweep()
	}
	for _, name := range c.names {
		if t := c.topics[name]; !c.rests(t) {
			c.bring(t)
		}
	}
}

// work brings every topic on.
func (c *Control) work() {
	for _, name := range c.names {
		c.bring(c.topics[name])
	}
}

// stir ends the rest of all topics.
func (c *Control) stir() {
	for _, t := range c.topics {
		t.resting = false
	}
}

// rests says whether there is nothing to do for a topic that cannot wait until a second after it was looked at last.
func (c *Control) rests(t *topic) bool {
	return t.resting && !t.gather && c.now-t.looked < time.Second
}

func (c *Control) bring(t *topic) {
	c.forget(t)
	c.fail(t)
	c.steer(t)
	c.move(t)
	c.share(t)
	t.looked, t.resting = c.now, c.calm(t)
}

// calm says whether a topic's publishers are where they are to be, and its shares in force, and nothing waits at a broker.
func (c *Control) calm(t *topic) bool {
	if t.phase != idle || t.gather || len(t.unnamed) > 0 || t.kept || t.inherited && c.young() {
		return false
	}
	for _, p := range t.publishers {
		if p.at != p.told || p.to != p.told && p.to != "" {
			return false
		}
	}
	return t.book.Settled()
}
