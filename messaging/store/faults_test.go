// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"giusto.dev/messaging/ensemble"
)

// TestMain makes this program a process that leads where a test wants one that it can kill or stop. It says on its standard output what
// it does: `act EPOCH INSTANT`, `saved EPOCH NUMBER`, `fenced EPOCH`.
func TestMain(m *testing.M) {
	where := os.Getenv("STORE_WHERE")
	if where == "" {
		os.Exit(m.Run())
	}
	var s Store
	var err error
	if dir, yes := strings.CutPrefix(where, "file "); yes {
		s, err = NewFile(dir)
	} else {
		s, err = NewZooKeeper(strings.Fields(where), term, func(string, ...any) {})
	}
	if err != nil {
		panic(err)
	}
	for {
		l, err := s.Lead(context.Background(), fmt.Sprint(os.Getpid()))
		if err != nil {
			panic(err)
		}
		for n := 0; ; { // a number until it is saved, so that the last tells of all before it
			now := Now()
			if now >= l.Until() {
				break
			}
			fmt.Println("act", l.Epoch(), int64(now))
			err := l.Save(context.Background(), Record{fmt.Sprintf("topics/%d-%d", l.Epoch(), n%20), []byte(fmt.Sprint(n))})
			if err == nil {
				fmt.Println("saved", l.Epoch(), n)
				n++
			}
			if errors.Is(err, ErrFenced) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println("fenced", l.Epoch())
	}
}

// process is such a process, and what it said.
type process struct {
	command *exec.Cmd
	read    sync.WaitGroup

	mutex sync.Mutex
	acts  []act
	saved map[uint64]int // the last number by epoch
	over  map[uint64]bool
}

func begin(t *testing.T, where string) *process {
	p := &process{command: exec.Command(os.Args[0]), saved: map[uint64]int{}, over: map[uint64]bool{}}
	p.command.Env = append(os.Environ(), "STORE_WHERE="+where)
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.read.Add(1)
	go func() {
		defer p.read.Done()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var what string
			var epoch uint64
			var number int64
			fmt.Sscan(lines.Text(), &what, &epoch, &number)
			p.mutex.Lock()
			switch what {
			case "act":
				p.acts = append(p.acts, act{epoch, time.Duration(number)})
			case "saved":
				p.saved[epoch] = int(number)
			case "fenced":
				p.over[epoch] = true
			}
			p.mutex.Unlock()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	p.command.Process.Kill()
	p.read.Wait()
	p.command.Wait()
}

// epoch is the last in which it acted.
func (p *process) epoch() uint64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.acts) == 0 {
		return 0
	}
	return p.acts[len(p.acts)-1].epoch
}

func wait(t *testing.T, what string, of func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !of(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in a minute not: ", what)
		}
	}
}

