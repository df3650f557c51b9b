// SPDX-License-Identifier: Apache-2.0

// Package distribute decides which publishers of a topic go to which broker ([LiC20, § 2.4] and appendix A): pure, no clock, no
// network. A Session is one run of LoadDist:
//
//	s := New(SRTM, publishers, brokers, seed)
//	for err := s.Assign(); err == nil; err = s.Assign() {
//		for !s.Settled() { // a round: the caller moves publishers as Plan says, and measures
//			s.Measured(latencies, objective)
//		}
//		if s.Done() { break }
//	}
//
// A *Short error says what capacity is missing. The same Session with latencies that a model tells instead of measured ones finds a first guess
// without any round.
package distribute

import (
	"fmt"
	"slices"
	"strings"
)

// Publisher sends messages of the topic. Group is its correlation group; "" is none. Fixed is the broker that it cannot leave.
type Publisher struct {
	ID, Group string
	Rate      float64 // messages a second
	Fixed     string
}

// Broker can take Capacity messages a second within the objective; Existing are those of other topics.
type Broker struct {
	ID                 string
	Capacity, Existing float64
}

// Kind is how publishers are distributed.
type Kind int

const (
	// LB spreads them evenly over all brokers.
	LB Kind = iota
	// Conc takes the fewest brokers, and makes their total loads alike.
	Conc
	// MaxMin takes the fewest, and makes the least load of the topic as large as can be.
	MaxMin
	// SRTM is MaxMin that splits groups in the proportion of the load.
	SRTM
)

var kinds = []string{"lb", "conc", "max-min", "srtm"}

func (k Kind) String() string { return kinds[k] }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	n := slices.Index(kinds, string(text))
	if n < 0 {
		return fmt.Errorf("%q is none of %s", text, strings.Join(kinds, ", "))
	}
	*k = Kind(n)
	return nil
}
