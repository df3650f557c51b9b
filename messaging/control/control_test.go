// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

// plant is brokers that do what they are told, and publishers that go where they are told, at once. A broker's tail is 1 ms a message a second for
// each that is beyond what it can take in truth.
type plant struct {
	t                 *testing.T
	c                 *Control
	now               time.Duration
	takes             map[string]float64 // in truth; a broker that is not there is silent
	own               map[string]float64 // of publishers that follow nothing, at topic "alarms"
	seen              map[string]wire.Orders
	at                map[string]map[string]string // topic, publisher: broker
	rates             map[string]float64           // of publishers of a topic
	watched, onlooker string                       // a broker, and a channel that only it has
	unready           string                       // a broker whose consumers take nothing
	heard             map[string]time.Duration
	most              map[string]wire.Share // that the topic's bucket ever was
	saved             map[string][]byte
}

func newPlant(t *testing.T, change func(*Settings), takes map[string]float64) *plant {
	s := Defaults()
	s.Lease, s.Silent = 2*time.Minute, 5*time.Second
	s.Capacity, s.Round = 1000, 5*time.Second
	if change != nil {
		change(&s)
	}
	return &plant{t: t, c: New(s, 0, 1, nil), takes: takes, own: map[string]float64{}, seen: map[string]wire.Orders{},
		at: map[string]map[string]string{}, rates: map[string]float64{}, most: map[string]wire.Share{}, heard: map[string]time.Duration{}, saved: map[string][]byte{}}
}

func topicOf(name string, rate, depth float64) wire.Topic {
	share := wire.Share{Rate: uint64(rate * wire.Unit), Depth: uint64(depth * wire.Unit)}
	return wire.Topic{Name: name, Share: share, Percentile: 0.99, Objective: 20 * time.Millisecond, Each: 10}
}

func (p *plant) put(spec wire.Topic, publishers int) {
	p.t.Helper()
	if err := p.c.Put(p.now, spec); err != nil {
		p.t.Fatal(err)
	}
	p.most[spec.Name] = wire.Share{Rate: max(p.most[spec.Name].Rate, spec.Rate), Depth: max(p.most[spec.Name].Depth, spec.Depth)}
	if p.at[spec.Name] == nil {
		p.at[spec.Name], p.rates[spec.Name] = map[string]string{}, spec.Each
	}
	for n := len(p.at[spec.Name]); n < publishers; n++ {
		p.at[spec.Name][fmt.Sprintf("p%04d", n)] = ""
	}
}

func (p *plant) load(topic, id string) (sum float64) {
	for _, at := range p.at[topic] {
		if at == id {
			sum += p.rates[topic]
		}
	}
	if topic == "alarms" {
		sum += p.own[id]
	}
	return sum
}

func (p *plant) total(id string) (sum float64) {
	for topic := range p.at {
		sum += p.load(topic, id)
	}
	return sum
}

func (p *plant) run(d time.Duration) {
	p.t.Helper()
	for end := p.now + d; p.now < end; p.now += 100 * time.Millisecond {
		second := p.now/time.Second != (p.now-100*time.Millisecond)/time.Second
		for _, id := range slices.Sorted(maps.Keys(p.takes)) {
			o := p.seen[id]
			r := wire.Report{Broker: id, Incarnation: "i", V2: id + ":4150", Epoch: o.Epoch, Seen: o.Version}
			for topic := range p.at {
				told := wire.TopicReport{Topic: topic, Ready: []string{"c"}}
				if id == p.watched {
					told.Ready = append(told.Ready, p.onlooker)
				}
				if id == p.unready {
					told.Unready = []string{"c"}
				}
				if load := p.load(topic, id); second {
					tail := time.Millisecond + time.Duration(max(0, p.total(id)-p.takes[id])*1e6)
					own := uint64(0)
					if topic == "alarms" {
						own = uint64(p.own[id])
					}
					told.Seconds = []wire.Second{{At: int64(p.now / time.Second), Messages: uint64(load), Unmanaged: own, Used: wire.Unit,
						Delivery: wire.Histogram{wire.Bin(tail): uint64(load)}}}
				}
				r.Topics = append(r.Topics, told)
			}
			if err := p.c.Report(p.now, r); err != nil {
				p.t.Fatal(err)
			}
			p.seen[id], _ = p.c.Orders(p.now, id, 0)
			p.heard[id] = p.now
		}
		for topic, publishers := range p.at {
			for _, id := range slices.Sorted(maps.Keys(publishers)) {
				a, err := p.c.Assign(p.now, wire.Ask{Topic: topic, Publisher: id, At: publishers[id]})
				if err == nil {
					publishers[id] = a.Broker
				}
			}
		}
		p.c.Tick(p.now)
		p.save()
		for name := range p.c.topics {
			var sum wire.Share
			for id, o := range p.seen {
				if p.now-p.heard[id] > o.Lease {
					continue
				}
				for _, order := range o.Topics {
					if order.Topic == name {
						sum.Rate, sum.Depth = sum.Rate+order.Rate, sum.Depth+order.Depth
					}
				}
			}
			if sum.Rate > p.most[name].Rate || sum.Depth > p.most[name].Depth {
				p.t.Fatalf("%v: %s: %v in force of %v", p.now, name, sum, p.most[name])
			}
		}
	}
}