// kept says whether all saves that were said to be done are there.
func kept(t *testing.T, l Leadership, saved map[uint64]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	records, err := l.Load(ctx)
	for err != nil && ctx.Err() == nil {
		records, err = l.Load(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, r := range records {
		there[r.Key] = string(r.Value)
	}
	for epoch, last := range saved {
		for n := max(0, last-18); n <= last; n++ { // the one after the last may be there, too
			var got int
			fmt.Sscan(there[fmt.Sprintf("topics/%d-%d", epoch, n%20)], &got)
			if got < n {
				t.Fatalf("epoch %d: what was saved as %d is %d", epoch, n, got)
			}
		}
	}
}

// A directory survives kill -9 at any instant: the next process leads at once, with all that was saved.
func TestFileSurvivesKills(t *testing.T) {
	dir := t.TempDir()
	saved := map[uint64]int{}
	for kill := range 8 {
		p := begin(t, "file "+dir)
		// Every other one has saved something, however slow the disk is.
		wait(t, "it leads", func() bool {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			return len(p.acts) > 0 && (kill%2 == 0 || len(p.saved) > 0)
		})
		time.Sleep(time.Duration(kill*7) * time.Millisecond)
		p.kill()
		for epoch, n := range p.saved {
			saved[epoch] = n
		}
		s := file(t, dir)
		l := lead(t, s, "test")
		kept(t, l, saved)
		s.Close()
	}
	if len(saved) < 4 {
		t.Error("nothing is proven:", saved)
	}
}

// A full disk fails a save, harms nothing that was saved, and is over when there is room again.
func TestFileSurvivesAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("a small file system cannot be mounted here:", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := file(t, dir)
	l := lead(t, s, "one")
	small, large := Record{"topics/a", []byte("1")}, Record{"topics/b", make([]byte, 200<<10)}
	ctx := context.Background()
	if err := l.Save(ctx, small); err != nil {
		t.Fatal(err)
	}
	if err := l.Save(ctx, large); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal("a full disk:", err)
	}
	holds(t, l, map[string]string{"topics/a": "1"})
	die(l) // what is on the disk counts
	next := lead(t, file(t, dir), "another")
	holds(t, next, map[string]string{"topics/a": "1"})
	if next.Epoch() <= l.Epoch() {
		t.Error("epochs", l.Epoch(), next.Epoch())
	}
	small.Value = []byte("2")
	if err := next.Save(ctx, small); err != nil {
		t.Error("there is room for a small one:", err)
	}
	die(next)
	holds(t, lead(t, file(t, dir), "a third"), map[string]string{"topics/a": "2"})
}

// Processes that are killed, or stopped for longer than their term and go on, and servers of the ensemble that are killed or stopped, its
// leader first of all: no process acts in another's time, and nothing that was saved is lost.
func TestZooKeeperUnderFaults(t *testing.T) {
	e := ensemble.Start(t, 3)
	where := strings.Join(e.Addresses(), " ")
	var acts []act
	saved := map[uint64]int{}
	add := func(p *process) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		acts = append(acts, p.acts...)
		for epoch, n := range p.saved {
			saved[epoch] = n
		}
	}
	one, two := begin(t, where), begin(t, where)
	leader := func() (p, other *process) {
		wait(t, "a process leads", func() bool { return one.epoch() != two.epoch() })
		if one.epoch() > two.epoch() {
			return one, two
		}
		return two, one
	}

	// Stopped for three terms: the other leads, and it does not act when it wakes.
	for range 2 {
		p, other := leader()
		old := p.epoch()
		p.command.Process.Signal(syscall.SIGSTOP)
		wait(t, "the other leads", func() bool { return other.epoch() > old })
		time.Sleep(term)
		p.command.Process.Signal(syscall.SIGCONT)
		wait(t, "who was stopped knows it", func() bool { p.mutex.Lock(); defer p.mutex.Unlock(); return p.over[old] })
	}

	// Killed: the other leads.
	p, other := leader()
	old, at := p.epoch(), Now()
	p.kill()
	wait(t, "the other leads", func() bool { return other.epoch() > old })
	fmt.Printf("store: a process that led was killed: after %v (its term is %v) the other acts\n", Now()-at, time.Duration(term))
	add(p)
	one, two = begin(t, where), other

	// The ensemble's leader is killed: the process that leads goes on, or the other takes over.
	server := e.Leader()
	p, _ = leader()
	p.mutex.Lock()
	old, n := p.acts[len(p.acts)-1].epoch, p.saved[p.acts[len(p.acts)-1].epoch]
	p.mutex.Unlock()
	at = Now()
	server.Kill()
	wait(t, "a process saves again", func() bool {
		for _, p := range []*process{one, two} {
			p.mutex.Lock()
			last := p.saved[old]
			epoch := uint64(0)
			for e := range p.saved {
				epoch = max(epoch, e)
			}
			p.mutex.Unlock()
			if epoch > old || last > n+100 {
				return true
			}
		}
		return false
	})
	fmt.Printf("store: ZooKeeper's leader was killed: 100 saves more after %v\n", Now()-at)
	if err := server.Begin(); err != nil {
		t.Fatal(err)
	}
	wait(t, "it serves again", func() bool { return server.Mode() != "" })

	// Each server hangs for a term.
	for _, s := range e.Servers {
		s.Signal(syscall.SIGSTOP)
		time.Sleep(term)
		s.Signal(syscall.SIGCONT)
		time.Sleep(term / 2)
	}
	leader()
	one.kill()
	two.kill()
	add(one)
	add(two)
	z := zookeeper(t, e.Addresses())
	defer z.Close()
	kept(t, lead(t, z, "test"), saved)
	if leaders := inOrder(t, acts); leaders < 4 {
		t.Errorf("a process led only %d times: nothing is proven", leaders)
	}
}
