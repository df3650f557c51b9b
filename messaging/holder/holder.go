// SPDX-License-Identifier: Apache-2.0

// Package holder is what a broker holds by a distributor's orders, and until when. Pure: times come in, what is to be done with each
// topic's gate comes out. Locks, clocks and the network belong to the caller.
//
// Times are ns of one clock that never steps and goes on while the machine sleeps.
package holder

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/wire"
)

// ErrStale is for orders older than those seen before: another leader has given newer ones, or they were overtaken.
var ErrStale = errors.New("orders older than those in force")

// ErrLate is for orders that come when their own lease is over: what they let pass may have been given a limit since.
var ErrLate = errors.New("orders whose lease is over already")

// Change is what is to be done with a topic's share.
type Change int

const (
	// Keep it as it is; only its lease goes on.
	Keep Change = iota
	// Set: another share from now on, which adds no token (gate.Set).
	Set
	// Restart: a share after a gap begins with an empty bucket (gate.Restart).
	Restart
	// Free: the topic has no limit any more.
	Free
)

// Step is one topic's part of new orders. A share of nothing is a share as any other: a gate with it holds.
type Step struct {
	wire.Order
	Change Change
}

// Holder is one broker's. The zero value has no orders: all topics without a limit of their own are to be held.
type Holder struct {
	epoch, version, until uint64
	topics                map[string]wire.Order
}

// Until is the end of the lease: nothing but topics with a limit of their own may be released for a later instant. 0: no orders yet.
func (h *Holder) Until() uint64 { return h.until }

// Seen is the epoch and version of the newest orders, to be reported once all their steps are done.
func (h *Holder) Seen() (epoch, version uint64) { return h.epoch, h.version }

// Apply takes orders over that come `now`, the answer to a report that was sent when it was `asked`. The steps, by topic, are to be
// done in this order: first all shares, each with its gate's Until put to Until(). With an error nothing changes, the lease included.
func (h *Holder) Apply(now, asked uint64, o wire.Orders) ([]Step, error) {
	if o.Epoch < h.epoch || o.Epoch == h.epoch && o.Version < h.version {
		return nil, fmt.Errorf("%w: epoch %d version %d after epoch %d version %d", ErrStale, o.Epoch, o.Version, h.epoch, h.version)
	}
	topics, err := check(o)
	if err != nil {
		return nil, err
	}
	until := max(1, asked+uint64(o.Lease))
	if now > until {
		return nil, fmt.Errorf("%w: of %v", ErrLate, o.Lease)
	}
	gap := now > h.until
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		next := topics[name]
		old, had := h.topics[name]
		step := Step{next, Keep}
		switch {
		case gap || !had || old.Delivery != next.Delivery:
			step.Change = Restart
		case old.Share != next.Share:
			step.Change = Set
		}
		steps = append(steps, step)
	}
	for _, name := range slices.Sorted(maps.Keys(h.topics)) {
		if _, stays := topics[name]; !stays {
			steps = append(steps, Step{wire.Order{Topic: name}, Free})
		}
	}
	h.epoch, h.version, h.topics, h.until = o.Epoch, o.Version, topics, until
	return steps, nil
}

// longest lease that is taken for one.
const longest = 365 * 24 * time.Hour

// check says what is wrong with orders, or gives them by topic.
func check(o wire.Orders) (map[string]wire.Order, error) {
	if o.Epoch == 0 && o.Version == 0 {
		return nil, errors.New("orders without epoch and version")
	}
	if o.Lease < 0 || o.Lease > longest {
		return nil, fmt.Errorf("a lease of %v is not in 0 to %v", o.Lease, longest)
	}
	topics := make(map[string]wire.Order, len(o.Topics))
	for _, order := range o.Topics {
		if _, twice := topics[order.Topic]; twice {
			return nil, fmt.Errorf("%s: ordered twice", order.Topic)
		}
		if _, err := bucket.New(Rate(order.Share), order.Depth, 0, 0); err != nil {
			return nil, fmt.Errorf("%s: %w", order.Topic, err)
		}
		if order.Queue < 0 || order.Queue > math.MaxInt32 {
			return nil, fmt.Errorf("%s: a queue of %d is not in 0 to %d", order.Topic, order.Queue, math.MaxInt32)
		}
		topics[order.Topic] = order
	}
	return topics, nil
}

// Rate is a share's rate as a bucket takes it.
func Rate(s wire.Share) bucket.Rate { return bucket.Rate{Num: s.Rate, Den: wire.Unit} }