// save keeps what must be kept before orders leave; here it is in time.
func (p *plant) save() {
	for name, r := range p.c.Unsaved() {
		if delete(p.saved, name); r != nil {
			p.saved[name], _ = json.Marshal(r)
		}
		p.c.Saved(name)
	}
}

func (p *plant) loads(topic string) map[string]float64 {
	found := map[string]float64{}
	for id := range p.takes {
		if load := p.load(topic, id); load > 0 {
			found[id] = load
		}
	}
	return found
}

func (p *plant) steady(topic string) {
	p.t.Helper()
	for _, status := range p.c.Status(p.now).Topics {
		if status.Name != topic {
			continue
		}
		if status.Phase != "steady" || status.Note != "" {
			p.t.Fatalf("%s is %s: %s", topic, status.Phase, status.Note)
		}
		for _, share := range status.Shares {
			if share.Assigned > 0 && (!share.InForce || share.Rate < share.Assigned) {
				p.t.Errorf("%s: %+v", topic, share)
			}
		}
	}
}

// A topic goes to as few brokers as have room, and what one of them cannot take in truth is found and goes elsewhere.
func TestFewestBrokersThatKeepThePromise(t *testing.T) {
	for truth, brokers := range map[float64]int{5000: 2, 600: 3, 420: 4} {
		p := newPlant(t, nil, map[string]float64{"a": truth, "b": truth, "c": truth, "d": truth})
		p.put(topicOf("alarms", 1650, 40), 150)
		p.run(4 * time.Minute)
		p.steady("alarms")
		loads := p.loads("alarms")
		if len(loads) != brokers {
			t.Errorf("%v messages a second in truth: %v", truth, loads)
		}
		for id, load := range loads {
			if load > truth+20 {
				t.Errorf("%s has %v, and can take %v", id, load, truth)
			}
		}
	}
}

// Brokers that can take 60 %, or 15 %, of what they say: none is sent more than it says at any time, and where no
// plan is found publishers are left alone more and more.
func TestOverloadMovesFewAndFillsNoBroker(t *testing.T) {
	for truth, most := range map[float64]int{600: 400, 150: 2000} {
		takes := map[string]float64{}
		for n := range 8 {
			takes[fmt.Sprint("b", n)] = truth
		}
		p := newPlant(t, nil, takes)
		spec := topicOf("alarms", 3300, 80)
		spec.Each = 30
		p.put(spec, 100)
		moves, before := 0, map[string]string{}
		for range 20 * 60 {
			p.run(time.Second)
			for id := range takes {
				if load := p.load("alarms", id); load > 1150 { // a wave is on its way
					t.Fatalf("%v: %s has %v messages a second, and says that it can take 1000", p.now, id, load)
				}
			}
			for id, at := range p.at["alarms"] {
				if before[id] != at && before[id] != "" {
					moves++
				}
				before[id] = at
			}
		}
		fmt.Printf("distributor: brokers that can take %v of 1000: %d moves of 100 publishers in 20 minutes\n", truth, moves)
		if moves > most {
			t.Errorf("%d moves of 100 publishers", moves)
		}
	}
}

// A model that is right needs one measurement; one that is wrong by half is corrected.
func TestAModelSavesRounds(t *testing.T) {
	for wrong, rounds := range map[float64]int{1: 1, 0.7: 5} {
		truth := 400.0
		model := func(wire.Topic, []distribute.Publisher) distribute.Predict {
			return func(b distribute.Broker, publishers []distribute.Publisher, _ float64) float64 {
				return wrong * (0.001 + max(0, float64(10*len(publishers))-truth)/1000)
			}
		}
		p := newPlant(t, func(s *Settings) { s.Model = model }, map[string]float64{"a": truth, "b": truth, "c": truth, "d": truth})
		p.put(topicOf("alarms", 1650, 40), 150)
		p.run(4 * time.Minute)
		p.steady("alarms")
		if got := p.c.Status(p.now).Topics[0].Rounds; got == 0 || got > rounds {
			t.Errorf("a model that tells %v times the truth: %d rounds", wrong, got)
		}
	}
}

