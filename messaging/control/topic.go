// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"math"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/ledger"
	"giusto.dev/messaging/wire"
)

// publisher is one that asks where to send. It sends to `at`; it was told to send to `told`; it is to be at `to`, which it is told when
// all is ready there and not too many are on their way.
type publisher struct {
	id, group    string
	rate         float64
	at, told, to string
	version      uint64        // the leader's epoch above, what was told below
	asked        time.Duration // last
	wished       time.Duration // since when it is to be at `to`
	toldAt       time.Duration
	avoid        string // a broker that it could not reach, until
	until        time.Duration
	failures     int // to reach that broker, in a row
}

type phase int

const (
	idle phase = iota
	moving
	measuring
)

func (p phase) String() string { return [...]string{"steady", "moving", "measuring"}[p] }

// load is what a broker gets of a topic from publishers that are there or told to go there.
type load struct {
	rate       float64
	publishers int
}

type topic struct {
	spec       wire.Topic
	book       *ledger.Book
	publishers map[string]*publisher
	names      []string // of publishers, in order
	load       map[string]load
	assigned   map[string]float64 // the leader's, of all topics; nil: the topic is not assigned yet
	wished     map[string]float64 // messages a second that publishers will bring who were not told yet
	rate       float64            // of all publishers
	phase      phase
	session    *distribute.Session
	begun      time.Duration // when it began, or the last one
	tried      int           // brokers that there were then, and
	fitted     bool          // whether they had room for all of its publishers
	order      []string      // the session's publishers, "" for unmanaged load
	gather     bool          // who publishes has changed since the last session
	since      time.Duration
	late       map[string]int // for how many seconds a broker has been beyond the objective
	judged     time.Duration
	rest       time.Duration // no session by itself before
	again      int           // sessions that began by themselves, one soon after the other
	forced     bool          // so did the one that runs
	from, to   time.Duration // of the measurement
	planned    float64       // messages a second when it was distributed last
	shared     map[string]wire.Share
	stats      map[string]*stats // of brokers
	moved      time.Duration     // when a publisher moved last
	note       string
	stuck      bool              // a publisher could not move
	unnamed    map[string]uint64 // holders that may not know of it (as it is now), until they have seen these orders
	inherited  bool              // from an earlier leader
	first      time.Duration     // when it began to gather
	rounds     int
	tails      map[string]time.Duration // of the last measurement
	kept       bool                     // something waits at a broker
	looked     time.Duration            // when it was looked at last, and
	resting    bool                     // whether there was nothing to do
}

func newTopic(spec wire.Topic, book *ledger.Book) *topic {
	return &topic{spec: spec, book: book, publishers: map[string]*publisher{}, load: map[string]load{}, late: map[string]int{},
		wished: map[string]float64{},
		stats:  map[string]*stats{}}
}

// add makes a publisher known.
func (t *topic) add(id string) *publisher {
	p := &publisher{id: id}
	t.publishers[id] = p
	n, _ := slices.BinarySearch(t.names, id)
	t.names = slices.Insert(t.names, n, id)
	return p
}

// drop forgets one.
func (t *topic) drop(p *publisher) {
	t.set(p, "", "", 0)
	delete(t.publishers, p.id)
	n, _ := slices.BinarySearch(t.names, p.id)
	t.names = slices.Delete(t.names, n, n+1)
}

// set changes where a publisher is, where it was told to be and what it sends, and so the loads.
func (t *topic) set(p *publisher, at, told string, rate float64) {
	count := func(id string, sign int) {
		if id == "" {
			return
		}
		if t.assigned != nil {
			t.assigned[id] += float64(sign) * p.rate
		}
		l := t.load[id]
		if l.rate, l.publishers = l.rate+float64(sign)*p.rate, l.publishers+sign; l.publishers == 0 {
			delete(t.load, id)
			return
		}
		t.load[id] = l
	}
	each := func(sign int) {
		count(p.at, sign)
		if p.told != p.at {
			count(p.told, sign)
		}
		t.rate += float64(sign) * p.rate
	}
	each(-1)
	p.at, p.told, p.rate = at, told, rate
	each(1)
}

// grown says whether so much was added or taken away that the topic is to be distributed anew.
func (t *topic) grown() bool { return math.Abs(t.rate-t.planned) > steady*t.planned }

// changed begins to wait until no publisher comes or goes any more.
func (t *topic) changed(now time.Duration) {
	if !t.gather {
		t.first = now
	}
	t.gather, t.since = true, now
}

