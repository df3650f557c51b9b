// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"giusto.dev/messaging/store"
	"giusto.dev/messaging/wire"
)

// strict is a store that does what a test says.
type strict struct {
	*store.Memory
	fails  atomic.Pointer[error]
	passed atomic.Bool // the term, without a word
	led    atomic.Int64
}

type strictly struct {
	store.Leadership
	of *strict
}

func (s *strict) Lead(ctx context.Context, address string) (store.Leadership, error) {
	l, err := s.Memory.Lead(ctx, address)
	s.led.Add(1)
	return strictly{l, s}, err
}

func (s *strict) Leader() string { return "" }

func (l strictly) Until() time.Duration {
	if l.of.passed.Load() {
		return 1
	}
	return l.Leadership.Until()
}

func (l strictly) Save(ctx context.Context, records ...store.Record) error {
	if err := l.of.fails.Load(); err != nil {
		return *err
	}
	return l.Leadership.Save(ctx, records...)
}

func strictDistributor(t *testing.T) (*Distributor, *strict) {
	kept := &strict{Memory: store.NewMemory()}
	s, _ := Parse([]byte("listen: 127.0.0.1:0"))
	d, err := begin(s, kept, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	return d, kept
}

// No answer leaves before what it rests on is saved; when the store is well again, it leaves.
func TestNothingLeavesBeforeItIsSaved(t *testing.T) {
	d, kept := strictDistributor(t)
	defer d.Stop()
	full := errors.New("no space left")
	kept.fails.Store(&full)
	answered := make(chan int, 2)
	go func() { status, _ := call(t, "PUT", d.Addr()+"/topics/alarms", alarms); answered <- status }()
	time.Sleep(300 * time.Millisecond)
	go func() {
		_, err := report(http.DefaultClient, d.Addr(), wire.Report{Broker: "a", Incarnation: "1", V2: "a:1"})
		if err != nil {
			t.Error(err)
		}
		answered <- 0
	}()
	select {
	case <-answered:
		t.Error("an answer left that rests on nothing")
	case <-time.After(500 * time.Millisecond):
	}
	kept.fails.Store(nil)
	for range 2 {
		if status := <-answered; status != 0 && status != 200 {
			t.Error(status)
		}
	}
}

// A leader whose save is fenced, and one whose term has passed, answers nothing more, forgets all, and stands for election again.
func TestWhoMayNotLeadDoesNotAnswer(t *testing.T) {
	d, kept := strictDistributor(t)
	defer d.Stop()
	kept.passed.Store(true)
	if status, text := call(t, "PUT", d.Addr()+"/topics/alarms", alarms); status != 503 || !strings.Contains(text, "nobody leads") {
		t.Error("its term has passed:", status, text)
	}
	kept.passed.Store(false)
	settled(t, "it leads again", func() bool { return kept.led.Load() > 1 && leads(d.Addr()) })
	before := kept.led.Load()
	kept.fails.Store(&store.ErrFenced)
	if status, text := call(t, "PUT", d.Addr()+"/topics/alarms", alarms); status != 503 {
		t.Error("its save was fenced:", status, text)
	}
	kept.fails.Store(nil)
	settled(t, "it leads again", func() bool { return kept.led.Load() > before && leads(d.Addr()) })
	if _, text := call(t, "GET", d.Addr()+"/topics", ""); strings.TrimSpace(text) != "[]" {
		t.Error("it remembers what was not saved:", text)
	}
}
