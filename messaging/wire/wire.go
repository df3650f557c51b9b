// SPDX-License-Identifier: Apache-2.0

// Package wire is what brokers, publishers and the distributor say to each other: JSON over HTTP.
//
//	POST /report    a broker: Report -> Orders, at once or when there is something new, after Wait at the latest
//	GET  /assign    a publisher: Ask (as a query) -> Assignment, likewise
//
// Who asks a distributor that does not lead is sent on (307, Location). Durations are ns.
package wire

import (
	"maps"
	"slices"
	"time"
)

// Unit is one token, or one token a second, in the unit of Share: bucket.Token.
const Unit = 1 << 20

// Share is a part of a topic's token bucket: Rate in 2^-20 tokens a second, Depth in 2^-20 tokens. Integers, so that shares add up
// to the whole exactly.
type Share struct {
	Rate  uint64 `json:"rate"`
	Depth uint64 `json:"depth"`
}

// Topic is what an operator asks for.
type Topic struct {
	Name string `json:"name"`
	// The whole bucket.
	Share
	// Percentile (0 to 1) of the messages are to be delivered within Objective.
	Percentile float64       `json:"percentile"`
	Objective  time.Duration `json:"objective"`
	// Gap is the longest time that nothing of it comes when a broker is lost without a word; 0: as the lease has it.
	Gap time.Duration `json:"gap,omitempty"`
	// Each is how many messages a second a publisher sends that says nothing else.
	Each float64 `json:"each"`
	// Batch is how many messages a publisher sends at once (0 counts as 1), Periodic that it sends at equal distances; the model
	// needs them, nothing else does.
	Batch    int  `json:"batch,omitempty"`
	Periodic bool `json:"periodic,omitempty"`
	// Queue bounds what waits at each broker, in messages of 1 KiB; 0 is the broker's default.
	Queue int64 `json:"queue,omitempty"`
	// Delivery: what passes the bucket is what each channel sends to its consumers; else, what is published. Operators
	// who say nothing mean it.
	Delivery bool `json:"delivery,omitempty"`
	// Requests: it is no topic of brokers. What passes the bucket is what limiters (package limit) are asked for.
	Requests bool `json:"requests,omitempty"`
}

