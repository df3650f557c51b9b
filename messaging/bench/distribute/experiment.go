// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/predict"
	"giusto.dev/messaging/simulate"
	"giusto.dev/messaging/wire"
)

// headroom of the topic's tokens, and what of the messages is not to wait for them at one broker (§ 2.6).
const (
	headroom   = 1.1
	percentile = 0.99
)

// experiment is a topic that comes to brokers.
type experiment struct {
	kind              distribute.Kind
	publishers, group int
	each              float64
	traffic           simulate.Traffic
	existing          []float64
	capacity          float64
	objective, round  time.Duration
	broker            simulate.Broker
	errors            float64
	model             *simulate.Broker
	over              int
	seed              uint64
}

// result is one set's.
type result struct {
	Set     uint64  `json:"set"`
	Depth   uint64  `json:"depth"`
	Brokers int     `json:"brokers"`
	Rounds  []int   `json:"rounds"` // measurements, by iteration
	Done    bool    `json:"done"`   // every broker was found to be within the objective
	Missing float64 `json:"missing"`
	P99     float64 `json:"p99_ms"`   // of all the topic's messages
	Other   float64 `json:"other_ms"` // the same with other traffic of the kind
	Worst   float64 `json:"worst_ms"` // at the broker with the largest
	Last    float64 `json:"last_ms"`  // at the broker with the least of the topic
	Least   float64 `json:"least"`    // messages a second of the topic there
}

// trial is a set while it is played.
type trial struct {
	experiment
	all     []distribute.Publisher
	topic   wire.Topic
	brokers []distribute.Broker
	truth   map[string]simulate.Broker
	seed    uint64
	number  uint64 // of the measurement
}

func (e experiment) play(set uint64) (result, error) {
	t := e.begin(set)
	found := result{Set: set, Depth: t.topic.Depth / wire.Unit}
	session := distribute.New(e.kind, t.all, t.brokers, t.seed)
	plan, err := t.search(session)
	short := &distribute.Short{}
	switch {
	case errors.As(err, &short):
		found.Missing = short.Missing
		best, _, any := session.Best()
		if !any {
			return found, nil
		}
		plan = best
	case err != nil:
		return found, err
	default:
		found.Done = e.over == 0
	}
	found.Rounds = session.Rounds()
	return found, t.judge(plan, &found)
}

func (e experiment) begin(set uint64) *trial {
	e.publishers -= e.publishers % e.group // whole groups
	t := &trial{experiment: e, seed: e.seed*1000 + set, truth: map[string]simulate.Broker{}}
	for n := range e.publishers {
		p := distribute.Publisher{ID: fmt.Sprint(n), Rate: e.each}
		if e.group > 1 {
			p.Group = fmt.Sprint("group ", n/e.group)
		}
		t.all = append(t.all, p)
	}
	rate := float64(e.publishers) * e.each
	trace := e.traffic.Sends(t.all, e.round, t.seed)
	depth := simulate.Depth(trace, e.traffic.Batch, headroom*rate, percentile)
	t.topic = wire.Topic{Percentile: percentile, Objective: e.objective, Each: e.each, Batch: e.traffic.Batch, Periodic: e.traffic.Periodic,
		Share: wire.Share{Rate: uint64(headroom * rate * wire.Unit), Depth: depth * wire.Unit}}
	random := rand.New(rand.NewPCG(t.seed, 0xe44))
	for n, existing := range e.existing {
		b := distribute.Broker{ID: fmt.Sprint(n + 1), Capacity: e.capacity, Existing: existing}
		if e.over > 0 { // by capacity alone exactly so many
			b.Capacity = existing + rate/float64(e.over)*(1+1e-6)
		}
		t.brokers = append(t.brokers, b)
		truth, slower := e.broker, 1+e.errors*(2*random.Float64()-1)
		truth.Message, truth.Wake = truth.Message*slower, truth.Wake*slower
		t.truth[b.ID] = truth
	}
	return t
}

// search is LoadDist; without measuring where the number of brokers is given.
func (t *trial) search(session *distribute.Session) ([]string, error) {
	if t.over > 0 {
		err := session.Assign()
		return session.Plan(), err
	}
	if t.model != nil {
		session.Guess(predict.Model(*t.model, t.topic, t.all), t.objective.Seconds())
	}
	for {
		for !session.Settled() {
			at, err := t.measure(session.Plan(), t.seed)
			if err != nil {
				return nil, err
			}
			tails := map[string]float64{}
			for id, latencies := range at {
				if tails[id] = math.Inf(1); latencies != nil {
					tails[id] = latencies.Percentile(percentile).Seconds()
				}
			}
			session.Measured(tails, t.objective.Seconds())
		}
		if session.Done() {
			return session.Plan(), nil
		}
		if err := session.Assign(); err != nil {
			return nil, err
		}
	}
}

// measure plays the plan for a round: latencies at each broker, nil where the share is less than a token. What is sent depends on the
// traffic's seed: with the trial's own the trace that the bucket was configured by is sent again, as every round does.
func (t *trial) measure(plan []string, traffic uint64) (map[string]*simulate.Latencies, error) {
	t.number++
	on := map[string][]distribute.Publisher{}
	for n, id := range plan {
		if id != "" {
			on[id] = append(on[id], t.all[n])
		}
	}
	at := map[string]*simulate.Latencies{}
	for n, b := range t.brokers {
		if len(on[b.ID]) == 0 {
			continue
		}
		share := simulate.Part(t.topic.Share, float64(len(on[b.ID]))/float64(len(plan)))
		sends := t.traffic.Sends(on[b.ID], t.round, traffic)
		latencies, err := t.truth[b.ID].Play(sends, t.traffic.Batch, &share, simulate.Others{Rate: b.Existing, Batch: 10}, t.seed+t.number<<32+uint64(n))
		if err != nil && share.Depth >= wire.Unit {
			return nil, err
		}
		at[b.ID] = latencies
	}
	return at, nil
}

// judge plays the plan that came out once more, and then with other traffic of the kind.
func (t *trial) judge(plan []string, found *result) error {
	ms := func(l *simulate.Latencies) float64 { return l.Percentile(percentile).Seconds() * 1e3 }
	for n, traffic := range []uint64{t.seed, t.seed + 1<<32} {
		at, err := t.measure(plan, traffic)
		if err != nil {
			return err
		}
		all := &simulate.Latencies{}
		for id, latencies := range at {
			if latencies == nil {
				return fmt.Errorf("broker %s has less than a token of the bucket", id)
			}
			all.Add(latencies)
			if n > 0 {
				continue
			}
			found.Worst = max(found.Worst, ms(latencies))
			if rate := float64(latencies.Count()) / t.round.Seconds(); found.Least == 0 || rate < found.Least {
				found.Least, found.Last = rate, ms(latencies)
			}
		}
		if n > 0 {
			found.Other = ms(all)
		} else {
			found.Brokers, found.P99 = len(at), ms(all)
		}
	}
	return nil
}
