// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// waits checks that no broker has a share of a topic for so long, and that all of it is given out soon after.
func (p *plant) waits(topic string, length time.Duration) {
	p.t.Helper()
	for end := p.now + length; p.now < end; {
		p.run(time.Second)
		if got := p.shared(topic); got.Rate > 0 {
			p.t.Fatal(p.now, "a share while a broker may let it pass by older orders", got)
		}
	}
	p.run(time.Minute)
	if got := p.shared(topic); got != p.c.topics[topic].spec.Share {
		p.t.Error(p.now, "long after:", got)
	}
}

// A broker that holds no share, with orders of the leader before, lets a new topic pass that it does not know of: no other
// broker gets a share before its lease is over.
func TestABrokerThatHoldsNothingIsWaitedFor(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.run(5 * time.Second)
	p.cut("a")
	p.takeover(2 * time.Minute)
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(5 * time.Second)
	p.takeover(2 * time.Minute) // and the next leader waits, too
	p.waits("alarms", 2*time.Minute)
}

// An answer that is lost takes nothing of the longer lease that an earlier leader gave.
func TestALostAnswerShortensNoLease(t *testing.T) {
	p := newPlant(t, func(s *Settings) { s.Lease = 5 * time.Minute }, map[string]float64{"a": 5000})
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(30 * time.Second)
	p.takeover(time.Minute)
	o := p.cut("a")
	p.c.Report(p.now, wire.Report{Broker: "a", Incarnation: "i", V2: "a:4150", Epoch: o.Epoch, Seen: o.Version})
	p.c.Orders(p.now, "a", 0)
	p.takes["b"] = 5000
	p.waits("alarms", 5*time.Minute)
}

// Leases that a leader gave without any other change are known to the next.
func TestALongerLeaseIsSaved(t *testing.T) {
	p := newPlant(t, func(s *Settings) { s.Lease = time.Minute }, map[string]float64{"a": 5000})
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(30 * time.Second)
	p.takeover(5 * time.Minute)
	p.run(30 * time.Second)
	p.takeover(time.Minute)
	p.cut("a")
	p.takes["b"] = 5000
	p.run(10 * time.Second)
	p.takeover(time.Minute)
	p.waits("alarms", 5*time.Minute-15*time.Second)
}

// A broker that only a topic's book names at a takeover is known to the next leader, too, when the topic is no more.
func TestWhoComesBackAfterATakeoverIsWaitedFor(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000})
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(30 * time.Second)
	o := p.cut("a")
	p.run(3 * time.Minute)
	p.takeover(2 * time.Minute)
	p.takes["a"], p.seen["a"] = 5000, o
	p.run(10 * time.Second)
	p.c.Remove(p.now, "alarms")
	p.run(5 * time.Second)
	p.takeover(2 * time.Minute)
	p.cut("a")
	p.takes["b"] = 5000
	p.put(topicOf("alarms", 900, 40), 5)
	p.waits("alarms", 2*time.Minute)
}

// A topic that was removed, and whose shares ended after a takeover, begins anew when it is put again.
func TestARemovedTopicComesBackWithItsNewBucketAlone(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(30 * time.Second)
	p.c.Remove(p.now, "alarms")
	p.takeover(2 * time.Minute)
	p.run(10 * time.Second)
	delete(p.most, "alarms")
	p.put(topicOf("alarms", 10, 5), 5)
	p.run(time.Minute) // which sees that no more is in force
	if got := p.shared("alarms"); got != p.c.topics["alarms"].spec.Share {
		t.Error(got)
	}
}

// A broker that was forgotten gets orders that are newer than those it had.
func TestABrokerThatWasForgottenComesBack(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.c.forgotten = 5 * time.Minute
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(30 * time.Second)
	had := map[string]wire.Orders{}
	for id := range p.takes {
		had[id] = p.cut(id)
	}
	p.run(10 * time.Minute)
	if len(p.c.brokers) > 0 {
		t.Fatal("not forgotten")
	}
	for id, o := range had {
		p.c.Report(p.now, wire.Report{Broker: id, Incarnation: "i", V2: id + ":4150", Epoch: o.Epoch, Seen: o.Version})
		if next, _ := p.c.Orders(p.now, id, 0); next.Version <= o.Version {
			t.Errorf("%s has seen %d, and gets %d", id, o.Version, next.Version)
		}
	}
}

// While a broker may not know of a topic that was removed and put again, those that had a share of it are told to hold it.
func TestWhatIsPutAgainHasNoShareOfBefore(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("alarms", 900, 40), 5)
	p.run(30 * time.Second)
	for id := range p.takes {
		if load := p.load("alarms", id); load == 0 {
			p.cut(id)
		}
	}
	p.c.Remove(p.now, "alarms")
	delete(p.most, "alarms")
	p.put(topicOf("alarms", 10, 5), 5)
	p.waits("alarms", 2*time.Minute)
}

// report is what an incarnation of a broker says after a while, and what it is answered.
func (p *plant) report(id, incarnation string, o wire.Orders) wire.Orders {
	p.t.Helper()
	p.run(6 * time.Second)
	if err := p.c.Report(p.now, wire.Report{Broker: id, Incarnation: incarnation, V2: id + ":4150", Epoch: o.Epoch, Seen: o.Version}); err != nil {
		p.t.Fatal(err)
	}
	next, _ := p.c.Orders(p.now, id, 0)
	return next
}

// Two brokers of one name: what the first saw before the second came does not count as knowing of a topic.
func TestABrokerThatWasReplacedIsWaitedFor(t *testing.T) {
	p := newPlant(t, nil, map[string]float64{"a": 5000, "b": 5000})
	p.put(topicOf("other", 900, 40), 5)
	p.run(30 * time.Second)
	o := p.cut("a")
	second := p.report("a", "second", wire.Orders{})
	p.put(topicOf("alarms", 900, 40), 5)
	p.report("a", "second", p.report("a", "second", second))
	p.report("a", "i", o) // and the answer is lost
	p.waits("alarms", 2*time.Minute)
}
