// SPDX-License-Identifier: Apache-2.0

package control

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/gate"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/wire"
)

// A world in virtual time: distributors (this package), a store that elects one of them, brokers (the gate, bucket and holder that ship),
// publishers, and a network that delays, loses and cuts. Machines stop, sleep and start again; their clocks differ.
type world struct {
	random  *rand.Rand
	now     time.Duration
	events  events
	seq     int
	store   *shelf
	leaders []*distributor
	brokers []*station
	senders []*sender
	topic   wire.Topic
	cut     map[[2]string]bool // nothing goes from the one to the other
	faulty  bool
	greedy  bool // publishers send more than the bucket lets through
	counts  map[string]int
	passed  []time.Duration // releases, when they were decided
	waits   []wait
	lease   time.Duration
}

type wait struct{ sent, passed time.Duration }

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + d, w.seq, do})
}

func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)))
}

// node is a machine: its clock, whether it lives, and until when it sleeps.
type node struct {
	w      *world
	name   string
	life   int // another after each start
	dead   bool
	asleep time.Duration
	offset time.Duration
	drift  float64
}

func (w *world) node(name string) node {
	return node{w: w, name: name, offset: w.between(time.Second, 100*time.Second), drift: (w.random.Float64() - 0.5) * 0.008}
}

// clock is its own time.
func (n *node) clock() time.Duration { return n.offset + time.Duration(float64(n.w.now)*(1+n.drift)) }

// true is when its clock showed that.
func (n *node) real(local time.Duration) time.Duration {
	return time.Duration(float64(local-n.offset) / (1 + n.drift))
}

// later does something on this node if it still lives then; when it sleeps, after that.
func (n *node) later(d time.Duration, do func()) {
	life := n.life
	var try func()
	try = func() {
		switch {
		case n.dead || n.life != life:
		case n.w.now < n.asleep:
			n.w.after(n.asleep-n.w.now, try)
		default:
			do()
		}
	}
	n.w.after(d, try)
}

// send lets something happen at another node, unless the network loses it.
func (n *node) send(to *node, do func()) {
	if n.w.cut[[2]string{n.name, to.name}] || n.w.faulty && n.w.random.IntN(50) == 0 {
		n.w.counts["lost"]++
		return
	}
	delay := n.w.between(100*time.Microsecond, 2*time.Millisecond)
	if n.w.faulty && n.w.random.IntN(20) == 0 {
		delay = n.w.between(0, 800*time.Millisecond)
		n.w.counts["late"]++
	}
	to.later(delay, do)
}

// shelf is the coordination service: it keeps records, and lets one distributor lead for as long as it hears of it.
type shelf struct {
	node
	epoch   uint64
	leader  *distributor
	life    int // of the leader: started again it is another
	expires time.Duration
	records map[string][]byte
}

const session = 800 * time.Millisecond

func (s *shelf) tick() {
	if s.leader != nil && s.w.now > s.expires {
		s.leader = nil
	}
	s.later(50*time.Millisecond, s.tick)
}

// distributor runs a Control while it leads.
type distributor struct {
	node
	control *Control
	valid   time.Duration // of its clock: until when nobody else leads for certain
	waiting []*request
}

type request struct {
	from   *node
	id     string // of a broker, or of "topic/publisher"
	end    time.Duration
	answer func()
	seen   func() bool
}

const beat = session / 4

func (d *distributor) tick() {
	asked := d.clock()
	d.send(&d.w.store.node, func() {
		s := d.w.store
		if s.leader == nil {
			s.leader, s.life, s.epoch = d, d.life, s.epoch+1
			d.w.counts["leaders"]++
		}
		if s.leader != d || s.life != d.life {
			return
		}
		s.expires = s.w.now + session
		epoch := s.epoch
		s.send(&d.node, func() {
			if d.control != nil && d.control.epoch != epoch {
				d.control = nil
			}
			d.valid = max(d.valid, asked+session*95/100)
			if d.control == nil && d.leads() {
				var saved []Record
				for _, text := range s.records {
					var r Record
					if err := json.Unmarshal(text, &r); err != nil {
						panic(err)
					}
					saved = append(saved, r)
				}
				d.control = New(d.w.settings(), d.clock(), epoch, saved)
				if len(saved) == 0 {
					if err := d.control.Put(d.clock(), d.w.topic); err != nil {
						panic(err)
					}
				}
			}
		})
	})
	if d.leads() && d.control != nil {
		d.control.Tick(d.clock())
		d.answer()
	}
	d.later(beat, d.tick)
}

