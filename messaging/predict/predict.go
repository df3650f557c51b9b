// SPDX-License-Identifier: Apache-2.0

// Package predict foretells the tail of a topic's messages at a broker by playing it in virtual time: the first guess of where its
// publishers go, so that few measurements are needed beside the one that confirms it ([LiC20, § 2.6.5]: "better
// models for estimating
// rcap are feasible"). Pure; the same question has the same answer. Some milliseconds each.
package predict

import (
	"math"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/simulate"
	"giusto.dev/messaging/wire"
)

const (
	// So many of the topic's messages are played, for at least shortest and at most longest.
	messages          = 200_000
	shortest, longest = 2 * time.Second, time.Minute
	// However short that makes it, at most so many.
	largest = 1_000_000
	seed    = 1
)

// Model foretells tails of this topic's messages in seconds, at brokers that cost what `broker` says; `all` are its publishers. A share that the
// bucket refuses (less than a token) has an infinite one, and so has a broker with more of others than could be
// simulated. Other topics' messages are assumed to come at random in batches of 10.
//
// At delivery one token of each share is thought to be with a message that is on its way to a socket.
//
// The bucket is thought to be as § 2.6 configures it: at one broker, at least the topic's percentile would not wait. By a hair, often;
// so where the model's own traffic needs a deeper one for that, it gets it.
func Model(broker simulate.Broker, topic wire.Topic, all []distribute.Publisher) distribute.Predict {
	traffic := simulate.Traffic{Batch: topic.Batch, Periodic: topic.Periodic}
	rate := 0.0
	for _, p := range all {
		rate += p.Rate
	}
	lasting := func(count float64) time.Duration { return time.Duration(count / max(rate, 1) * float64(time.Second)) }
	length := min(max(lasting(messages), shortest), longest, lasting(largest))
	depth := simulate.Depth(traffic.Sends(all, length, seed), topic.Batch, float64(topic.Rate)/wire.Unit, topic.Percentile)
	taken := uint64(0)
	if topic.Delivery {
		taken = wire.Unit
	}
	topic.Depth = max(topic.Depth, depth*wire.Unit+taken)
	return func(at distribute.Broker, publishers []distribute.Publisher, part float64) float64 {
		if at.Existing*length.Seconds() > 10*largest {
			return math.Inf(1)
		}
		share := simulate.Part(topic.Share, part)
		share.Depth -= min(share.Depth, taken)
		sends := traffic.Sends(publishers, length, seed)
		found, err := broker.Play(sends, topic.Batch, &share, simulate.Others{Rate: at.Existing, Batch: 10}, seed)
		if err != nil {
			return math.Inf(1)
		}
		return found.Percentile(topic.Percentile).Seconds()
	}
}
