// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"giusto.dev/messaging/ensemble"
)

// term is short, so that tests are; not so short that two busy cores end it.
const term = 2500 * time.Millisecond

// laws hold of all kinds of stores. open gives another process's view of the same data.
var laws = map[string]func(t *testing.T, open func() Store){
	"at most one leads at any instant":               atMostOneLeads,
	"a fenced save fails and says so":                aFencedSaveFails,
	"what was saved is loaded, and epochs grow":      whatWasSavedIsLoaded,
	"an empty store begins above one thrown away":    anEmptyStoreBeginsAbove,
	"who waits knows the leader":                     whoWaitsKnowsTheLeader,
	"all records of a save are kept, or none":        allOrNone,
	"who leads again after a resignation leads soon": resignationIsSoon,
}

func TestMemory(t *testing.T) {
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			m := NewMemory()
			law(t, func() Store { return m })
		})
	}
}

func TestFile(t *testing.T) {
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			law(t, func() Store { return file(t, dir) })
		})
	}
}

func TestZooKeeper(t *testing.T) {
	servers := ensemble.Start(t, 3).Addresses()
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			forget(t, servers)
			law(t, func() Store { return zookeeper(t, servers) })
		})
	}
}

func file(t *testing.T, dir string) *File {
	f, err := NewFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// forget removes all that is in an ensemble.
func forget(t *testing.T, servers []string) {
	z := zookeeper(t, servers)
	defer z.Close()
	settled(t, "gone", func() string {
		folders, _, err := z.conn.Children(Root)
		for _, folder := range folders {
			names, _, _ := z.conn.Children(Root + "/" + folder)
			for _, name := range names {
				z.conn.Delete(Root+"/"+folder+"/"+name, -1)
			}
			z.conn.Delete(Root+"/"+folder, -1)
		}
		if err == zk.ErrNoNode || err == nil && len(folders) == 0 {
			return "gone"
		}
		return ""
	})
}

func zookeeper(t *testing.T, servers []string) *ZooKeeper {
	z, err := NewZooKeeper(servers, term, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func lead(t *testing.T, s Store, address string) Leadership {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := s.Lead(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// die ends a leadership as the end of its process does: without any message.
func die(l Leadership) {
	switch l := l.(type) {
	case *inZooKeeper:
		l.end()
	case *inFile:
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.lose() // the process is dead, and does nothing more
		l.lock.Close()
	case *inMemory:
		l.Resign()
	}
}

// act is something that a leader did, at an instant at which it was certain.
type act struct {
	epoch uint64
	at    time.Duration
}

// inOrder is the law: no leader acts after one of a higher epoch has.
func inOrder(t *testing.T, acts []act) (leaders int) {
	t.Helper()
	slices.SortFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	last := uint64(0)
	for _, a := range acts {
		if a.epoch < last {
			t.Fatalf("epoch %d acts at %v, after epoch %d", a.epoch, a.at, last)
		}
		if a.epoch > last {
			leaders++
		}
		last = a.epoch
	}
	return leaders
}

// A broker that remembers the epochs of a store that was thrown away follows the leaders of a new one.
func anEmptyStoreBeginsAbove(t *testing.T, open func() Store) {
	before := uint64(time.Now().Unix())
	s := open()
	defer s.Close()
	l := lead(t, s, "one")
	if l.Epoch() <= before {
		t.Errorf("epoch %d at %d", l.Epoch(), before)
	}
	l.Resign()
	if next := lead(t, s, "two"); next.Epoch() != l.Epoch()+1 {
		t.Errorf("epoch %d after %d", next.Epoch(), l.Epoch())
	}
}

// Four processes that lead, resign, die, and go on acting for as long as they may, never act in another's time.
func atMostOneLeads(t *testing.T, open func() Store) {
	var mutex sync.Mutex
	var acts []act
	var all sync.WaitGroup
	end := time.Now().Add(60 * time.Second)
	leaders := atomic.Int64{}
	for process := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			random := rand.New(rand.NewPCG(uint64(process), 1))
			s := open()
			defer s.Close()
			for leaders.Load() < 8 && time.Now().Before(end) {
				ctx, cancel := context.WithDeadline(context.Background(), end)
				l, err := s.Lead(ctx, fmt.Sprint("process ", process))
				cancel()
				if err != nil {
					return
				}
				leaders.Add(1)
				stop := time.Now().Add(time.Duration(random.Int64N(int64(term))))
				dead := false
				for now := Now(); now < l.Until(); now = Now() {
					mutex.Lock()
					acts = append(acts, act{l.Epoch(), now})
					mutex.Unlock()
					time.Sleep(200 * time.Microsecond)
					if !dead && time.Now().After(stop) {
						if random.IntN(2) == 0 {
							break
						}
						dead = true
						die(l)
					}
				}
				if !dead {
					l.Resign()
				}
			}
		}()
	}
	all.Wait()
	if leaders := inOrder(t, acts); leaders < 5 {
		t.Errorf("a process led only %d times: nothing is proven", leaders)
	}
}

// A leader that another has followed saves nothing, and is told so.
func aFencedSaveFails(t *testing.T, open func() Store) {
	ctx := context.Background()
	first, second := open(), open()
	old := lead(t, first, "one")
	save(t, old, Record{"topics/a", []byte("1")})
	die(old)
	l := lead(t, second, "two")
	if l.Epoch() <= old.Epoch() {
		t.Error("epochs", old.Epoch(), l.Epoch())
	}
	if z, yes := old.(*inZooKeeper); yes { // it does not know yet
		unaware := &inZooKeeper{loss: newLoss(), of: z.of, epoch: z.epoch, fence: z.fence}
		unaware.ended, unaware.end = context.WithCancel(context.Background())
		old = unaware
	}
	if err := save(t, old, Record{"topics/a", []byte("2")}, Record{"topics/b", []byte("2")}); !errors.Is(err, ErrFenced) {
		t.Error("a fenced save:", err)
	}
	if err := save(t, old, Record{"topics/a", nil}); !errors.Is(err, ErrFenced) {
		t.Error("a fenced delete:", err)
	}
	holds(t, l, map[string]string{"topics/a": "1"})
	select {
	case <-old.Lost():
	case <-time.After(5 * time.Second):
		t.Error("the old leader is not told")
	}
	if old.Until() > Now() {
		t.Error("the old leader still thinks that it leads")
	}
	l.Resign()
	if err := l.Save(ctx, Record{"topics/a", []byte("3")}); !errors.Is(err, ErrFenced) {
		t.Error("a save after resigning:", err)
	}
}

// save tries again what may not have been saved; what is left is ErrFenced.
func save(t *testing.T, l Leadership, records ...Record) error {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		err := l.Save(context.Background(), records...)
		if err == nil || errors.Is(err, ErrFenced) {
			return err
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func holds(t *testing.T, l Leadership, want map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	records, err := l.Load(ctx)
	for err != nil && !errors.Is(err, ErrFenced) && ctx.Err() == nil {
		records, err = l.Load(ctx)
	}
	got := map[string]string{}
	for _, r := range records {
		got[r.Key] = string(r.Value)
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v %v, expected %v", got, err, want)
	}
}

// What leaders saved, and nothing else, the next one loads, whatever topics are called; epochs grow when all processes are new.
func whatWasSavedIsLoaded(t *testing.T, open func() Store) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(7, 7))
	names := []string{"a", ".", "..", "x#ephemeral", "a.b-c_d", "%2E", strings.Repeat("n", 64)}
	want, epoch := map[string]string{}, uint64(0)
	for range 6 {
		s := open()
		l := lead(t, s, "one")
		if l.Epoch() <= epoch {
			t.Fatal("epoch", l.Epoch(), "after", epoch)
		}
		holds(t, l, want)
		for range 10 {
			var records []Record
			for _, n := range random.Perm(len(names))[:1+random.IntN(3)] {
				for _, folder := range []string{"topics", "assign"} {
					r := Record{Key: folder + "/" + names[n]}
					delete(want, r.Key)
					if random.IntN(3) > 0 {
						r.Value = bytes.Repeat([]byte{byte('a' + random.IntN(26))}, random.IntN(40))
						want[r.Key] = string(r.Value)
					}
					records = append(records, r)
				}
			}
			for save(t, l, records...) != nil { // on a machine that is very busy
				l = lead(t, s, "one")
			}
		}
		if err := l.Save(ctx, Record{"nofolder", []byte("x")}); err == nil {
			t.Error("a key without a folder is taken")
		}
		holds(t, l, want)
		epoch = l.Epoch()
		if random.IntN(2) == 0 {
			l.Resign()
		} else {
			die(l)
		}
		if s.Close(); len(want) == 0 {
			t.Error("nothing is proven")
		}
	}
}

// Who waits knows where to send those that ask it.
func whoWaitsKnowsTheLeader(t *testing.T, open func() Store) {
	first, second := open(), open()
	l := lead(t, first, "10.0.0.1:4170")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := second.Lead(ctx, "10.0.0.2:4170")
		ended <- err
	}()
	settled(t, "10.0.0.1:4170", second.Leader)
	if first.Leader() != "10.0.0.1:4170" {
		t.Error("the leader does not know itself:", first.Leader())
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.Resign()
}

func settled(t *testing.T, want string, of func() string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); of() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q, expected %q", of(), want)
		}
	}
}

// One record that cannot be kept keeps the others from it.
func allOrNone(t *testing.T, open func() Store) {
	l := lead(t, open(), "one")
	save(t, l, Record{"topics/a", []byte("1")})
	if err := l.Save(context.Background(), Record{"topics/a", []byte("2")}, Record{"b", []byte("2")}); err == nil || errors.Is(err, ErrFenced) {
		t.Error("a key without a folder:", err)
	}
	holds(t, l, map[string]string{"topics/a": "1"})
	die(l)
}

// A term is not waited for when the leader said that it goes.
func resignationIsSoon(t *testing.T, open func() Store) {
	first, second := open(), open()
	for range 5 {
		l := lead(t, first, "one")
		led := make(chan Leadership)
		go func() { led <- lead(t, second, "two") }()
		settled(t, "one", second.Leader)
		began := time.Now()
		l.Resign()
		next := <-led
		took := time.Since(began)
		next.Resign()
		if took < term/3 {
			return
		}
	}
	t.Error("each of five times it took as long as a death")
}
