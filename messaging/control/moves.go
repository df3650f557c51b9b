// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"time"

	"giusto.dev/messaging/wire"
)

// Why a publisher cannot be told where to send.
var (
	ErrTopic   = errors.New("no such topic here")
	ErrBrokers = errors.New("no broker is there that may take publishers")
	ErrMany    = errors.New("the topic has as many publishers as there may be")
)

// most publishers of a topic.
const most = 1 << 18

// Assign answers a publisher: where to send now. It counts as one of the topic from then on.
func (c *Control) Assign(now time.Duration, a wire.Ask) (wire.Assignment, error) {
	c.advance(now)
	t := c.topics[a.Topic]
	if t == nil || t.spec.Requests {
		return wire.Assignment{}, ErrTopic
	}
	if c.brokers[a.At] == nil && !c.young() {
		a.At = "" // no such broker is known
	}
	p := t.publishers[a.Publisher]
	if p == nil && len(t.publishers) >= most {
		return wire.Assignment{}, ErrMany
	}
	if p == nil {
		p = t.add(a.Publisher)
		p.version = c.epoch << 20 // exact as a double, too: JSON numbers are in some languages
	}
	p.asked, p.group = now, a.Group
	rate := a.Rate
	if !(rate > 0) {
		rate = max(t.spec.Each, 1e-9)
	}
	rate = min(rate, float64(t.spec.Rate)/wire.Unit)
	if a.At != p.at {
		t.moved, t.resting = now, false
	}
	told := p.told
	switch {
	case a.At == "":
	case told == "" && (c.alive(c.brokers[a.At]) || c.young() && c.brokers[a.At] == nil):
		told, p.to = a.At, a.At // an earlier leader sent it there
	case a.At != told && now-p.toldAt > c.settings.Move && c.alive(c.brokers[a.At]):
		told, p.to = a.At, a.At // it did not get there
		p.version++
	}
	t.set(p, a.At, told, rate)
	if !t.gather && t.grown() {
		t.changed(now)
	}
	switch {
	case a.Failed != "":
		p.shun(a.Failed, now, c.settings.Move)
	case a.At != "" && a.At == p.avoid: // it has reached it
		p.avoid, p.failures = "", 0
	}
	if p.told == "" || p.told == p.avoid && now < p.until || c.brokers[p.told] == nil && !c.young() {
		if to := c.place(t, p); to != "" && to != p.told {
			p.to, p.wished = to, now
			c.tell(t, p)
		}
	}
	b := c.brokers[p.told]
	if b == nil && p.told != "" {
		return wire.Assignment{Broker: p.told, Version: p.version}, nil // which has not reported to this leader yet
	}
	if b == nil {
		return wire.Assignment{}, ErrBrokers
	}
	return wire.Assignment{Broker: b.id, V2: b.v2, HTTP: b.http, Version: p.version}, nil
}

// shun keeps a publisher from a broker that it could not reach, for `pause`, and twice as long each time that it fails again.
func (p *publisher) shun(id string, now, pause time.Duration) {
	switch {
	case id != p.avoid:
		p.failures = 0
	case now < p.until: // it tells the same failure again
		return
	}
	p.avoid, p.until = id, now+pause<<min(p.failures, 8)
	p.failures++
}

// young: brokers may not have found this leader yet.
func (c *Control) young() bool { return c.now-c.began < c.settings.Silent }

// tell gives a publisher its new broker.
func (c *Control) tell(t *topic, p *publisher) {
	t.set(p, p.at, p.to, p.rate)
	t.resting = false
	p.toldAt, t.moved = c.now, c.now
	p.version++
	c.news.publishers[t.spec.Name+"/"+p.id] = true
}

// place finds a broker in haste: one in use with room, else the one with most room.
func (c *Control) place(t *topic, p *publisher) string {
	loads := c.loads(t)
	best, most := "", 0.0
	for _, b := range c.candidates(t) {
		if b.ID == p.avoid && c.now < p.until {
			continue
		}
		room := b.Capacity - b.Existing - loads[b.ID]
		if loads[b.ID] > 0 && room >= p.rate {
			room += 1e12
		}
		if best == "" || room > most {
			best, most = b.ID, room
		}
	}
	return best
}

// starved: go-nsq, whose connections have an RDY of MaxInFlight together, gives a new one an RDY of 0 where the others
// have all of it, and tries again after 5 s. A consumer that takes nothing for longer is paused, or has fewer messages
// than brokers: it is not waited for.
const starved = 8 * time.Second