// gathered says that the wait is over; a publisher that comes and goes all the time does not make it last for ever.
func (t *topic) gathered(now, gather time.Duration) bool {
	return now-t.since >= gather || now-t.first >= 10*gather
}

// loads are the messages a second that each broker may get of a topic: who is on the way counts at both ends.
func (c *Control) loads(t *topic) map[string]float64 {
	sum := make(map[string]float64, len(t.load))
	for id, l := range t.load {
		sum[id] = l.rate
	}
	for id, s := range t.stats {
		if c.brokers[id].serves(t) {
			if own := s.unmanaged(); own > 0 {
				sum[id] += own
			}
		}
	}
	return sum
}

// existing are the messages a second that a broker gets of all topics but one.
func (c *Control) existing(id string, but *topic) float64 {
	sum, b := c.assigned[id], c.brokers[id]
	if b != nil {
		sum += b.unmanaged
	}
	if but == nil {
		return sum
	}
	if t := c.topics[but.spec.Name]; t != nil { // which may be another of the name: a dry run's
		sum -= t.load[id].rate
		if s := t.stats[id]; s != nil {
			sum -= s.unmanaged()
		}
	}
	return max(0, sum)
}

// reckon sums up what brokers get of all topics anew: sums that change by additions drift, and topics go.
func (c *Control) reckon() {
	clear(c.assigned)
	for _, t := range c.topics {
		for id, l := range t.load {
			c.assigned[id] += l.rate
		}
	}
	clear(c.wished)
	for _, t := range c.topics {
		for id, rate := range t.wished {
			c.wished[id] += rate
		}
	}
	for _, b := range c.brokers {
		c.unmanaged(b)
	}
}

// wish sums up anew what publishers will bring to brokers that they are to go to and were not told yet. Sessions of other
// topics leave room for it: those that begin together do not all take the same.
func (c *Control) wish(t *topic) {
	for id, rate := range t.wished {
		c.wished[id] -= rate
	}
	clear(t.wished)
	for _, p := range t.publishers {
		if p.to != "" && p.to != p.told {
			t.wished[p.to] += p.rate
		}
	}
	for id, rate := range t.wished {
		c.wished[id] += rate
	}
}

// unmanaged sums up what a broker gets of all topics that follows no assignment.
func (c *Control) unmanaged(b *broker) {
	b.unmanaged = 0
	for name, s := range b.stats {
		if c.topics[name] != nil {
			b.unmanaged += s.unmanaged()
		}
	}
}

// goals are the brokers that publishers are to go to, and were not told yet.
func (t *topic) goals() (ids []string) {
	for _, p := range t.publishers {
		if p.to != p.told && p.to != "" && !slices.Contains(ids, p.to) {
			ids = append(ids, p.to)
		}
	}
	return ids
}

