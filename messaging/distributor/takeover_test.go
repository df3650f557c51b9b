// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"giusto.dev/messaging/ensemble"
	"giusto.dev/messaging/store"
	"giusto.dev/messaging/wire"
)

// field is all brokers of a test, and the law that they watch together.
type field struct {
	mutex   sync.Mutex
	until   map[string]time.Duration // of each broker's lease
	share   map[string]wire.Share    // in force
	whole   wire.Share
	epochs  map[uint64]bool
	within  time.Duration // a distributor answers
	changes int
	last    time.Duration // when orders came last
	broken  string
}

// newField is one of a topic with so many tokens a second, and at once.
func newField(rate, depth uint64) *field {
	return &field{until: map[string]time.Duration{}, share: map[string]wire.Share{}, epochs: map[uint64]bool{}, within: time.Second,
		whole: wire.Share{Rate: rate * wire.Unit, Depth: depth * wire.Unit}}
}

// follow is a broker: it reports, does what the orders say, and holds its share until the lease has run out.
func (f *field) follow(ctx context.Context, id string, distributors []string) {
	said := wire.Report{Broker: id, Incarnation: "1", V2: id + ":4150", HTTP: id + ":4151", Wait: 200 * time.Millisecond}
	client := http.Client{Timeout: f.within}
	for n := 0; ctx.Err() == nil; n++ {
		sent := store.Now()
		orders, err := report(&client, distributors[n/4%len(distributors)], said)
		if err != nil {
			n += 3
			time.Sleep(20 * time.Millisecond)
			continue
		}
		f.mutex.Lock()
		if orders.Epoch > said.Epoch || orders.Epoch == said.Epoch && orders.Version >= said.Seen {
			f.apply(id, sent, orders)
			said.Epoch, said.Seen = orders.Epoch, orders.Version
		}
		f.mutex.Unlock()
	}
}

func (f *field) apply(id string, sent time.Duration, o wire.Orders) {
	now := store.Now()
	var share wire.Share
	for _, order := range o.Topics {
		share = order.Share
	}
	if share != f.share[id] {
		f.changes++
	}
	f.share[id], f.until[id], f.last = share, sent+o.Lease, now
	f.epochs[o.Epoch] = true
	var sum wire.Share
	for id, share := range f.share {
		if now < f.until[id] {
			sum.Rate += share.Rate
			sum.Depth += share.Depth
		}
	}
	if sum.Rate > f.whole.Rate || sum.Depth > f.whole.Depth {
		f.broken = fmt.Sprintf("%+v of %+v are in force: %v", sum, f.whole, f.share)
	}
}

// since says when orders came last.
func (f *field) since() (last time.Duration, epochs int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.last, len(f.epochs)
}

// publish is a publisher that goes where it is told; now and then it says that its broker fails, so that shares have to follow.
func publish(ctx context.Context, name string, distributors []string) {
	random := rand.New(rand.NewPCG(uint64(len(name)), 5))
	client := http.Client{Timeout: time.Second}
	asked := wire.Ask{Topic: "alarms", Publisher: name, Rate: 10, Wait: 100 * time.Millisecond}
	for ctx.Err() == nil {
		if random.IntN(10) == 0 {
			asked.Failed, asked.At = asked.At, ""
		}
		answer, err := client.Get("http://" + distributors[random.IntN(len(distributors))] + "/assign?" + asked.Query().Encode())
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		var told wire.Assignment
		if answer.StatusCode == http.StatusOK && decode(answer, &told) == nil && told.V2 != "" {
			asked.At, asked.Seen, asked.Failed = told.Broker, told.Version, ""
		} else {
			time.Sleep(50 * time.Millisecond)
		}
		answer.Body.Close()
	}
}