// ready says whether publishers may come to a broker: it has a share in force, and consumers of every channel, which
// take messages.
func (c *Control) ready(t *topic, id string) bool {
	b := c.brokers[id]
	if !c.alive(b) {
		return false
	}
	offers := t.book.Offers[b.holder]
	if len(offers) == 0 || offers[0].Depth == 0 {
		return false
	}
	has := 0
	if s := t.stats[id]; s != nil {
		if has = len(s.ready); s.unready > 0 && c.now-s.unready < starved {
			return false
		}
	}
	return has >= len(c.consumed[t.spec.Name])
}

// forget drops publishers that do not ask any more. Those that could not reach a broker may be sent there again after a while:
// they do not stay apart from the others for ever.
func (c *Control) forget(t *topic) {
	again := false
	for _, p := range t.publishers {
		if c.now-p.asked > c.settings.Gone {
			t.drop(p)
		}
		if p.until > 0 && c.now >= p.until {
			p.until = 0
			again = again || p.failures > 0 && len(t.load) > 1
		}
	}
	if !t.gather && (again || t.grown()) {
		t.changed(c.now)
	}
}

// gone says whether a broker is silent, which is none that this leader may only not have heard of yet.
func (c *Control) gone(id string) bool {
	b := c.brokers[id]
	return id != "" && !c.alive(b) && !(b == nil && c.young())
}

// fail sends publishers away from brokers that are silent, at once; none is to go there any more.
func (c *Control) fail(t *topic) {
	for _, id := range t.names {
		p := t.publishers[id]
		if p.to != p.told && c.gone(p.to) {
			p.to = p.told
			t.changed(c.now)
		}
		if !c.gone(p.told) {
			continue
		}
		p.avoid, p.until, p.failures = p.told, c.now+c.settings.Silent, 0
		if to := c.place(t, p); to != "" && to != p.told {
			p.to, p.wished = to, c.now
			c.tell(t, p)
			t.changed(c.now)
		}
	}
}

// move tells publishers to go where they are to be, as many at once as the wave allows. A broker that does not become ready
// gets none: they stay.
func (c *Control) move(t *topic) {
	flying, largest, wished := 0.0, 0.0, false
	for _, p := range t.publishers {
		largest = max(largest, p.rate)
		wished = wished || p.to != p.told && p.to != ""
		if p.at != p.told && c.now-p.toldAt < c.settings.Move {
			flying += p.rate
		}
	}
	if wished || len(t.wished) > 0 {
		defer c.wish(t)
	}
	if !wished {
		return
	}
	limit := max(wave*t.rate, largest)
	readiness := map[string]bool{}
	loads := c.loads(t)
	for _, id := range t.names {
		p := t.publishers[id]
		if p.to == p.told || p.to == "" {
			continue
		}
		able, known := readiness[p.to]
		if !known {
			able = c.ready(t, p.to)
			readiness[p.to] = able
		}
		// Others leave first where there is no room. Two brokers that wait for each other would for ever: after a
		// while a wave more has room.
		room := true
		if able {
			b, more := c.brokers[p.to], 1e-9
			if c.now-p.wished > c.settings.Move {
				more = limit
			}
			room = loads[p.to]+p.rate <= b.capacity-c.existing(p.to, t)+more
		}
		switch {
		case able && !room && c.now-p.wished > c.settings.Prepare: // others have come, or do not leave
			t.note = p.to + " has no room for publishers that were to move there"
			p.to, t.stuck = p.told, true
			t.rest = c.now + 10*c.settings.Round
		case able && !room:
		case able && (flying == 0 || flying+p.rate <= limit*(1+1e-9)):
			flying += p.rate
			loads[p.to] += p.rate
			c.tell(t, p)
		case !able && c.now-p.wished > c.settings.Prepare:
			t.note = p.to + " did not become ready: it has no share (a bucket needs a token more than there are brokers while publishers move), or no consumer of a channel that others have"
			p.to, t.stuck = p.told, true
			t.rest = c.now + 10*c.settings.Round
		}
	}
}

// still says that no publisher is moving any more, or that each had enough time.
func (c *Control) still(t *topic) bool {
	for _, p := range t.publishers {
		if p.to != p.told || p.at != p.told && c.now-p.toldAt < c.settings.Move {
			return false
		}
	}
	return true
}
