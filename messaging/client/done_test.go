// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A caller that gets its answer may use the client at once: publish again, and read its counts.
func TestDoneMayUseTheClient(t *testing.T) {
	d := newDistributor(t)
	a := start(t, "a", "")
	a.begin(t)
	d.tell("a", a.address)
	c := client(t, d, func(o *Options) { o.Buffer = 1 })
	const count = 50
	told, left := make(chan int, count), count
	var again func(error)
	again = func(err error) {
		if err != nil || c.Broker() != "a" {
			t.Error(err, c.Broker())
		}
		told <- int(c.Counts().Published)
		if left--; left > 0 {
			if err := c.PublishAsync([]byte("x"), again); err != nil {
				t.Error("the answer makes room for another: ", err)
			}
		}
	}
	if err := c.PublishAsync([]byte("x"), again); err != nil {
		t.Fatal(err)
	}
	for n := range count {
		select {
		case published := <-told:
			if published != n+1 {
				t.Errorf("answer %d came when %d were published", n+1, published)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("after %d answers the client hangs", n)
		}
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// Answers are told in the order in which they came, one at a time, also over a move; Stop waits until all are told.
func TestAnswersAreToldInOrder(t *testing.T) {
	d := newDistributor(t)
	a, b := start(t, "a", ""), start(t, "b", "")
	a.begin(t)
	b.begin(t)
	d.tell("a", a.address)
	c := client(t, d, nil)
	var told []int // by one goroutine at a time
	begun, goOn := make(chan bool), make(chan bool)
	c.PublishAsync([]byte("1"), func(error) { close(begun); <-goOn; told = append(told, 1) })
	<-begun
	d.tell("b", b.address)
	settled(t, "it is at b", func() bool { return c.Broker() == "b" })
	for n := range 10 {
		c.PublishAsync([]byte("x"), func(error) { told = append(told, n+2) })
	}
	settled(t, "b has answered", func() bool { return c.Counts().Published == 11 })
	ended := make(chan error)
	go func() { ended <- c.Stop(context.Background()) }()
	select {
	case <-ended:
		t.Error("it ended before all were told")
	case <-time.After(200 * time.Millisecond):
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !slices.Equal(told, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
		t.Error(told)
	}
}
