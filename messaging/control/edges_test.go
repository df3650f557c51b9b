// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// records are what is saved now.
func (p *plant) records() (saved []Record) {
	p.save()
	for _, text := range p.saved {
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			p.t.Fatal(err)
		}
		saved = append(saved, r)
	}
	return saved
}

// takeover makes another distributor lead.
func (p *plant) takeover(lease time.Duration) {
	s := p.c.settings
	s.Lease = lease
	p.c = New(s, p.now, p.c.epoch+1, p.records())
}

// cut leaves a broker with the orders that it has; shared is what the others then have in force.
func (p *plant) cut(id string) wire.Orders {
	orders := p.seen[id]
	delete(p.takes, id)
	delete(p.seen, id)
	return orders
}

func (p *plant) shared(topic string) (sum wire.Share) {
	for id := range p.takes {
		for _, o := range p.seen[id].Topics {
			if o.Topic == topic {
				sum.Rate, sum.Depth = sum.Rate+o.Rate, sum.Depth+o.Depth
			}
		}
	}
	return sum
}

func whole(o wire.Orders, topic string) bool {
	for _, order := range o.Topics {
		if order.Topic == topic {
			return order.Rate > 0
		}
	}
	return false
}

// A later leader with a shorter lease waits for the leases that the earlier one gave.
func TestALeaseIsThatOfWhoGaveIt(t *testing.T) {
	p := newPlant(t, func(s *Settings) { s.Lease = 10 * time.Minute }, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	for id := range p.loads("alarms") {
		if !whole(p.cut(id), "alarms") {
			t.Fatal("no share")
		}
	}
	s := p.c.settings
	s.Lease = time.Minute
	p.c = New(s, p.now, 2, p.records())
	p.run(5 * time.Minute)
	if got := p.shared("alarms"); got.Rate > 0 {
		t.Error("the other has a share while the first lease lasts", got)
	}
	p.run(6 * time.Minute)
	if got := p.shared("alarms"); got != p.c.topics["alarms"].spec.Share {
		t.Error("the lease is over, and the other has", got)
	}
}

// A topic that is removed and made again, or made while a broker with a lease is cut off, has shares only when no other can be in force,
// and a broker that does not know of it does not let it pass.
func TestWhatIsRemovedIsNotForgotten(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	for id := range p.loads("alarms") {
		p.cut(id)
	}
	p.run(6 * time.Second)
	p.c.Remove(p.now, "alarms")
	p.run(2 * time.Second)
	p.c = New(p.c.settings, p.now, 2, p.records())
	p.run(2 * time.Second)
	p.put(topicOf("alarms", 900, 40), 50)
	p.put(topicOf("other", 900, 40), 50)
	p.run(30 * time.Second)
	if got := p.shared("alarms"); got.Rate > 0 {
		t.Error("a share while another may be in force", got)
	}
	if got := p.shared("other"); got.Rate > 0 {
		t.Error("a share while a broker with a lease may not know of the topic", got)
	}
	p.run(p.c.settings.Lease + 10*time.Second)
	if got := p.shared("alarms"); got != p.c.topics["alarms"].spec.Share {
		t.Error("long after:", got)
	}
	if got := p.shared("other"); got != p.c.topics["other"].spec.Share {
		t.Error("long after:", got)
	}
	p.c.Remove(p.now, "alarms")
	delete(p.at, "alarms")
	p.run(2 * time.Second)
	if _, kept := p.saved["alarms"]; kept {
		t.Error("it is still kept")
	}
}

// A lease shorter than the time until a broker counts as silent does not make its share last for ever.
func TestAShareOfTheDeadComesBack(t *testing.T) {
	p := newPlant(t, func(s *Settings) { s.Lease = 4 * time.Second }, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	for id := range p.loads("alarms") {
		p.cut(id)
	}
	p.run(time.Minute)
	if got := p.shared("alarms"); got != p.c.topics["alarms"].spec.Share {
		t.Error(got)
	}
}

// A leader that did not run for a while does not treat all brokers as silent.
func TestAPauseOfTheLeaderIsNoSilenceOfBrokers(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000, "c": 5000})
	p.put(topicOf("alarms", 2700, 40), 250)
	p.run(time.Minute)
	before := p.loads("alarms")
	p.now += 8 * time.Second
	p.run(time.Second)
	if after := p.loads("alarms"); len(before) != 3 || len(after) != 3 {
		t.Error(before, after)
	}
}