// candidates are the brokers that may get publishers, the largest residual first; no more than the bucket has whole tokens.
func (c *Control) candidates(t *topic) []distribute.Broker {
	var found []distribute.Broker
	for _, id := range slices.Sorted(maps.Keys(c.brokers)) {
		if b := c.brokers[id]; c.alive(b) && !c.drained[id] && !b.limiter && !t.spec.Requests {
			wished := c.wished[id]
			if known := c.topics[t.spec.Name]; known != nil {
				wished -= known.wished[id]
			}
			found = append(found, distribute.Broker{ID: id, Capacity: b.capacity, Existing: c.existing(id, t) + max(0, wished)})
		}
	}
	slices.SortStableFunc(found, func(a, b distribute.Broker) int {
		switch x, y := a.Capacity-a.Existing, b.Capacity-b.Existing; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return found[:min(len(found), int(min(t.spec.Depth/wire.Unit, 1<<20)))]
}

// share makes shares follow the load: what is assigned while publishers move, what was measured when they do not (the TB
// Adaptor, § 2.5.4).
func (c *Control) share(t *topic) {
	if t.inherited && c.young() { // who publishes has not been heard of yet
		c.settle(t)
		return
	}
	loads := c.loads(t)
	if t.inherited && c.now-c.began < c.settings.Gone {
		for id, s := range t.stats {
			if c.brokers[id].serves(t) {
				if mean := s.mean(); mean > loads[id] {
					loads[id] = mean
				}
			}
		}
	}
	measured := t.phase == idle && c.now-t.moved > time.Duration(c.settings.Window)*time.Second
	var ids []string
	var rates, depths []float64
	// A broker needs a share before its publishers come.
	wave := max(t.rate*wave, t.spec.Each)
	for _, id := range t.goals() {
		if loads[id] < wave && c.alive(c.brokers[id]) {
			loads[id] = wave
		}
	}
	// What waits at a broker goes out there, also when its publishers have left.
	t.kept = false
	for id, s := range t.stats {
		if b := c.brokers[id]; s.kept > 0 && c.alive(b) && b.serves(t) {
			t.kept = true
			loads[id] += s.drain()
		}
	}
	if t.spec.Requests {
		c.even(loads)
	}
	total := 0.0
	for id, load := range loads {
		if c.alive(c.brokers[id]) && load > 0 {
			ids = append(ids, id)
			total += load
		}
	}
	slices.Sort(ids)
	if most := int(min(t.spec.Depth/wire.Unit, 1<<20)); len(ids) > most { // those with least have to wait
		slices.SortStableFunc(ids, func(a, b string) int {
			if loads[a] > loads[b] {
				return -1
			} else if loads[a] < loads[b] {
				return 1
			}
			return 0
		})
		ids = ids[:most]
		slices.Sort(ids)
	}
	for _, id := range ids {
		rate, depth := loads[id], loads[id]
		if s := t.stats[id]; measured && s != nil && s.full(c.settings.Window) {
			rate = max(s.mean()+s.drain(), quiet*loads[id])
			depth = max(float64(s.used())/float64(t.spec.Depth), quiet*loads[id]/total)
		} else {
			measured = false
		}
		rates, depths = append(rates, rate), append(depths, depth)
	}
	if !measured {
		copy(depths, rates)
		for n, id := range ids {
			rates[n], depths[n] = loads[id], loads[id]
		}
	}
	wanted := map[string]wire.Share{}
	r, d := ledger.Split(t.spec.Rate, rates, 0), ledger.Split(t.spec.Depth, depths, wire.Unit)
	for n, id := range ids {
		wanted[c.brokers[id].holder] = wire.Share{Rate: r[n], Depth: d[n]}
	}
	if t.phase == moving || t.shared == nil || differ(wanted, t.shared) {
		t.shared = wanted
		t.book.Want(wanted)
	}
	c.settle(t)
}

// even gives limiters at least as much as if all were asked alike: any may be asked next, and cannot make a request
// wait until it has a share.
// Where it is measured what they are asked for, `quiet` of that stays.
func (c *Control) even(loads map[string]float64) {
	total, count := 0.0, 0
	for id, b := range c.brokers {
		if b.limiter && c.alive(b) {
			total, count = total+loads[id], count+1
		}
	}
	for id, b := range c.brokers {
		if b.limiter && c.alive(b) {
			loads[id] = max(loads[id], total/float64(count), 1e-9)
		}
	}
}

const (
	// wave is how much of a topic's rate may be on its way at once: what is on its way needs a share at both ends.
	wave = 0.05
	// quiet is how much of its assigned part a broker keeps that has seen nothing of it for a window.
	quiet = 0.1
	// steady: shares that would change by less stay.
	steady = 0.1
)

// drain is what it takes a second to let out what waits in two.
func (s *stats) drain() float64 { return float64(s.kept) / 2 }

// differ says whether shares have changed by so much that it is worth it.
func differ(a, b map[string]wire.Share) bool {
	if len(a) != len(b) {
		return true
	}
	far := func(x, y uint64) bool { return float64(max(x, y)-min(x, y)) > steady*float64(max(x, y)) }
	for name, share := range a {
		other, there := b[name]
		if !there || far(share.Rate, other.Rate) || far(share.Depth, other.Depth) {
			return true
		}
	}
	return false
}

// settle makes what offers can be made now. Until all brokers know the topic, no broker gets a share.
func (c *Control) settle(t *topic) {
	if len(t.unnamed) > 0 {
		return
	}
	offered := t.book.Settle(func(name string) ledger.Version {
		c.number++
		for id, b := range c.brokers {
			if b.holder == name {
				b.number, c.news.brokers[id] = c.number, true
				b.dirty[t.spec.Name] = true
			}
		}
		return ledger.Version{Epoch: c.epoch, Number: c.number}
	})
	for _, name := range offered {
		c.unsaved[t.spec.Name] = true
		c.hold(name, t)
		if _, known := c.leases[name]; !known {
			lease, _ := c.Lease()
			c.lend(name, lease)
		}
	}
}
