// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"github.com/nsqio/nsq/nsqd"
)

// A message waits for others only where nsqd has them already, the client takes more, the buffer has room, and no
// limit is to be kept.
func TestAMessageWaitsOnlyForWhatIsThere(t *testing.T) {
	for _, k := range []struct {
		there       int
		rdy, flying int64
		out, most   int
		ruled, want bool
	}{
		{there: 8, rdy: 10, most: 100, want: true},
		{there: 7, rdy: 10, most: 100},
		{there: 8, rdy: 10, flying: 8, most: 100, want: true},
		{there: 8, rdy: 10, flying: 9, most: 100},                                       // nsqd sends no more after this one
		{there: 8, rdy: 10, flying: 30, most: 100},                                      // some timed out, which the client said nothing of
		{there: 8, rdy: 10, out: 100, most: 100}, {there: 8, rdy: 10, out: 1, most: -1}, // -1: it asked for no buffer
		{there: 8, rdy: 10, most: 100, ruled: true},
	} {
		c := &consumer{connection: &connection{out: make([]byte, k.out)}, channel: &channel{}, backlog: make(chan *nsqd.Message, 10), most: k.most}
		c.rdy.Store(k.rdy)
		c.flying.Store(k.flying)
		c.channel.ruled.Store(k.ruled)
		for range k.there {
			c.backlog <- nil
		}
		if got := c.gather(); got != k.want {
			t.Errorf("%+v: %v", k, got)
		}
		if now := c.flying.Load(); now > k.rdy {
			t.Errorf("%+v: %d are flying", k, now)
		}
	}
}

// What waits for others goes out also when none follow: all of a backlog comes, once, however much is in flight.
func TestWhatWaitsForOthersGoesOut(t *testing.T) {
	following = 0 // all wait
	defer func() { following = 8 }()
	b := start(t, "mem_queue: 5000")
	defer b.Stop()
	for _, flight := range []int{1, 3, 200, 2500} {
		topic := fmt.Sprint("t", flight)
		post(t, b.HTTPAddr().String(), "/topic/create?topic="+topic, "")
		post(t, b.HTTPAddr().String(), "/channel/create?channel=test&topic="+topic, "")
		var bodies []string
		for n := range 1000 {
			bodies = append(bodies, fmt.Sprint(n))
		}
		post(t, b.HTTPAddr().String(), "/mpub?topic="+topic, strings.Join(bodies, "\n"))
		config := nsq.NewConfig()
		config.MaxInFlight = flight
		c, err := nsq.NewConsumer(topic, "test", config)
		if err != nil {
			t.Fatal(err)
		}
		c.SetLogger(quiet, nsq.LogLevelError)
		got := make(chan string, 2000)
		c.AddHandler(nsq.HandlerFunc(func(m *nsq.Message) error {
			got <- string(m.Body)
			return nil
		}))
		if err := c.ConnectToNSQD(b.Addr().String()); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for range 1000 {
			select {
			case body := <-got:
				if seen[body] {
					t.Errorf("%s came twice", body)
				}
				seen[body] = true
			case <-time.After(10 * time.Second):
				t.Fatalf("%d in flight: %d of 1000 came", flight, len(seen))
			}
		}
		c.Stop()
		<-c.StopChan
	}
}