// A new leader leaves shares as they are until it has heard of publishers.
func TestATakeoverTakesNoShareAway(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	p.c = New(p.c.settings, p.now, 2, p.records())
	publishers := p.at["alarms"]
	p.at["alarms"] = map[string]string{}
	p.own["a"], p.own["b"] = 0, 0
	for range 40 {
		p.run(100 * time.Millisecond)
		if got := p.shared("alarms"); got != p.c.topics["alarms"].spec.Share {
			t.Fatal(p.now, got)
		}
	}
	p.at["alarms"] = publishers
	p.run(time.Minute)
	p.steady("alarms")
}

// A topic that is refused is not made; rates that no publisher can send do not count.
func TestWhatIsRefusedIsNotMade(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000})
	huge := topicOf("alarms", 900, 40)
	huge.Rate = 1 << 53
	if err := p.c.Put(0, huge); err == nil || len(p.c.topics) > 0 {
		t.Error(err)
	}
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(10 * time.Second)
	if _, err := p.c.Assign(p.now, wire.Ask{Topic: "alarms", Publisher: "liar", Rate: 1e18, At: "bogus"}); err != nil {
		t.Error(err)
	}
	if got := p.c.topics["alarms"]; got.rate > 1400+1 || got.publishers["liar"].at != "" {
		t.Error(got.rate, got.publishers["liar"].at)
	}
}

// A broker that cannot be left, because the bucket has no token for another, is told of, and tried again.
func TestWhoCannotMoveIsToldOf(t *testing.T) {
	p := newPlant(t, func(s *Settings) { s.Prepare = 5 * time.Second }, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 1), 5)
	p.run(30 * time.Second)
	for id := range p.loads("alarms") {
		p.c.Drain(p.now, id, true)
	}
	p.run(30 * time.Second)
	if note := p.c.Status(p.now).Topics[0].Note; !strings.Contains(note, "a token more") {
		t.Errorf("%q", note)
	}
	p.put(topicOf("alarms", 900, 3), 5)
	p.run(3 * time.Minute)
	for id := range p.c.drained {
		if load := p.load("alarms", id); load > 0 {
			t.Errorf("%s is drained, and has %v", id, load)
		}
	}
	p.steady("alarms")
}

// An observer's ephemeral channel at one broker keeps no publisher from leaving that broker.
func TestAnOnlookerBlocksNoPublisher(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.onlooker = "tail17#ephemeral"
	p.run(30 * time.Second)
	for id := range p.loads("alarms") {
		p.watched = id
		p.run(5 * time.Second)
		p.c.Drain(p.now, id, true)
		p.leaves("alarms", id)
	}
}

// Publishers that leave a broker wait until consumers take messages at the other, but not for consumers that are paused.
func TestConsumersThatTakeNothingYetAreWaitedFor(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	for busy := range p.loads("alarms") {
		other := map[string]string{"a": "b", "b": "a"}[busy]
		p.unready = other
		p.c.Drain(p.now, busy, true)
		p.run(starved - time.Second)
		if load := p.load("alarms", other); load > 0 {
			t.Errorf("%s has %v, and its consumers take nothing", other, load)
		}
		p.leaves("alarms", busy)
	}
}

// leaves fails where, after half a minute, a topic still has messages at a broker that is drained.
func (p *plant) leaves(topic, id string) {
	p.t.Helper()
	p.run(30 * time.Second)
	if load := p.load(topic, id); load > 0 {
		p.t.Errorf("%s is drained, and has %v", id, load)
	}
}