func (d *distributor) leads() bool { return d.clock() < d.valid }

// saved says that all is durable. The store takes nothing of whom it does not know as leader.
func (d *distributor) saved() bool {
	s := d.w.store
	for name, record := range d.control.Unsaved() {
		if s.leader != d || s.life != d.life || s.epoch != d.control.epoch || d.w.cut[[2]string{d.name, s.name}] {
			d.w.counts["fenced"]++
			return false
		}
		text, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		s.records[name] = text
		d.control.Saved(name)
	}
	return true
}

// answer answers who waits, where there is something new.
func (d *distributor) answer() {
	if d.control == nil || !d.leads() || !d.saved() {
		return
	}
	brokers, publishers := d.control.Changed()
	var left []*request
	for _, r := range d.waiting {
		if d.w.now >= r.end || slices.Contains(brokers, r.id) || slices.Contains(publishers, r.id) {
			r.answer()
		} else {
			left = append(left, r)
		}
	}
	d.waiting = left
}

func (w *world) settings() Settings {
	return Settings{Lease: w.lease, Silent: 700 * time.Millisecond, Gone: 2 * time.Second, Gather: 300 * time.Millisecond,
		Round: time.Second, Calm: 200 * time.Millisecond, Prepare: 1500 * time.Millisecond, Move: 600 * time.Millisecond, Window: 2,
		Capacity: 60, Kind: distribute.SRTM}
}

// station is a broker.
type station struct {
	node
	holder   *holder.Holder
	gate     *gate.Gate[time.Duration] // of messages: when they were sent
	replaces string
	asking   int
	second   wire.Second
	told     []wire.Second
	free     bool
	next     int
}

func (b *station) incarnation() string { return fmt.Sprint(b.life) }

func (b *station) start() {
	b.holder, b.gate = &holder.Holder{}, &gate.Gate[time.Duration]{}
	b.second, b.told = wire.Second{}, nil
	b.report()
	b.poll()
}

// report asks the distributors, one after the other; a request that is not answered in time is given up.
func (b *station) report() {
	b.asking++
	asked, number := b.clock(), b.asking
	epoch, version := b.holder.Seen()
	r := wire.Report{Broker: b.name, Incarnation: b.incarnation(), Replaces: b.replaces, V2: b.name, Epoch: epoch, Seen: version,
		Topics: []wire.TopicReport{{Topic: b.w.topic.Name, Seconds: b.told, Kept: uint64(b.gate.Kept()), Ready: []string{"c"}}}}
	b.told = nil
	d := b.w.leaders[b.next%len(b.w.leaders)]
	b.send(&d.node, func() {
		if d.control == nil || !d.leads() {
			return
		}
		now := d.clock()
		if err := d.control.Report(now, r); err != nil {
			b.w.counts["report refused"]++
			return
		}
		reply := func() {
			o, any := d.control.Orders(d.clock(), b.name)
			if !any || !d.saved() {
				return
			}
			d.send(&b.node, func() {
				if b.asking == number {
					b.apply(asked, o)
				}
			})
		}
		if d.control.brokers[b.name].sentNumber != d.control.brokers[b.name].number || r.Epoch != d.control.epoch {
			if d.saved() {
				reply()
			}
		} else {
			d.waiting = append(d.waiting, &request{from: &b.node, id: b.name, end: b.w.now + 300*time.Millisecond, answer: reply})
		}
		d.answer()
	})
	b.later(600*time.Millisecond, func() {
		if b.asking == number {
			b.next++
			b.report()
		}
	})
}

func (b *station) apply(asked time.Duration, o wire.Orders) {
	b.asking++
	now := uint64(b.clock())
	steps, err := b.holder.Apply(now, uint64(asked), o)
	if err != nil {
		b.w.counts["stale orders"]++
	}
	for _, s := range steps {
		switch s.Change {
		case holder.Restart:
			err = b.gate.Restart(holder.Rate(s.Share), s.Depth, b.holder.Until(), now)
			b.w.counts["shares from nothing"]++
		case holder.Set:
			b.gate.Until = b.holder.Until()
			err = b.gate.Set(holder.Rate(s.Share), s.Depth, now)
			b.w.counts["shares changed"]++
		case holder.Keep:
			b.gate.Until = b.holder.Until()
		}
		if err != nil {
			panic(err)
		}
	}
	b.due()
	b.later(b.w.between(5*time.Millisecond, 100*time.Millisecond), func() { b.report() })
}

