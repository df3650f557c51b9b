// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// A broker that holds a message for longer than Patience, and says meanwhile that it lives, is not left: each that is asked instead would hold a copy,
// too. One that says nothing is.
func TestABrokerThatHoldsIsNotLeft(t *testing.T) {
	d := newDistributor(t)
	a := start(t, "a", "mem_queue: 0\ntopics: {kept: {rate: 0.25/s, depth: 1, limit: publishing}}") // OK comes with the token
	a.begin(t)
	d.tell("a", a.address)
	c := client(t, d, nil)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		c.Stop(ctx)
	}()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 2 {
		if err := c.Publish(ctx, []byte("x")); err != nil {
			t.Errorf("%v %+v", err, c.Counts())
		}
	}
	if took, hears := time.Since(began), c.config.ReadTimeout; took < hears+time.Second {
		t.Errorf("it held for %v, and is waited for %v: nothing is proven", took, hears)
	}
	if counts := c.Counts(); counts.Failures != 0 || counts.Repeated != 0 {
		t.Errorf("%+v", counts)
	}
	a.signal(syscall.SIGSTOP)
	c.PublishAsync([]byte("x"), nil)
	settled(t, "it is left", func() bool { return c.Counts().Failures > 0 && d.last().Failed == "a" })
}