// A topic that had no plan has one when a broker comes.
func TestABrokerThatComesEndsAWant(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("bulk", 1000, 40), 90)
	p.put(topicOf("more", 1000, 40), 90)
	p.run(time.Minute)
	p.put(topicOf("alarms", 900, 40), 50)
	p.run(30 * time.Second)
	if note := p.c.topics["alarms"].note; !strings.Contains(note, "no broker has room") {
		t.Fatalf("%q", note)
	}
	p.takes["c"] = 5000
	p.run(time.Minute)
	if load := p.load("alarms", "c"); load != 500 {
		t.Errorf("the broker that came has %v of 500", load)
	}
	p.steady("alarms")
}

// A broker that says that it leaves, or of which an operator says that it is dead, keeps nothing from others, and its
// publishers go at once. Its incarnation is not heard any more.
func TestABrokerThatHasEndedKeepsNothing(t *testing.T) {
	for _, how := range []string{"leaves", "dead"} {
		p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
		p.put(topicOf("alarms", 900, 40), 50)
		p.run(30 * time.Second)
		for id := range p.loads("alarms") {
			if !whole(p.cut(id), "alarms") {
				t.Fatal("no share")
			}
			if how == "dead" {
				if p.c.Dead(p.now, "c") || !p.c.Dead(p.now, id) {
					t.Error("not the brokers that there are")
				}
			} else if err := p.c.Report(p.now, wire.Report{Broker: id, Incarnation: "i", V2: id + ":4150", Leaves: true}); err != nil {
				t.Error(err)
			}
			p.run(300 * time.Millisecond)
			if got := p.shared("alarms"); got != p.c.topics["alarms"].spec.Share {
				t.Errorf("%s: the other has %v", how, got)
			}
			if load := p.load("alarms", id); load > 0 {
				t.Errorf("%s: %s still has %v", how, id, load)
			}
			if p.c.Report(p.now, wire.Report{Broker: id, Incarnation: "i", V2: id + ":4150"}) == nil {
				t.Errorf("%s: its report is taken", how)
			}
			if err := p.c.Report(p.now, wire.Report{Broker: id, Incarnation: "j", V2: id + ":4150"}); err != nil {
				t.Errorf("%s: another incarnation: %v", how, err)
			}
		}
	}
}

// Publishers that could not reach a broker which was away for a moment do not stay apart from the others when it is back.
func TestABrokerThatWasAwayGetsAllItsPublishersBack(t *testing.T) {
	for late := 200 * time.Millisecond; late < 12*time.Second; late += 700 * time.Millisecond {
		p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
		p.put(topicOf("alarms", 900, 40), 20)
		p.run(30 * time.Second)
		takes := p.takes
		p.takes = map[string]float64{}
		p.run(6 * time.Second)
		p.takes = takes
		p.run(late)
		for id := range p.loads("alarms") {
			a, err := p.c.Assign(p.now, wire.Ask{Topic: "alarms", Publisher: "p0000", At: id, Failed: id})
			if err != nil || a.Broker == id {
				t.Fatal("sent to a broker that it could not reach:", a, err)
			}
			p.at["alarms"]["p0000"] = a.Broker
		}
		p.run(time.Minute)
		if got := p.loads("alarms"); len(got) != 1 {
			t.Error("still at several brokers, told", late, "after it was back:", got)
		}
	}
}

// A publisher that can never reach a broker is sent there more and more seldom.
func TestWhoCannotReachABrokerIsLeftInPeace(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 20)
	p.run(30 * time.Second)
	before := p.loads("alarms")
	tried := 0
	for end := p.now + 2*time.Hour; p.now < end; {
		for id := range before {
			ask := wire.Ask{Topic: "alarms", Publisher: "p0000", At: p.at["alarms"]["p0000"]}
			if ask.At == id {
				tried++
				ask.At, ask.Failed = "", id
			}
			if a, err := p.c.Assign(p.now, ask); err == nil {
				p.at["alarms"]["p0000"] = a.Broker
			}
		}
		p.run(100 * time.Millisecond)
	}
	if tried < 5 || tried > 12 {
		t.Error("tried", tried, "times in two hours; expected after 10, 20, 40 s and so on, every 43 min at last")
	}
}
