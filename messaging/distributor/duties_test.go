// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
	turns  atomic.Int64
	saves  atomic.Int64
	most   atomic.Int64 // bytes in a save
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
	size := int64(0)
	for _, r := range records {
		size += int64(len(r.Key) + len(r.Value))
	}
	l.of.saves.Add(1)
	l.of.most.Store(max(l.of.most.Load(), size))
	return l.Leadership.Save(ctx, records...)
}

func (l strictly) Turn() { l.of.turns.Add(1) }

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

// Much is saved in parts, none too large for the store, and all of it before an answer leaves; a part that was saved is not saved again.
func TestMuchIsSavedInParts(t *testing.T) {
	d, kept := strictDistributor(t)
	defer d.Stop()
	full := errors.New("no space left")
	kept.fails.Store(&full)
	var all sync.WaitGroup
	const topics = 2000
	for n := range topics {
		all.Add(1)
		go func() {
			defer all.Done()
			if status, text := call(t, "PUT", fmt.Sprintf("%s/topics/%060d", d.Addr(), n), alarms); status != 200 {
				t.Error(status, text)
			}
		}()
	}
	time.Sleep(2 * time.Second)
	kept.fails.Store(nil)
	all.Wait()
	if most, saves := kept.most.Load(), kept.saves.Load(); most > batch || saves < 2 {
		t.Errorf("%d bytes at once, in %d saves", most, saves)
	}
	if _, text := call(t, "GET", d.Addr()+"/topics", ""); strings.Count(text, `"name"`) != topics {
		t.Error("topics are missing")
	}
}

// Whoever hung up before its turn came changes nothing; while the loop hangs it does not say that it turns.
func TestAHungLoopDoesNotTurn(t *testing.T) {
	d, kept := strictDistributor(t)
	defer d.Stop()
	settled(t, "it turns", func() bool { return kept.turns.Load() > 3 })
	leading, goOn := d.term.Load(), make(chan struct{})
	ask := func(ctx context.Context, try func()) *question {
		q := &question{ctx: ctx, reply: make(chan *answer, 1), try: func(*term, time.Duration, bool) *answer { try(); return &answer{} }}
		leading.questions <- q
		return q
	}
	hangs := ask(context.Background(), func() { <-goOn })
	time.Sleep(50 * time.Millisecond)
	before := kept.turns.Load()
	time.Sleep(500 * time.Millisecond)
	if now := kept.turns.Load(); now != before {
		t.Error("it turned", now-before, "times")
	}
	close(goOn)
	<-hangs.reply
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ask(ctx, func() { t.Error("asked for nobody") })
	<-ask(context.Background(), func() {}).reply
}
