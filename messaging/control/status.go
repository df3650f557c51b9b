// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

// Status is what an operator is told.
type Status struct {
	Epoch   uint64         `json:"epoch"`
	Brokers []BrokerStatus `json:"brokers"`
	Topics  []TopicStatus  `json:"topics"`
}

// BrokerStatus is one broker's.
type BrokerStatus struct {
	Broker   string        `json:"broker"`
	V2       string        `json:"v2"`
	HTTP     string        `json:"http"`
	Alive    bool          `json:"alive"`
	Drained  bool          `json:"drained"`
	Heard    time.Duration `json:"heard_ns"`
	Capacity float64       `json:"capacity"`
	Assigned float64       `json:"assigned"` // messages a second, of all topics
}

// TopicStatus is one topic's.
type TopicStatus struct {
	wire.Topic
	Phase      string        `json:"phase"`
	Note       string        `json:"note,omitempty"`
	Publishers int           `json:"publishers"`
	Rounds     int           `json:"rounds"`
	Shares     []ShareStatus `json:"shares"`
}

// ShareStatus is a topic at a broker.
type ShareStatus struct {
	Broker     string        `json:"broker"`
	Publishers int           `json:"publishers"`
	Assigned   float64       `json:"assigned"` // messages a second
	Measured   float64       `json:"measured"`
	Unmanaged  float64       `json:"unmanaged"`
	Rate       float64       `json:"rate"`  // tokens a second
	Depth      float64       `json:"depth"` // tokens
	InForce    bool          `json:"in_force"`
	Kept       uint64        `json:"kept"`
	Tail       time.Duration `json:"tail_ns"` // at the topic's percentile, of late
}

// Status of all.
func (c *Control) Status(now time.Duration) Status {
	c.advance(now)
	status := Status{Epoch: c.epoch, Brokers: []BrokerStatus{}, Topics: []TopicStatus{}}
	for _, id := range slices.Sorted(maps.Keys(c.brokers)) {
		b := c.brokers[id]
		status.Brokers = append(status.Brokers, BrokerStatus{id, b.v2, b.http, c.alive(b), c.drained[id], c.now - b.heard, b.capacity, c.existing(id, nil)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		status.Topics = append(status.Topics, c.topicStatus(c.topics[name]))
	}
	return status
}

func (c *Control) topicStatus(t *topic) TopicStatus {
	status := TopicStatus{Topic: t.spec, Phase: t.phase.String(), Note: t.note, Publishers: len(t.publishers), Rounds: t.rounds, Shares: []ShareStatus{}}
	loads := c.loads(t)
	for _, id := range slices.Sorted(maps.Keys(c.brokers)) {
		b, one := c.brokers[id], ShareStatus{Broker: id, Publishers: t.load[id].publishers, Assigned: loads[id]}
		share, held := t.book.Current(b.holder())
		if !held && one.Assigned == 0 {
			continue
		}
		one.Rate, one.Depth = float64(share.Rate)/wire.Unit, float64(share.Depth)/wire.Unit
		one.InForce = t.book.InForce(b.holder())
		if s := b.stats[t.spec.Name]; s != nil {
			one.Measured, one.Unmanaged, one.Kept, one.Tail = s.mean(), s.unmanaged(), s.kept, s.delivery().Percentile(t.spec.Percentile)
		}
		status.Shares = append(status.Shares, one)
	}
	return status
}

// Proposal is what would come of a topic, as far as is known without measuring.
type Proposal struct {
	Shares []ProposedShare `json:"shares"`
	// Modelled says that the tails are a model's; else only capacities were looked at.
	Modelled bool   `json:"modelled"`
	Note     string `json:"note,omitempty"`
}

// ProposedShare is one broker's part.
type ProposedShare struct {
	Broker     string        `json:"broker"`
	Publishers int           `json:"publishers"`
	Messages   float64       `json:"messages"` // a second
	Rate       float64       `json:"rate"`
	Depth      float64       `json:"depth"`
	Tail       time.Duration `json:"tail_ns,omitempty"`
}

// Try says where publishers of a topic would go, and changes nothing. It is an error where they do not fit.
func (c *Control) Try(now time.Duration, spec wire.Topic, publishers []distribute.Publisher) (Proposal, error) {
	c.advance(now)
	t := newTopic(spec, nil)
	brokers := c.candidates(t)
	if len(brokers) == 0 {
		return Proposal{}, ErrBrokers
	}
	total := 0.0
	for _, p := range publishers {
		total += p.Rate
	}
	if tokens := float64(spec.Rate) / wire.Unit; total > tokens {
		return Proposal{}, fmt.Errorf("%s: %d publishers send %.6g messages a second, the bucket lets %.6g through", spec.Name, len(publishers), total, tokens)
	}
	var predict distribute.Predict
	if c.settings.Model != nil {
		predict = c.settings.Model(spec, publishers)
	}
	proposal := Proposal{Modelled: predict != nil}
	s := distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
	if predict == nil || !s.Guess(predict, spec.Objective.Seconds()) {
		if predict != nil {
			proposal.Note = "by the model no distribution keeps the promise; this is the one that capacities give"
		}
		s = distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
		if err := s.Assign(); err != nil {
			return Proposal{}, err
		}
	}
	of := map[string][]distribute.Publisher{}
	for n, id := range s.Plan() {
		of[id] = append(of[id], publishers[n])
	}
	for _, b := range brokers {
		if len(of[b.ID]) == 0 {
			continue
		}
		one := ProposedShare{Broker: b.ID, Publishers: len(of[b.ID])}
		for _, p := range of[b.ID] {
			one.Messages += p.Rate
		}
		part := one.Messages / total
		one.Rate, one.Depth = float64(spec.Rate)/wire.Unit*part, float64(spec.Depth)/wire.Unit*part
		if predict != nil {
			one.Tail = time.Duration(predict(b, of[b.ID], part) * 1e9)
		}
		proposal.Shares = append(proposal.Shares, one)
	}
	return proposal, nil
}
