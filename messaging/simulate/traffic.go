// SPDX-License-Identifier: Apache-2.0

// Package simulate plays brokers in virtual time, with the token bucket that ships: what a topic's publishers send, when their share of
// the bucket lets it pass, and when a broker of a few cores has handled it between the messages of other topics. Pure; the same
// seed gives the same latencies. Some 50 ns a message.
package simulate

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
)

// Traffic is how a topic's publishers send: at random (Poisson) or, Periodic, at equal distances from a random instant on. Those of one
// group and rate send at the same instants; with Spread each at its own place, evenly, in an interval of that length.
type Traffic struct {
	Batch    int // messages at once, each time; 0 counts as 1
	Periodic bool
	Spread   time.Duration
}

// source is publishers that send together.
type source struct {
	group string
	rate  float64
}

// Sends are the instants, in ns and in order, at which these publishers send a batch. What a group does depends on its name and the
// seed alone: parts of it at several brokers send at the same instants.
func (t Traffic) Sends(publishers []distribute.Publisher, length time.Duration, seed uint64) []uint64 {
	groups, alone := map[source][]float64{}, 0.0
	for _, p := range publishers {
		switch {
		case p.Group != "":
			key := source{p.Group, p.Rate}
			groups[key] = append(groups[key], t.place(p.ID, seed))
		case t.Periodic:
			groups[source{"\x00" + p.ID, p.Rate}] = []float64{0}
		default:
			alone += p.Rate // many at random are one at random
		}
	}
	sends := t.instants(nil, source{"", alone}, length, seed, nil)
	sorted := len(groups) == 0
	for key, places := range groups {
		slices.Sort(places)
		sends = t.instants(sends, key, length, seed, places)
	}
	if !sorted {
		slices.Sort(sends)
	}
	return sends
}

// place is where in its group's interval a publisher sends, in ns.
func (t Traffic) place(id string, seed uint64) float64 {
	if t.Spread == 0 {
		return 0
	}
	return stream(id, seed).Float64() * float64(t.Spread)
}

func stream(name string, seed uint64) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// instants appends those of one source, once for each of the places.
func (t Traffic) instants(sends []uint64, from source, length time.Duration, seed uint64, places []float64) []uint64 {
	if from.rate <= 0 {
		return sends
	}
	random := stream(from.group, seed)
	gap := float64(max(t.Batch, 1)) / from.rate * 1e9
	at := gap * random.Float64()
	if !t.Periodic {
		at = gap * random.ExpFloat64()
	}
	for ; at < float64(length); at += gap {
		if places == nil {
			sends = append(sends, uint64(at))
		}
		for _, place := range places {
			sends = append(sends, uint64(at+place))
		}
		if !t.Periodic {
			at += gap * (random.ExpFloat64() - 1)
		}
	}
	return sends
}
