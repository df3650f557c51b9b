// SPDX-License-Identifier: Apache-2.0

// Package predict foretells the tail of a topic's messages at a broker by playing it in virtual time: the first guess of where its
// publishers go, so that few measurements are needed or none beside the one that confirms it (paper 001, § 2.6.5: "better models
// for estimating rcap"). Pure; the same seed foretells the same. Some milliseconds a question.
package predict

import (
	"math"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/simulate"
	"giusto.dev/messaging/wire"
)

const (
	// messages that are played, for at least shortest and at most longest.
	messages                 = 200_000
	shortest, longest        = 5 * time.Second, time.Minute
	seed              uint64 = 1
)

// Model foretells tails of this topic's messages in seconds, at brokers that cost what `broker` says. A share that the bucket
// refuses (less than a token, no rate) has an infinite one. Others' messages are thought to be at random, one at a time.
func Model(broker simulate.Broker, topic wire.Topic) distribute.Predict {
	traffic := simulate.Traffic{Batch: topic.Batch, Periodic: topic.Periodic}
	return func(at distribute.Broker, publishers []distribute.Publisher, part float64) float64 {
		rate := 0.0
		for _, p := range publishers {
			rate += p.Rate
		}
		if rate == 0 {
			return 0
		}
		length := time.Duration(messages / (rate + at.Existing) * float64(time.Second))
		length = min(max(length, shortest), longest)
		share := simulate.Part(topic.Share, part)
		sends := traffic.Sends(publishers, length, seed)
		found, err := broker.Play(sends, topic.Batch, &share, simulate.Others{Rate: at.Existing, Batch: 1}, seed)
		if err != nil {
			return math.Inf(1)
		}
		return found.Percentile(topic.Percentile).Seconds()
	}
}
