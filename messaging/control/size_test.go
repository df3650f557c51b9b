// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// crowd is many brokers, topics and publishers that do what they are told, and report and ask once a second. All that
// goes over the wire is encoded and decoded.
type crowd struct {
	t                     *testing.T
	c                     *Control
	now                   time.Duration
	brokers, topics, each int
	has                   map[string]*ordered
	at                    map[[2]int]string            // publishers, by topic
	load                  map[string]map[string]uint64 // of brokers, by topic: messages a second
	lost                  map[string]bool              // brokers
	bytes, whole, moves   int
	moved                 map[int]int                       // of a topic's publishers
	away                  map[[2]int]bool                   // publishers
	delivery              func(topic string) wire.Histogram // nil: it is not told
	capacity              float64                           // of a broker
	spent                 map[string]time.Duration
	longest               time.Duration // tick
}

// ordered is what a broker has in force.
type ordered struct {
	epoch, version uint64
	topics         map[string]wire.Order
}

func (w *crowd) clock(what string, do func()) {
	began := time.Now()
	do()
	took := time.Since(began)
	w.spent[what] += took
	if what == "ticks" {
		w.longest = max(w.longest, took)
	}
}

// over says over the wire what one says, into what another hears.
func (w *crowd) over(said, heard any) {
	text, err := json.Marshal(said)
	if err == nil {
		err = json.Unmarshal(text, heard)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.bytes += len(text)
}

func (w *crowd) report(id string) {
	has := w.has[id]
	if has == nil {
		has = &ordered{topics: map[string]wire.Order{}}
		w.has[id] = has
	}
	said := wire.Report{Broker: id, Incarnation: "1", V2: id, Capacity: w.capacity, Epoch: has.epoch, Seen: has.version,
		Since: has.version}
	for name, messages := range w.load[id] {
		if messages > 0 {
			second := wire.Second{At: int64(w.now / time.Second), Messages: messages, Used: wire.Unit}
			if w.delivery != nil {
				second.Delivery = w.delivery(name)
			}
			said.Topics = append(said.Topics, wire.TopicReport{Topic: name, Seconds: []wire.Second{second}})
		}
	}
	var heard wire.Report
	began := time.Now()
	w.over(said, &heard)
	if err := heard.Check(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.Report(w.now, heard); err != nil {
		w.t.Fatal(err)
	}
	given, _ := w.c.Orders(w.now, id, heard.Since)
	var orders wire.Orders
	w.over(given, &orders)
	w.spent["reports"] += time.Since(began)
	if orders.Since == 0 {
		w.whole++
	}
	if _, right := orders.Onto(has.epoch, has.version, has.topics); !right {
		w.t.Fatal("changes of other orders")
	}
	has.epoch, has.version = orders.Epoch, orders.Version
}

func (w *crowd) reports() {
	for n := range w.brokers {
		if id := fmt.Sprint("b", n); !w.lost[id] {
			w.report(id)
		}
	}
	for name := range w.c.Unsaved() {
		w.c.Saved(name)
	}
}

// asks is what publishers do: each asks, and goes where it is told.
func (w *crowd) asks() {
	for n := range w.topics {
		name := fmt.Sprint("t", n)
		for p := range w.each {
			who := [2]int{n, p}
			if w.away[who] {
				continue
			}
			at := w.at[who]
			a, err := w.c.Assign(w.now, wire.Ask{Topic: name, Publisher: fmt.Sprint("p", p), At: at})
			if err != nil {
				w.t.Fatal(err)
			}
			if at == a.Broker {
				continue
			}
			if at != "" {
				w.load[at][name] -= 10
				w.moves++
				w.moved[n]++
			}
			if w.load[a.Broker] == nil {
				w.load[a.Broker] = map[string]uint64{}
			}
			w.load[a.Broker][name] += 10
			w.at[who] = a.Broker
		}
	}
}

// run lets seconds pass, with ten ticks each, as a distributor has them.
func (w *crowd) run(seconds int) {
	for range seconds {
		w.now += 100 * time.Millisecond
		w.reports()
		for range 9 {
			w.clock("ticks", func() { w.c.Tick(w.now) })
			w.now += 100 * time.Millisecond
		}
		w.clock("ticks", func() { w.c.Tick(w.now) })
		w.clock("publishers", w.asks)
		w.clock("status", func() { w.c.Status(w.now) })
	}
}

// tell prints what that took, a second, and begins anew.
func (w *crowd) tell(what string, seconds int) {
	fmt.Printf("control: %d brokers, %d topics, %d publishers: %s, a second:", w.brokers, w.topics, w.topics*w.each, what)
	for _, name := range slices.Sorted(maps.Keys(w.spent)) {
		fmt.Printf(" %s %v,", name, (w.spent[name] / time.Duration(seconds)).Round(time.Millisecond))
	}
	fmt.Printf(" %d KiB, %.1f whole orders; the longest tick %v; %d moves\n", w.bytes/1024/seconds,
		float64(w.whole)/float64(seconds),
		w.longest.Round(time.Millisecond), w.moves)
	w.spent, w.bytes, w.whole, w.longest, w.moves = map[string]time.Duration{}, 0, 0, 0, 0
}

// fullest is how much of its capacity the fullest broker has.
func (w *crowd) fullest() (most float64) {
	for _, b := range w.c.Status(w.now).Brokers {
		most = max(most, b.Assigned/b.Capacity)
	}
	return most
}

// flow says that every topic's publishers are at brokers that have a share of it in force, and that shares are no more
// than the whole.
func (w *crowd) flow(when string) {
	w.t.Helper()
	for who, id := range w.at {
		if order := w.has[id].topics[fmt.Sprint("t", who[0])]; order.Rate == 0 || order.Depth < wire.Unit || w.lost[id] {
			w.t.Fatalf("%s: publisher %v is at %s, which has %v of its topic", when, who, id, order.Share)
		}
	}
	for name, t := range w.c.topics {
		var sum wire.Share
		for id, has := range w.has {
			if order := has.topics[name]; !w.lost[id] {
				sum.Rate, sum.Depth = sum.Rate+order.Rate, sum.Depth+order.Depth
			}
		}
		if sum.Rate > t.spec.Rate || sum.Depth > t.spec.Depth {
			w.t.Fatalf("%s: %s: shares of %v in force are more than %v", when, name, sum, t.spec.Share)
		}
	}
	if most := w.fullest(); most > 1 {
		w.t.Fatalf("%s: a broker has %.2f of its capacity", when, most)
	}
}

func newCrowd(t *testing.T, brokers, topics int) *crowd {
	return &crowd{t: t, brokers: brokers, topics: topics, each: 10, capacity: 20_000, has: map[string]*ordered{},
		at: map[[2]int]string{}, moved: map[int]int{},
		away: map[[2]int]bool{}, load: map[string]map[string]uint64{}, lost: map[string]bool{}, spent: map[string]time.Duration{}}
}

// put makes all topics.
func (w *crowd) put() {
	w.clock("topics", func() {
		for n := range w.topics {
			spec := wire.Topic{Name: fmt.Sprint("t", n), Share: wire.Share{Rate: 200 * wire.Unit, Depth: 20 * wire.Unit}, Percentile: .99, Objective: time.Second, Each: 10}
			if err := w.c.Put(w.now, spec); err != nil {
				w.t.Fatal(err)
			}
		}
	})
}

// A distributor of 100 brokers, 10,000 topics and 100,000 publishers (a tenth of each without GIUSTO_SOAK=1): a first
// plan for all of it; rest, in which no publisher moves and reports and ticks are cheap; a takeover, in which none
// moves either; and the loss of a broker, whose publishers, and no others, go elsewhere.
func TestManyTopicsArePlanned(t *testing.T) {
	w := newCrowd(t, 10, 1000)
	if os.Getenv("GIUSTO_SOAK") == "1" {
		w.brokers, w.topics = 100, 10_000
	}
	settings := Defaults()
	settings.Round, settings.Calm, settings.Prepare = time.Second, 0, 10*time.Second
	w.c = New(settings, 0, 1, nil)
	w.reports()
	w.put()
	w.reports()
	w.run(1)
	w.tell("first", 1)
	w.run(10)
	w.tell("planning", 10)
	w.flow("planned")
	w.run(20)
	moved := w.moves
	w.tell("rest", 20)
	w.flow("rest")
	if moved > 0 || len(w.at) != w.topics*w.each {
		t.Errorf("%d moves at rest; %d publishers are somewhere", moved, len(w.at))
	}

	// Another leads, from what was saved.
	for name := range w.c.topics {
		w.c.unsaved[name] = true
	}
	w.c.unsaved[Leased] = true
	var saved []Record
	w.over(slices.Collect(maps.Values(w.c.Unsaved())), &saved)
	w.bytes = 0
	w.clock("takeover", func() { w.c = New(settings, w.now, w.c.epoch+1, saved) })
	for n := range 20 {
		w.run(1)
		if n == 0 {
			w.tell("takeover", 1)
		}
		w.flow("takeover")
	}
	moved = w.moves
	w.tell("after a takeover", 19)
	if moved > 0 {
		t.Errorf("%d moves after a takeover", moved)
	}

	// A broker is lost: its publishers move, each once, and their topics have their whole bucket again after its lease.
	there := 0
	for _, at := range w.at {
		if at == "b0" {
			there++
		}
	}
	w.lost["b0"] = true
	w.run(15)
	moved = w.moves
	w.tell("a broker is lost", 15)
	w.flow("a broker is lost")
	if there == 0 || moved < there || moved > 3*there {
		t.Errorf("%d moves of the %d publishers of a lost broker", moved, there)
	}
	for name, one := range w.c.topics {
		if !one.book.Settled() || one.book.Offers[w.c.brokers["b0"].holder] != nil {
			t.Fatalf("%s: %v", name, one.book.Offers)
		}
	}
}