// poll hands out what is due, now and then late, and ends the seconds of the statistics.
func (b *station) poll() {
	b.due()
	if at := int64(b.clock() / time.Second); at != b.second.At {
		if b.second.At > 0 {
			b.second.Used = b.gate.Peak()
			b.told = append(b.told, b.second)
		}
		b.second = wire.Second{At: at, Delivery: wire.Histogram{}}
	}
	b.later(20*time.Millisecond, b.poll)
}

func (b *station) pass(sent time.Duration) {
	decided := b.real(time.Duration(b.gate.At))
	b.w.passed = append(b.w.passed, decided)
	b.w.waits = append(b.w.waits, wait{sent, b.w.now})
	b.second.Delivery.Observe(b.w.now - sent)
}

func (b *station) due() { b.gate.Due(uint64(b.clock()), b.pass) }

// arrive takes a message. Without orders all is held.
func (b *station) arrive(sent time.Duration, managed bool) {
	if b.second.Delivery == nil {
		b.second.Delivery = wire.Histogram{}
	}
	b.second.Messages++
	if !managed {
		b.second.Unmanaged++
	}
	now := uint64(b.clock())
	if b.gate.Until == 0 {
		b.gate.Until = 1 // before the first orders all is held
	}
	if b.gate.Arrive(now, now, sent) {
		b.pass(sent)
	}
}

// sender is a publisher that follows its assignment.
type sender struct {
	node
	id       string
	group    string
	rate     float64
	at       *station
	moving   *station
	seen     uint64
	failed   string
	asking   int
	next     int
	managed  bool
	stopped  bool
	moves    int
	unsteady time.Duration // since when it has not been where it was told to be
}

func (s *sender) start() {
	if s.managed {
		s.ask()
	}
	s.publish()
}

func (s *sender) publish() {
	s.later(time.Duration(s.w.random.ExpFloat64()/s.rate*1e9), func() {
		if b := s.at; b != nil && !s.stopped {
			sent := s.w.now
			if b.dead {
				s.failed = b.name
				s.ask()
			} else {
				s.send(&b.node, func() { b.arrive(sent, s.managed) })
			}
		}
		s.publish()
	})
}

func (s *sender) ask() {
	if !s.managed {
		return
	}
	s.asking++
	number := s.asking
	a := wire.Ask{Topic: s.w.topic.Name, Publisher: s.id, Group: s.group, Rate: s.rate, Failed: s.failed}
	if s.at != nil {
		a.At = s.at.name
	}
	s.failed = ""
	d := s.w.leaders[s.next%len(s.w.leaders)]
	s.send(&d.node, func() {
		if d.control == nil || !d.leads() {
			return
		}
		reply := func() {
			to, err := d.control.Assign(d.clock(), a)
			if err != nil {
				return
			}
			d.send(&s.node, func() {
				if s.asking == number {
					s.follow(to)
				}
			})
		}
		to, err := d.control.Assign(d.clock(), a)
		if err == nil && to.Version == s.seen && to.Broker == a.At {
			d.waiting = append(d.waiting, &request{from: &s.node, id: s.w.topic.Name + "/" + s.id, end: s.w.now + 500*time.Millisecond, answer: reply})
		} else {
			reply()
		}
		d.answer()
	})
	s.later(900*time.Millisecond, func() {
		if s.asking == number {
			s.next++
			s.ask()
		}
	})
}

func (s *sender) follow(a wire.Assignment) {
	s.asking++
	s.seen = a.Version
	for _, b := range s.w.brokers {
		if b.name == a.Broker && b != s.at && a.V2 != "" {
			// It connects, waits for what is under way, and goes.
			s.later(s.w.between(time.Millisecond, 50*time.Millisecond), func() {
				if b.dead || s.w.cut[[2]string{s.name, b.name}] {
					s.failed = b.name
				} else {
					s.at = b
					s.moves++
					s.w.counts["moves"]++
				}
				s.ask()
			})
			return
		}
	}
	s.later(s.w.between(5*time.Millisecond, 60*time.Millisecond), s.ask)
}
