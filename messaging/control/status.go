// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

// BrokerStatus is how a broker stands.
type BrokerStatus struct {
	Broker   string  `json:"broker"`
	V2       string  `json:"v2"`
	HTTP     string  `json:"http"`
	Capacity float64 `json:"capacity"` // messages a second
	Rate     float64 `json:"rate"`     // of the publishers that are there or go there, of all topics
	Alive    bool    `json:"alive"`
}

// TopicStatus is how a topic stands.
type TopicStatus struct {
	wire.Topic
	// Phase is steady, moving or measuring; Note why the promise cannot be kept, if so.
	Phase      string  `json:"phase"`
	Note       string  `json:"note,omitempty"`
	Rounds     int     `json:"rounds"` // of measurement, in the last session
	Publishers int     `json:"publishers"`
	Rate       float64 `json:"rate_now"` // messages a second of its publishers
	Places     []Place `json:"brokers"`
}

// Place is a topic at a broker.
type Place struct {
	Broker     string        `json:"broker"`
	Publishers int           `json:"publishers"`
	Rate       float64       `json:"rate"`  // messages a second
	Share      wire.Share    `json:"share"` // that it was offered last
	InForce    bool          `json:"in_force"`
	Tail       time.Duration `json:"tail,omitempty"` // the promised percentile, when it was measured last
}

// Brokers are all that reported, by name.
func (c *Control) Brokers() []BrokerStatus {
	all := []BrokerStatus{}
	for _, id := range slices.Sorted(maps.Keys(c.brokers)) {
		b := c.brokers[id]
		all = append(all, BrokerStatus{id, b.v2, b.http, b.capacity, c.existing(id, nil), c.alive(b)})
	}
	return all
}

// Topics are all that there are, by name.
func (c *Control) Topics() []TopicStatus {
	all := []TopicStatus{}
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		t := c.topics[name]
		s := TopicStatus{Topic: t.spec, Phase: t.phase.String(), Note: t.note, Rounds: t.rounds, Publishers: len(t.publishers), Rate: t.rate, Places: []Place{}}
		for _, id := range slices.Sorted(maps.Keys(c.brokers)) {
			b := c.brokers[id]
			share, any := t.book.Current(b.holder())
			if at, publishers := t.load[id], t.load[id].publishers; any && share != (wire.Share{}) || publishers > 0 {
				s.Places = append(s.Places, Place{id, publishers, at.rate, share, t.book.InForce(b.holder()), t.tails[id]})
			}
		}
		all = append(all, s)
	}
	return all
}

// Behind says whether a broker has not the orders that it was sent last, or that there are newer ones.
func (c *Control) Behind(r wire.Report) bool {
	b := c.brokers[r.Broker]
	return b == nil || r.Epoch != c.epoch || r.Seen != b.sentNumber || b.number != b.sentNumber || c.news.brokers[r.Broker]
}

// Try says what Put would begin with, and changes nothing: where the publishers that there are would be, and why not all find room.
func (c *Control) Try(now time.Duration, spec wire.Topic) ([]Place, error) {
	c.advance(now)
	t := c.topics[spec.Name]
	if err := c.fits(t, spec); err != nil || t == nil {
		return nil, err
	}
	copied := *t
	copied.spec = spec
	publishers, _ := c.members(&copied)
	t.spec, copied.spec = spec, t.spec // candidates tells a topic by its place
	brokers := c.candidates(t)
	t.spec = copied.spec
	s := distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
	if c.settings.Model == nil || !s.Guess(c.settings.Model(spec), spec.Objective.Seconds()) {
		if err := s.Assign(); err != nil {
			return nil, err
		}
	}
	sum := map[string]*Place{}
	for n, id := range s.Plan() {
		if sum[id] == nil {
			sum[id] = &Place{Broker: id}
		}
		sum[id].Publishers++
		sum[id].Rate += publishers[n].Rate
	}
	var places []Place
	for _, id := range slices.Sorted(maps.Keys(sum)) {
		places = append(places, *sum[id])
	}
	return places, nil
}
