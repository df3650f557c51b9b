// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/wire"
)

// Broker is what handling messages costs: a batch takes Wake (reading its connection) and then Message for each of it, on any of Cores,
// first come first served; but a topic's messages one after the other, as nsqd's topics and channels do (§ 2.5.1). Beside the queue each batch
// takes Base and a random time of mean Jitter (exponential: network, scheduler, client). Each Every on average (0: never) all cores stop
// for a time of mean Stall. Times are in ns.
type Broker struct {
	Cores   int     `json:"cores"`
	Message float64 `json:"message_ns"`
	Wake    float64 `json:"wake_ns"`
	Base    float64 `json:"base_ns"`
	Jitter  float64 `json:"jitter_ns"`
	Every   float64 `json:"stall_every_ns"`
	Stall   float64 `json:"stall_ns"`
}

// Testbed is a broker of the paper's (§ 2.6: two cores of a Xeon E5-2630), as far as the paper tells: 60,000 messages a second, one at a
// time, are too many (Fig. 2.6b), and 50,000 beside 10,000 in batches of 10 are not (Fig. 2.8): together Message and Wake are 34 µs. A
// burst of 50 in batches of 10 is within 1 ms at its 99th percentile, and one of 100 is not (Table 2.1, groups of 5 and 10): Message is
// 6 µs, the middle of what allows that. Base and Jitter are guesses that hardly matter.
var Testbed = Broker{Cores: 2, Message: 6_000, Wake: 28_000, Base: 100_000, Jitter: 30_000}

// Others are messages of other topics, at random in batches, without a limit.
type Others struct {
	Rate  float64 // messages a second
	Batch int
}

// Play sends a topic's batches, at sends, to a broker that holds this share of its bucket (nil: no limit), and returns the latencies of its messages.
// An error is the bucket's: a share without rate, or of less than a token.
func (b Broker) Play(sends []uint64, batch int, share *wire.Share, others Others, seed uint64) (*Latencies, error) {
	limit := func(at uint64) (uint64, error) { return at, nil }
	if share != nil {
		tokens, err := bucket.New(bucket.Rate{Num: share.Rate, Den: wire.Unit}, share.Depth, share.Depth, 0)
		if err != nil {
			return nil, fmt.Errorf("share: %w", err)
		}
		limit = func(at uint64) (uint64, error) { return tokens.Take(1, at) }
	}
	random := rand.New(rand.NewPCG(seed, 0x0b))
	q := queue{broker: b, free: make([]float64, max(b.Cores, 1)), random: random, stall: math.Inf(1)}
	q.next(0)
	other, gap := math.Inf(1), 0.0
	if others.Rate > 0 {
		gap = float64(max(others.Batch, 1)) / others.Rate * 1e9
		other = gap * random.ExpFloat64()
	}
	found := &Latencies{}
	for _, sent := range sends {
		jitter := b.Base + b.Jitter*random.ExpFloat64()
		wake := b.Wake
		for range max(batch, 1) {
			released, err := limit(sent)
			if err != nil {
				return nil, fmt.Errorf("share: %w", err)
			}
			at := float64(released)
			for other < at {
				q.run(other, b.Wake+b.Message*float64(max(others.Batch, 1)))
				other += gap * random.ExpFloat64()
			}
			found.Observe(q.message(at, wake) - float64(sent) + jitter)
			wake = 0
		}
	}
	return found, nil
}

// queue is what a broker's cores have to do.
type queue struct {
	broker Broker
	free   []float64 // when each core is
	topic  float64   // when the topic's last message is done
	random *rand.Rand
	stall  float64 // when the next begins
}

// next is when the cores stop again.
func (q *queue) next(after float64) {
	if q.broker.Every > 0 {
		q.stall = after + q.broker.Every*q.random.ExpFloat64()
	}
}

// message is when one of the topic's is done that may go from `at` on.
func (q *queue) message(at, wake float64) float64 {
	q.topic = q.run(max(at, q.topic-wake), wake+q.broker.Message)
	return q.topic
}

// run is when work is done that came at this time: on the core that was the last to become free by then, else on the first that is.
func (q *queue) run(at, work float64) float64 {
	core := 0
	for n, free := range q.free[1:] {
		if best := q.free[core]; free <= at && (best > at || best < free) || best > at && free < best {
			core = n + 1
		}
	}
	begin := max(at, q.free[core])
	for begin >= q.stall {
		end := q.stall + q.broker.Stall*q.random.ExpFloat64()
		for n := range q.free {
			q.free[n] = max(q.free[n], end)
		}
		begin = max(begin, end)
		q.next(end)
	}
	q.free[core] = begin + work
	return q.free[core]
}
