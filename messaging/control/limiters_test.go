// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// Limiters hold buckets of requests and no topics, brokers topics and no buckets of requests. All of a bucket is
// theirs; who is asked for little
// keeps a part, and who is asked for more gets more.
func TestLimitersShareABucketOfRequests(t *testing.T) {
	c := New(Defaults(), 0, 1, nil)
	now := time.Duration(0)
	requests := wire.Topic{Name: "requests", Share: wire.Share{Rate: 100 * wire.Unit, Depth: 20 * wire.Unit}, Requests: true}
	seen, shares := map[string]uint64{}, map[string]wire.Share{}
	asked := map[string]uint64{"l1": 1000}
	say := func(id string, limiter bool) {
		r := wire.Report{Broker: id, Incarnation: "1", Limiter: limiter, Epoch: 1, Seen: seen[id]}
		if !limiter {
			r.V2 = id + ":4150"
		}
		for _, name := range []string{"requests", "topic"} {
			r.Topics = append(r.Topics, wire.TopicReport{Topic: name, Seconds: []wire.Second{{At: int64(now / time.Second), Messages: asked[id], Unmanaged: asked[id]}}})
		}
		if err := c.Report(now, r); err != nil {
			t.Fatal(err)
		}
		o, _ := c.Orders(now, id, 0)
		seen[id] = o.Version
		for _, order := range o.Topics {
			if (order.Topic == "requests") != limiter {
				t.Fatalf("%s is ordered %s", id, order.Topic)
			}
			if limiter {
				shares[id] = order.Share
			}
		}
	}
	run := func(seconds int) {
		for range 4 * seconds {
			now += 250 * time.Millisecond
			for _, id := range []string{"l1", "l2"} {
				say(id, true)
			}
			say("b", false)
			c.Tick(now)
		}
	}
	run(3)
	topic := wire.Topic{Name: "topic", Share: requests.Share, Each: 10}
	for _, spec := range []wire.Topic{requests, topic} {
		if err := c.Put(now, spec); err != nil {
			t.Fatal(err)
		}
	}
	whole := func() wire.Share {
		return wire.Share{Rate: shares["l1"].Rate + shares["l2"].Rate, Depth: shares["l1"].Depth + shares["l2"].Depth}
	}
	run(30)
	if whole() != requests.Share || shares["l1"].Rate < 90*wire.Unit || shares["l2"].Rate < 4*wire.Unit || shares["l2"].Depth < wire.Unit {
		t.Error("the first is asked: ", shares)
	}
	asked = map[string]uint64{"l2": 50}
	run(30)
	if whole() != requests.Share || shares["l2"].Rate < 90*wire.Unit || shares["l1"].Rate < 4*wire.Unit {
		t.Error("the second is asked: ", shares)
	}
	if a, err := c.Assign(now, wire.Ask{Topic: "topic", Publisher: "p"}); err != nil || a.Broker != "b" {
		t.Error(a, err)
	}
	if _, err := c.Assign(now, wire.Ask{Topic: "requests", Publisher: "p"}); err != ErrTopic {
		t.Error(err)
	}
	topic.Requests = true
	if err := c.Put(now, topic); err == nil {
		t.Error("a topic of brokers has become a bucket of requests")
	}
}
