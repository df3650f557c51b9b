// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
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

func strictDistributor(t *testing.T, text string) (*Distributor, *strict) {
	kept := &strict{Memory: store.NewMemory()}
	s, _ := Parse([]byte("listen: 127.0.0.1:0\n" + text))
	d, err := begin(s, kept, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	return d, kept
}

// No answer leaves before what it rests on is saved; when the store soon works again, it leaves. If not, a client that asked for
// something new gets an error and sees no effect of its request; a client that hung up is forgotten.
func TestNothingLeavesBeforeItIsSaved(t *testing.T) {
	t.Parallel() // it waits, most of the time
	d, kept := strictDistributor(t, "")
	defer d.Stop()
	full := errors.New("no space left")
	kept.fails.Store(&full)
	answered := make(chan int, 1)
	go func() { status, _ := call(t, "PUT", d.Addr()+"/topics/alarms", alarms); answered <- status }()
	select {
	case <-answered:
		t.Error("an answer left that rests on nothing")
	case <-time.After(300 * time.Millisecond):
	}
	kept.fails.Store(nil)
	if status := <-answered; status != 200 {
		t.Error(status)
	}

	kept.fails.Store(&full)
	var all sync.WaitGroup
	for _, c := range []struct{ method, path, body string }{{"PUT", "/topics/other", alarms}, {"DELETE", "/topics/alarms", ""}, {"GET", "/topics", ""},
		{"GET", "/topics/other", ""}, {"GET", "/assign?topic=other&publisher=p", ""}, {"GET", "/brokers", ""},
		{"POST", "/report", `{"broker": "a", "incarnation": "1", "v2": "a:1", "wait": 10000000}`}} {
		all.Add(1)
		go func() {
			defer all.Done()
			if status, text := call(t, c.method, d.Addr()+c.path, c.body); status != 503 || !strings.Contains(text, "not saved: no space left. Make room") {
				t.Error(c, status, text)
			}
		}()
		time.Sleep(20 * time.Millisecond)
	}
	all.Wait()
	time.Sleep(200 * time.Millisecond)
	if _, text := call(t, "GET", d.Addr()+"/metrics", ""); strings.Contains(text, `"other"`) {
		t.Error("the metrics tell of what was not saved")
	}
	leading, waiting := d.term.Load(), make(chan int, 1)
	for range 20 {
		ctx, hangUp := context.WithCancel(context.Background())
		leading.questions <- &question{ctx: ctx, reply: make(chan *answer, 1), wait: time.Hour, try: func(*term, time.Duration, bool) *answer { return done(0) }}
		hangUp()
	}
	time.Sleep(3 * tick)
	look := &question{ctx: context.Background(), reply: make(chan *answer, 1), try: func(t *term, _ time.Duration, _ bool) *answer {
		waiting <- len(t.answered)
		return done(0)
	}}
	leading.questions <- look
	if n := <-waiting; n > 0 {
		t.Error(n, "answers are kept for clients that hung up")
	}
	kept.fails.Store(nil)
	settled(t, "what was asked for is done", func() bool {
		status, text := call(t, "GET", d.Addr()+"/topics", "")
		return status == 200 && strings.Contains(text, `"other"`) && !strings.Contains(text, `"alarms"`)
	})
}

// While nothing can be saved brokers keep their leases and publishers their brokers, by what was saved before. A broker whose lease had a gap
// is not given back what may be another's by now.
func TestLeasesAreRenewedWhileNothingCanBeSaved(t *testing.T) {
	t.Parallel() // it waits, most of the time
	d, kept := strictDistributor(t, "lease: 3s\nsilent: 2s\ngather: 0s\ncalm: 0s\nround: 1s\nmove: 1s")
	defer d.Stop()
	call(t, "PUT", d.Addr()+"/topics/alarms", alarms)
	said := map[string]*wire.Report{}
	for _, id := range []string{"a", "b", "c"} {
		said[id] = &wire.Report{Broker: id, Incarnation: "1", V2: id + ":1", Wait: 200 * time.Millisecond}
	}
	follow := func(id string) (wire.Orders, error) {
		r := said[id]
		o, err := report(http.DefaultClient, d.Addr(), *r)
		if err == nil {
			r.Epoch, r.Seen = o.Epoch, o.Version
		}
		return o, err
	}
	share := func(o wire.Orders) uint64 { return o.Topics[0].Depth / wire.Unit }
	path := "/assign?topic=alarms&publisher=p&at=a"
	settled(t, "a has it all", func() bool {
		call(t, "GET", d.Addr()+path, "")
		follow("b")
		follow("c")
		o, err := follow("a")
		return err == nil && share(o) == 26
	})
	var told wire.Assignment
	_, text := call(t, "GET", d.Addr()+path, "")
	json.Unmarshal([]byte(text), &told)
	before, _ := follow("a")

	full := errors.New("no space left")
	kept.fails.Store(&full)
	if status, _ := call(t, "PUT", d.Addr()+"/topics/alarms", `{"rate": "11k/s", "depth": 5}`); status != 503 {
		t.Error(status)
	}
	for began := time.Now(); time.Since(began) < 4*time.Second; { // longer than a lease, in which b is not heard
		var all sync.WaitGroup
		for _, id := range []string{"a", "c"} {
			all.Add(1)
			go func() {
				defer all.Done()
				if now, err := follow(id); err != nil || id == "a" && !reflect.DeepEqual(now, before) {
					t.Errorf("%s: %v after %v: %+v, not %+v", id, err, time.Since(began), now, before)
				}
			}()
		}
		if status, text := call(t, "GET", fmt.Sprintf("%s%s&seen=%d", d.Addr(), path, told.Version), ""); status != 200 || !strings.Contains(text, `"broker":"a"`) {
			t.Error(status, text)
		}
		all.Wait()
	}
	said["c"].Incarnation, said["c"].Replaces, said["c"].Seen = "2", "1", 0
	if now, err := follow("c"); err == nil {
		t.Errorf("it is another, and is told %+v", now)
	}
	said["a"].Seen-- // an answer that was lost
	if now, err := follow("a"); err != nil || !reflect.DeepEqual(now, before) {
		t.Error(now, err)
	}
	if now, err := follow("b"); err == nil {
		t.Errorf("its lease had run out, and b is told %+v", now)
	}
	// Now a is cut off, its publisher goes to b, and a comes back.
	for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(100 * time.Millisecond) {
		call(t, "GET", d.Addr()+"/assign?topic=alarms&publisher=p&failed=a", "")
		follow("b")
	}
	if now, err := follow("a"); err == nil {
		t.Errorf("its lease had run out, and a is told %+v", now)
	}
	kept.fails.Store(nil)
	settled(t, "b has it all", func() bool {
		call(t, "GET", d.Addr()+"/assign?topic=alarms&publisher=p&at=b", "")
		other, _ := follow("a")
		o, err := follow("b")
		return err == nil && share(o) == 5 && share(other) == 0
	})

	// What is saved is not kept from brokers for longer than the lease that they have: who does not know of it yet has no lease renewed without.
	if status, text := call(t, "PUT", d.Addr()+"/topics/alarms", `{"rate": "11k/s", "depth": 4}`); status != 200 {
		t.Fatal(status, text)
	}
	kept.fails.Store(&full)
	call(t, "PUT", d.Addr()+"/topics/other", alarms)
	if now, err := follow("b"); err == nil {
		t.Errorf("the bucket has 4 tokens, and b is told %+v", now)
	}
	kept.fails.Store(nil)
}

// The store comes and goes, brokers are cut off for shorter and longer than a lease, publishers move: at no instant are more shares in force than the whole.
func TestTheLawWhileTheStoreComesAndGoes(t *testing.T) {
	t.Parallel() // it waits, most of the time
	length := 20 * time.Second
	if os.Getenv("GIUSTO_SOAK") != "" {
		length = 5 * time.Minute
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var all sync.WaitGroup
	run := func(what func(random *rand.Rand)) {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		all.Add(1)
		go func() {
			defer all.Done()
			for ctx.Err() == nil {
				what(random)
			}
		}()
	}
	fields := make([]*field, 16)
	for n := range fields {
		d, kept := strictDistributor(t, "lease: 3s\nsilent: 2s\ngather: 0s\ncalm: 0s\nround: 1s\nmove: 1s")
		defer d.Stop()
		call(t, "PUT", d.Addr()+"/topics/alarms", `{"rate": "1k/s", "depth": 26, "each": "10/s"}`)
		f := newField(1000, 26)
		f.within = 3 * time.Second
		fields[n] = f
		for _, id := range []string{"a", "b"} {
			run(func(random *rand.Rand) {
				life, cut := context.WithTimeout(ctx, time.Duration(random.IntN(5000))*time.Millisecond)
				defer cut()
				f.follow(life, id, []string{d.Addr()})
				time.Sleep(time.Duration(random.IntN(2)*2500+random.IntN(1500)) * time.Millisecond)
			})
		}
		run(func(*rand.Rand) { publish(ctx, "p", []string{d.Addr()}) })
		full := errors.New("no space left")
		run(func(random *rand.Rand) {
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			kept.fails.Store(&full)
			time.Sleep(time.Duration(random.IntN(2)*4000+random.IntN(4000)) * time.Millisecond)
			kept.fails.Store(nil)
		})
	}
	time.Sleep(length)
	end()
	all.Wait()
	changes := 0
	for _, f := range fields {
		changes += f.changes
		if f.broken != "" {
			t.Error(f.broken)
		}
	}
	if changes < 50 {
		t.Errorf("only %d changes of shares: nothing is proven", changes)
	}
	fmt.Printf("distributor: stores came and went: %d changes of shares in %d fields\n", changes, len(fields))
}

// A leader whose save is fenced, and one whose term has passed, answers nothing more, forgets all, and stands for election again.
func TestWhoMayNotLeadDoesNotAnswer(t *testing.T) {
	d, kept := strictDistributor(t, "")
	defer d.Stop()
	kept.passed.Store(true)
	status, text := call(t, "PUT", d.Addr()+"/topics/alarms", alarms)
	if status != 503 || !strings.Contains(text, "no distributor leads") {
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
	d, kept := strictDistributor(t, "")
	defer d.Stop()
	full := errors.New("no space left")
	kept.fails.Store(&full)
	var all sync.WaitGroup
	const topics = 1000
	for n := range topics {
		all.Add(1)
		go func() {
			defer all.Done()
			status := 503
			for status == 503 {
				status, _ = call(t, "PUT", fmt.Sprintf("%s/topics/%060d", d.Addr(), n), alarms)
			}
			if status != 200 {
				t.Error(status)
			}
		}()
	}
	time.Sleep(time.Second)
	kept.fails.Store(nil)
	all.Wait()
	if most, saves := kept.most.Load(), kept.saves.Load(); most > batch || saves < 2 {
		t.Errorf("%d bytes at once, in %d saves", most, saves)
	}
	if _, text := call(t, "GET", d.Addr()+"/topics", ""); strings.Count(text, `"name"`) != topics {
		t.Error("topics are missing")
	}
}

// A client that hung up before its turn came changes nothing; while the loop hangs it does not say that it turns.
func TestAHungLoopDoesNotTurn(t *testing.T) {
	d, kept := strictDistributor(t, "")
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
	ask(ctx, func() { t.Error("a request whose client hung up was tried") })
	<-ask(context.Background(), func() {}).reply
}