// Report is what a broker says of itself. Each answers the Orders that it saw last; a broker asks one at a time.
type Report struct {
	Broker string `json:"broker"`
	// Incarnation is another whenever the broker starts. Replaces is the one before, which is dead for certain: the new one holds the
	// lock of the same data directory.
	Incarnation string `json:"incarnation"`
	Replaces    string `json:"replaces,omitempty"`
	// Leaves: this is its last report. It ends, and no message passes any more by any orders.
	Leaves bool `json:"leaves,omitempty"`
	// Limiter: it only tells whether requests may pass. No publisher is sent to it, and of topics it holds those
	// with Requests, and no others.
	Limiter bool `json:"limiter,omitempty"`
	// Where producers and consumers connect (none at a limiter), and HTTP.
	V2   string `json:"v2"`
	HTTP string `json:"http"`
	// Capacity is how many messages a second it can handle within the objective; 0: as the distributor thinks.
	Capacity float64 `json:"capacity,omitempty"`
	// Seen is the version of the Orders in force here, Epoch theirs; 0: none.
	Epoch uint64 `json:"epoch"`
	Seen  uint64 `json:"seen"`
	// Since, if it is not 0: these orders are at hand, and the answer may name only what has changed since.
	Since  uint64        `json:"since,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	Topics []TopicReport `json:"topics,omitempty"`
}

// TopicReport is one topic at one broker, since its last report.
type TopicReport struct {
	Topic   string   `json:"topic"`
	Seconds []Second `json:"seconds,omitempty"`
	// Kept is how many messages wait now, for tokens or a share.
	Kept uint64 `json:"kept,omitempty"`
	// Ready are the channels that have a consumer.
	Ready []string `json:"ready,omitempty"`
	// Unready are those of them whose consumers take no message now: all have an RDY of 0.
	Unready []string `json:"unready,omitempty"`
}

// Second is what happened in one second.
type Second struct {
	// At tells seconds apart: whole seconds of the broker's monotonic clock.
	At int64 `json:"at"`
	// Messages that came; Unmanaged those of connections that follow no assignment.
	Messages  uint64 `json:"messages"`
	Unmanaged uint64 `json:"unmanaged,omitempty"`
	// Used is the most of the bucket that was ever in use, in 2^-20 tokens: what could not have gone out yet at the share's rate.
	Used uint64 `json:"used"`
	// Delivery is how long messages took from the kernel's stamp to the consumer's socket: Histogram's counts.
	Delivery Histogram `json:"delivery,omitempty"`
}

// Orders are what a broker is to do. A topic with a share of nothing it holds; one that is not there has no limit. A broker that has no
// orders yet holds all but the topics of its own file, and when a lease has run out again: meanwhile any topic may have been given a limit.
type Orders struct {
	// Epoch of the leader and Version of the orders: none lower than one seen before, in this order, counts.
	Epoch   uint64 `json:"epoch"`
	Version uint64 `json:"version"`
	// Lease is how long they hold, counted from when the report was sent that they answer.
	Lease  time.Duration `json:"lease"`
	Topics []Order       `json:"topics,omitempty"`
	// Since, if it is not 0: all is as in the orders of this version, of the same epoch, but for Topics, and for Free,
	// which have no limit any more. Only to a report that named it as its own Since.
	Since uint64   `json:"since,omitempty"`
	Free  []string `json:"free,omitempty"`
}

// Onto makes whole orders of these and of those that they build on, which it changes; false: it is not on those that they do.
func (o *Orders) Onto(epoch, version uint64, topics map[string]Order) (whole Orders, right bool) {
	if whole = *o; o.Since == 0 {
		clear(topics)
	} else if o.Since != version || o.Epoch != epoch {
		return Orders{}, false
	}
	for _, name := range o.Free {
		delete(topics, name)
	}
	for _, order := range o.Topics {
		topics[order.Topic] = order
	}
	whole.Since, whole.Free = 0, nil
	if o.Since > 0 {
		whole.Topics = All(topics)
	}
	return whole, true
}

// All orders, by topic.
func All(topics map[string]Order) []Order {
	orders := make([]Order, 0, len(topics))
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		orders = append(orders, topics[name])
	}
	return orders
}

// Same says whether an order is another.
func (o Order) Same(other Order) bool {
	return o.Topic == other.Topic && o.Share == other.Share && o.Delivery == other.Delivery && o.Queue == other.Queue &&
		slices.Equal(o.Channels, other.Channels)
}

// Order is one topic's.
type Order struct {
	Topic string `json:"topic"`
	Share
	// Delivery: the share is what each channel may send to its consumers; else, what may be published.
	Delivery bool  `json:"delivery,omitempty"`
	Queue    int64 `json:"queue,omitempty"`
	// Channels are to be there before publishers come.
	Channels []string `json:"channels,omitempty"`
}

// Ask is a publisher's question, as a URL's query.
type Ask struct {
	Topic     string        `json:"topic"`
	Publisher string        `json:"publisher"`
	Group     string        `json:"group"`  // of publishers that send at the same time; "": none
	Rate      float64       `json:"rate"`   // messages a second; 0: the topic's Each
	At        string        `json:"at"`     // the broker that its messages go to now; "": none
	Failed    string        `json:"failed"` // a broker that cannot be reached
	Seen      uint64        `json:"seen"`   // the Version that it follows
	Wait      time.Duration `json:"wait"`
}

// Assignment says where a publisher's messages go.
type Assignment struct {
	Broker  string `json:"broker"`
	V2      string `json:"v2"`
	HTTP    string `json:"http"`
	Version uint64 `json:"version"`
}
