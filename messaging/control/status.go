// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/ledger"
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
	Limiter  bool          `json:"limiter,omitempty"`
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
	Lease      time.Duration `json:"lease_ns"`            // of all brokers
	LeaseFor   string        `json:"lease_for,omitempty"` // the topic whose gap asks for it
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
		status.Brokers = append(status.Brokers, BrokerStatus{id, b.v2, b.http, b.limiter, c.alive(b), c.drained[id], c.now - b.heard, b.capacity, c.existing(id, nil)})
	}
	for _, name := range c.names {
		status.Topics = append(status.Topics, c.topicStatus(c.topics[name]))
	}
	return status
}

// TopicStatus of one topic; nil: there is none of the name.
func (c *Control) TopicStatus(now time.Duration, name string) *TopicStatus {
	c.advance(now)
	t := c.topics[name]
	if t == nil {
		return nil
	}
	status := c.topicStatus(t)
	return &status
}

func (c *Control) topicStatus(t *topic) TopicStatus {
	status := TopicStatus{Topic: t.spec, Phase: t.phase.String(), Note: t.note, Publishers: len(t.publishers), Rounds: t.rounds, Shares: []ShareStatus{}}
	status.Lease, status.LeaseFor = c.Lease()
	loads := c.loads(t)
	here := maps.Clone(loads)
	for id, b := range c.brokers {
		if t.book.Offers[b.holder] != nil {
			here[id] += 0
		}
	}
	for _, id := range slices.Sorted(maps.Keys(here)) {
		b, one := c.brokers[id], ShareStatus{Broker: id, Publishers: t.load[id].publishers, Assigned: loads[id]}
		if b == nil {
			continue
		}
		share, held := t.book.Current(b.holder)
		if !held && one.Assigned == 0 {
			continue
		}
		one.Rate, one.Depth = float64(share.Rate)/wire.Unit, float64(share.Depth)/wire.Unit
		one.InForce = t.book.InForce(b.holder)
		if s := t.stats[id]; s != nil {
			one.Measured, one.Unmanaged, one.Kept, one.Tail = s.mean(), s.unmanaged(), s.kept, s.delivery().Percentile(t.spec.Percentile)
		}
		status.Shares = append(status.Shares, one)
	}
	return status
}

// Proposal is what would come of a topic, as far as is known without measuring.
type Proposal struct {
	Shares []ProposedShare `json:"shares"`
	// Fits says that publishers are known, and that brokers have room and the bucket has tokens for them; Note says what is missing else.
	Fits bool   `json:"fits"`
	Note string `json:"note,omitempty"`
	// Modelled says that the tails are a model's; else only capacities were looked at.
	Modelled bool `json:"modelled"`
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

// Check says why Put would not take a topic.
func (c *Control) Check(now time.Duration, spec wire.Topic) error {
	c.advance(now)
	if spec.Rate == 0 || spec.Depth < wire.Unit {
		return fmt.Errorf("%s: a bucket needs a rate and at least one token", spec.Name)
	}
	if spec.Rate >= 1<<52 || spec.Depth > 1<<62 {
		return fmt.Errorf("%s: a bucket has less than 2^32 tokens a second, and at most 2^42", spec.Name)
	}
	if err := c.keepable(spec); err != nil {
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	if t := c.topics[spec.Name]; t != nil {
		if t.spec.Requests != spec.Requests {
			return fmt.Errorf("%s: what is published or delivered and what is requested are limited at different places: delete it first", spec.Name)
		}
		if used := len(c.loads(t)); uint64(used) > spec.Depth/wire.Unit {
			return fmt.Errorf("%s: its publishers are at %d brokers, each of which needs a whole token: at least %d tokens", spec.Name, used, used)
		}
	}
	return nil
}

// Try says where publishers of a topic would go, and changes nothing. It is an error where Put would be one; that they do not fit is none, since Put does
// not send them away either.
func (c *Control) Try(now time.Duration, spec wire.Topic, publishers []distribute.Publisher) (Proposal, error) {
	if err := c.Check(now, spec); err != nil {
		return Proposal{}, err
	}
	brokers := c.candidates(newTopic(spec, nil))
	proposal := Proposal{Shares: []ProposedShare{}}
	total := 0.0
	for _, p := range publishers {
		total += p.Rate
	}
	s := distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
	tokens := float64(spec.Rate) / wire.Unit
	switch {
	case spec.Requests:
		proposal.Note = "limiters get shares as they are asked: there are no publishers to be distributed"
		return proposal, nil
	case total == 0:
		proposal.Note = "it has no publishers yet: say how many there will be, ?dry-run&publishers=1000, and in the topic what each sends"
		return proposal, nil
	case len(brokers) == 0:
		proposal.Note = ErrBrokers.Error()
		return proposal, nil
	case total > tokens:
		proposal.Note = fmt.Sprintf("%d publishers send %.6g messages a second, the bucket lets %.6g through", len(publishers), total, tokens)
	}
	var predict distribute.Predict
	if c.settings.Model != nil && room(s, publishers) {
		predict = c.settings.Model(spec, publishers)
	}
	proposal.Modelled = predict != nil
	if predict == nil || !s.Guess(predict, spec.Objective.Seconds()) {
		if predict != nil && proposal.Note == "" {
			proposal.Note = "by the model no distribution keeps the promise; this is the one that capacities give"
		}
		s = distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
		if err := s.Assign(); err != nil {
			proposal.Note = err.Error()
			return proposal, nil
		}
	}
	proposal.Fits = proposal.Note == ""
	of := map[string][]distribute.Publisher{}
	for n, id := range s.Plan() {
		of[id] = append(of[id], publishers[n])
	}
	var loads []float64
	for _, b := range brokers {
		if len(of[b.ID]) == 0 {
			continue
		}
		one := ProposedShare{Broker: b.ID, Publishers: len(of[b.ID])}
		for _, p := range of[b.ID] {
			one.Messages += p.Rate
		}
		if predict != nil {
			one.Tail = time.Duration(predict(b, of[b.ID], one.Messages/total) * 1e9)
		}
		proposal.Shares, loads = append(proposal.Shares, one), append(loads, one.Messages)
	}
	rates, depths := ledger.Split(spec.Rate, loads, 0), ledger.Split(spec.Depth, loads, wire.Unit)
	for n := range proposal.Shares {
		proposal.Shares[n].Rate, proposal.Shares[n].Depth = float64(rates[n])/wire.Unit, float64(depths[n])/wire.Unit
	}
	return proposal, nil
}