// Publishers that come later, a broker that cannot take any more what it could, one that falls silent, and one that is not the distributor's.
func TestABrokerThatIsTooSlowShedsPublishers(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 900, "b": 900, "c": 900})
	p.put(topicOf("alarms", 1100, 40), 50)
	p.run(time.Minute)
	if loads := p.loads("alarms"); len(loads) != 1 {
		t.Error(loads)
	}
	p.put(topicOf("alarms", 1100, 40), 80)
	p.run(time.Minute)
	p.steady("alarms")
	for id := range p.loads("alarms") {
		p.takes[id] = 300
	}
	p.run(4 * time.Minute)
	p.steady("alarms")
	for id, load := range p.loads("alarms") {
		if load > p.takes[id]+20 {
			t.Errorf("%s has %v, and can take %v", id, load, p.takes[id])
		}
	}
	for id := range p.loads("alarms") {
		delete(p.takes, id)
		p.run(p.c.settings.Silent + time.Second)
		if load := p.load("alarms", id); load > 0 {
			t.Errorf("%s is silent, and has %v", id, load)
		}
		break
	}
	for id := range p.takes {
		p.own[id] = 100
		p.run(2 * time.Minute)
		if loads := p.loads("alarms"); loads[id] < 100 {
			t.Error(loads)
		}
		share := p.seen[id].Topics[0].Share
		if float64(share.Rate)/wire.Unit < 90 {
			t.Errorf("%s has 100 messages a second of others, and a share of %.1f", id, float64(share.Rate)/wire.Unit)
		}
		break
	}
}

// When another topic leaves, there is room on fewer brokers.
func TestARoomThatIsFreeIsUsed(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("bulk", 1000, 40), 40)
	p.run(time.Minute)
	p.put(topicOf("more", 1000, 40), 60)
	p.run(time.Minute)
	p.put(topicOf("alarms", 900, 40), 70)
	p.run(time.Minute)
	if loads := p.loads("alarms"); len(loads) != 2 {
		t.Fatal(loads)
	}
	p.c.Remove(p.now, "bulk")
	delete(p.at, "bulk")
	p.c.Remove(p.now, "more")
	delete(p.at, "more")
	p.run(time.Minute)
	if loads := p.loads("alarms"); len(loads) != 1 {
		t.Error(loads)
	}
	p.steady("alarms")
}

// A broker that is drained has no publishers in the end, and they come back when it is not drained any more and is needed.
func TestABrokerIsDrained(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 70)
	p.run(time.Minute)
	for id := range p.loads("alarms") {
		if !p.c.Drain(p.now, id, true) {
			t.Error("unknown", id)
		}
		var record Record
		for _, r := range p.c.Unsaved() {
			if r != nil && len(r.Drained) > 0 {
				record = *r
			}
		}
		if next := New(Defaults(), p.now, 2, []Record{record}); !next.drained[id] {
			t.Error("a later leader does not know")
		}
		p.run(time.Minute)
		if load := p.load("alarms", id); load > 0 {
			t.Errorf("%s is drained, and has %v", id, load)
		}
		p.c.Drain(p.now, id, false)
	}
	p.steady("alarms")
	p.put(topicOf("alarms", 1700, 40), 140)
	p.run(time.Minute)
	if loads := p.loads("alarms"); len(loads) != 2 {
		t.Error(loads)
	}
}

// Another bucket takes effect, and one without a token for each broker is refused.
func TestABucketIsNegotiatedAnew(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 2000, 40), 150)
	p.run(time.Minute)
	if err := p.c.Put(p.now, topicOf("alarms", 1800, 1)); err == nil || !strings.Contains(err.Error(), "2 tokens") {
		t.Error(err)
	}
	p.put(topicOf("alarms", 1600, 10), 150)
	p.run(30 * time.Second)
	p.steady("alarms")
	var sum wire.Share
	for _, o := range p.seen {
		sum.Rate, sum.Depth = sum.Rate+o.Topics[0].Rate, sum.Depth+o.Topics[0].Depth
	}
	if sum != topicOf("alarms", 1600, 10).Share {
		t.Error(sum)
	}
}

// What would come of a topic is said before, or what is missing; nothing changes.
func TestATrialChangesNothing(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	before := fmt.Sprint(p.c.Status(p.now))
	many := func(count int) (publishers []distribute.Publisher) {
		for range count {
			publishers = append(publishers, distribute.Publisher{Rate: 10})
		}
		return publishers
	}
	proposal, err := p.c.Try(p.now, topicOf("more", 1500, 40), many(120))
	if err != nil || len(proposal.Shares) != 2 || proposal.Shares[0].Publishers+proposal.Shares[1].Publishers != 120 {
		t.Error(proposal, err)
	}
	if proposal, err := p.c.Try(p.now, topicOf("more", 9000, 40), many(300)); err != nil || proposal.Fits || !strings.Contains(proposal.Note, "1500 messages a second") {
		t.Error(proposal, err)
	}
	if proposal, err := p.c.Try(p.now, topicOf("more", 900, 40), many(100)); err != nil || proposal.Fits || !strings.Contains(proposal.Note, "lets 900 through") {
		t.Error(proposal, err)
	}
	if after := fmt.Sprint(p.c.Status(p.now)); after != before {
		t.Error(before, after)
	}
}
