// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"os"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// A distributor of 100 brokers, 10,000 topics and 100,000 publishers (a tenth of each without GIUSTO_SOAK=1): a
// first plan for all of it, and after it has
// settled no broker is above its capacity, all publishers are somewhere, and none moves any more.
func TestManyTopicsArePlanned(t *testing.T) {
	brokers, topics, each := 10, 1000, 10
	if os.Getenv("GIUSTO_SOAK") == "1" {
		brokers, topics = 100, 10_000
	}
	settings := Defaults()
	settings.Round, settings.Calm, settings.Prepare = time.Second, 0, 10*time.Second
	c := New(settings, 0, 1, nil)
	now := time.Duration(0)
	seen, moves := map[string]uint64{}, 0
	load := map[string]map[string]uint64{}
	type client struct{ at string }
	clients := map[string]*client{}
	report := func() {
		for n := range brokers {
			id := fmt.Sprint("b", n)
			r := wire.Report{Broker: id, Incarnation: "1", V2: id, Capacity: 20_000, Epoch: 1, Seen: seen[id]}
			for name, messages := range load[id] {
				r.Topics = append(r.Topics, wire.TopicReport{Topic: name, Seconds: []wire.Second{{At: int64(now / time.Second), Messages: messages, Used: wire.Unit}}})
			}
			if err := c.Report(now, r); err != nil {
				t.Fatal(err)
			}
			o, _ := c.Orders(now, id)
			seen[id] = o.Version
		}
		for name := range c.unsaved {
			c.Saved(name)
		}
	}
	spent, longest := map[string]time.Duration{}, time.Duration(0)
	clock := func(what string, do func()) {
		began := time.Now()
		do()
		took := time.Since(began)
		spent[what] += took
		if what == "ticks, a second" {
			longest = max(longest, took)
		}
	}
	second := func() {
		now += time.Second
		clock("reports, a second", report)
		for range 4 {
			now += time.Millisecond
			clock("ticks, a second", func() { c.Tick(now) })
		}
		clock("publishers, a second", func() {
			for n := range topics {
				for p := range each {
					id := fmt.Sprintf("p%d-%d", n, p)
					k := clients[id]
					if k == nil {
						k = &client{}
						clients[id] = k
					}
					a, err := c.Assign(now, wire.Ask{Topic: fmt.Sprint("t", n), Publisher: fmt.Sprint("p", p), At: k.at})
					if err != nil {
						t.Fatal(err)
					}
					if k.at == a.Broker {
						continue
					}
					name := fmt.Sprint("t", n)
					if k.at != "" {
						load[k.at][name] -= 10
						moves++
					}
					if load[a.Broker] == nil {
						load[a.Broker] = map[string]uint64{}
					}
					load[a.Broker][name] += 10
					k.at = a.Broker
				}
			}
		})
	}
	report()
	clock("topics", func() {
		for n := range topics {
			spec := wire.Topic{Name: fmt.Sprint("t", n), Share: wire.Share{Rate: 200 * wire.Unit, Depth: 20 * wire.Unit}, Percentile: .99, Objective: time.Second, Each: 10}
			if err := c.Put(now, spec); err != nil {
				t.Fatal(err)
			}
		}
	})
	report()
	second()
	fmt.Println("control: first second:", spent)
	clear(spent)
	for range 10 {
		second()
	}
	for what, took := range spent {
		fmt.Printf("control: %d brokers, %d topics, %d publishers: %s: %v\n", brokers, topics, topics*each, what, (took / 10).Round(time.Millisecond))
	}
	moved := moves
	for range 20 {
		second()
	}
	most := 0.0
	for _, b := range c.Status(now).Brokers {
		most = max(most, b.Assigned/b.Capacity)
	}
	fmt.Printf("control: the longest tick, in which most are planned: %v\n", longest.Round(time.Millisecond))
	fmt.Printf("control: %d moves, then %d in 20 s; the fullest broker has %.2f of its capacity\n", moved, moves-moved, most)
	if most > 1 || len(clients) != topics*each || moves > moved {
		t.Error("a broker is above its capacity, or publishers go on moving")
	}
}