// Distributors over a real ensemble are killed, stopped beyond their term and woken, and the ensemble's leader is killed: another leads,
// with what there was, and at no instant are more shares in force than the whole. How long it takes is told.
func TestTakeoverOverZooKeeper(t *testing.T) {
	const term = 1500 * time.Millisecond
	e := ensemble.Start(t, 3)
	text := fmt.Sprintf("store: {zookeeper: [%s], term: %dms}\nlease: 4s\nsilent: 3s\nmove: 1s\ngather: 1s\n", strings.Join(e.Addresses(), ", "), term/time.Millisecond)
	daemons := []*daemon{newDaemon(t, text), newDaemon(t, text)}
	addresses := []string{daemons[0].address, daemons[1].address}
	leader := func() (leader, other *daemon) {
		var first bool
		settled(t, "one leads", func() bool { first = leads(addresses[0]); return first != leads(addresses[1]) })
		if first {
			return daemons[0], daemons[1]
		}
		return daemons[1], daemons[0]
	}
	l, _ := leader()
	if status, text := call(t, "PUT", l.address+"/topics/alarms", `{"rate": "1k/s", "depth": 26, "each": "10/s"}`); status != 200 {
		t.Fatal(status, text)
	}
	f := newField(1000, 26)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	run := func(what func()) {
		all.Add(1)
		go func() { defer all.Done(); what() }()
	}
	for _, id := range []string{"a", "b", "c"} {
		run(func() { f.follow(ctx, id, addresses) })
	}
	for n := range 6 {
		run(func() { publish(ctx, strings.Repeat("p", n+1), addresses) })
	}
	settled(t, "shares are given", func() bool { f.mutex.Lock(); defer f.mutex.Unlock(); return f.changes > 3 })
	drained, fastest := 0, time.Duration(math.MaxInt64)
	outage := func(what string, do func()) {
		// Shares move while leaders come and go.
		l, _ := leader()
		call(t, "DELETE", l.address+"/brokers/"+string(rune('a'+drained%3))+"/drain", "")
		drained++
		call(t, "PUT", l.address+"/brokers/"+string(rune('a'+drained%3))+"/drain", "")
		time.Sleep(1500 * time.Millisecond)
		_, epochs := f.since()
		at := store.Now()
		do()
		settled(t, "another leads", func() bool { _, now := f.since(); return now > epochs })
		took := store.Now() - at
		fmt.Printf("distributor: %s: orders again after %v (a term is %v)\n", what, took.Round(time.Millisecond), time.Duration(term))
		if strings.Contains(what, "killed") {
			fastest = min(fastest, took)
		}
		time.Sleep(time.Second)
	}
	for range 2 {
		l, _ := leader()
		outage("the distributor that led was killed", l.kill)
		l.begin(t)
		l, _ = leader()
		outage("the distributor that led was stopped", func() { l.signal(syscall.SIGSTOP) })
		l.signal(syscall.SIGCONT)
		time.Sleep(500 * time.Millisecond)
	}
	l, _ = leader()
	outage("the distributor that led got SIGTERM", func() { l.signal(syscall.SIGTERM) })
	l.command.Wait()
	l.begin(t)
	at := store.Now()
	e.Leader().Kill()
	settled(t, "orders", func() bool { last, _ := f.since(); return last > at+100*time.Millisecond })
	_, epochs := f.since()
	leader()
	var text2 string
	settled(t, "who leads knows of the topic", func() bool { // its term may end just now
		_, text2 = call(t, "GET", addresses[0]+"/topics", "")
		return strings.Contains(text2, "alarms")
	})
	settled(t, "the ensemble saves again", func() bool {
		status, _ := call(t, "PUT", addresses[0]+"/topics/alarms", `{"rate": "1k/s", "depth": 26, "each": "10/s"}`)
		return status == 200
	})
	_, now := f.since()
	fmt.Printf("distributor: ZooKeeper's leader was killed: what a topic is to be was saved again after %v; leaders since: %d\n", (store.Now() - at).Round(time.Millisecond), now-epochs)
	cancel()
	all.Wait()
	if fastest > term*3/4 {
		t.Errorf("its kernel knows at once that the leader is dead, and the faster of two takeovers took %v", fastest)
	}
	if f.broken != "" {
		t.Error(f.broken)
	}
	if f.changes < 20 || len(f.epochs) < 6 || !strings.Contains(text2, "alarms") {
		t.Errorf("%d changes of shares, %d leaders, %s: nothing is proven", f.changes, len(f.epochs), text2)
	}
	fmt.Printf("distributor: %d changes of shares under %d leaders\n", f.changes, len(f.epochs))
}
