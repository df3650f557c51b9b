// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A producer publishes five times what the topic lets through; a consumer gets every message once, at the topic's rate. The law,
// by the consumer's own clock: at any time t after the first was sent, at most b + r·t have come.
func TestWhatIsPublishedComesAtTheTopicsRate(t *testing.T) {
	b := start(t, "topics: {alarms: {rate: 1k/s, depth: 20, limit: publishing}}")
	p := producer(t, b.Addr().String(), nil)
	c, got := consume(t, b.Addr().String(), "alarms", nil)
	const count = 400
	began := time.Now()
	for n := range count {
		if err := p.Publish("alarms", []byte(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for range count {
		m := <-got
		if seen[m.body] {
			t.Fatal("twice", m.body)
		}
		seen[m.body] = true
		if most := 20 + m.at.Sub(began).Seconds()*1000; float64(len(seen)) > most {
			t.Fatalf("%d have come, at most %.1f may", len(seen), most)
		}
	}
	took := time.Since(began)
	if took < (count-20)*time.Millisecond {
		t.Fatal("faster than the limit", took)
	}
	fmt.Printf("broker: %d messages at 1k/s, depth 20: the last after %v\n", count, took)
	p.Stop()
	c.Stop()
	b.Stop()
}

// A consumer with default settings and RDY 200 has each message at once: nsqd alone would let it wait for up to 250 ms.
func TestAConsumerNeedNotWaitForABufferToFill(t *testing.T) {
	b := start(t, "")
	p := producer(t, b.Addr().String(), nil)
	c, got := consume(t, b.Addr().String(), "plain", nil)
	defer b.Stop()
	defer c.Stop()
	defer p.Stop()
	fast, slowest := 0, time.Duration(0)
	for n := range 100 {
		if err := p.Publish("plain", []byte(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
		m := <-got
		if took := m.at.Sub(m.stamp); took < 100*time.Millisecond {
			fast++
			slowest = max(slowest, took)
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("broker: RDY 200, default buffers: %d of 100 within 100 ms, the slowest of them %v\n", fast, slowest)
	if fast < 90 {
		t.Fatal("consumers wait")
	}
}

// Who consumes may publish on the same connection: under the limit, too.
func TestAConsumerThatPublishesKeepsTheLimit(t *testing.T) {
	b := start(t, "topics: {limited: {rate: 100/s, depth: 4, limit: publishing}}")
	defer b.Stop()
	c, got := consume(t, b.Addr().String(), "limited", nil)
	defer c.Stop()
	began := time.Now()
	answers := said(t, b.Addr().String(), []string{v2 + "SUB s c#ephemeral\nRDY 1\n" + strings.Repeat("PUB limited\n"+sized("x"), 20)}, false)
	if strings.Count(answers, "0 OK") != 21 {
		t.Error(answers)
	}
	for range 20 {
		<-got
	}
	if took := time.Since(began); took < 160*time.Millisecond {
		t.Error("20 messages at 100/s, depth 4, after", took)
	}
}
