// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// processors is how many of its processors Go should use. A message goes through four goroutines; with more processors than there
// is work for, each of them wakes an idle thread that looks for work and finds none, which costs a fifth of the processor time.
type processors struct {
	now, most int
	calm      time.Duration // for how long one less would have done
	rest      time.Duration // of calm, until there is one less
	since     time.Duration // there was one less
	waits     time.Duration // what threads waited between two looks, over some of them: the machine's others come in bursts
}

const (
	every   = 50 * time.Millisecond // it is looked at
	least   = time.Second           // of rest
	longest = time.Minute
	// weight of the time that its threads waited for a processor that others had: a message waits with the thread, and
	// another processor of Go's is another chance. A sixth of the time is enough for one more.
	weight = 4
	// idle: who uses less than one part in so many of a processor is not asked how long it waited.
	idle = 50
)

// next says how many there should be after the program used and waited for so much processor time within so much time. One more
// as soon as four fifths are used, or waited for; one less when three fifths of what is left would have done for a while. What
// threads waited says nothing then: with several processors they wait for each other. So one less is tried; where it did not do,
// for twice as long not again.
func (p *processors) next(used, waited, within time.Duration) int {
	p.calm += within
	p.since += within
	p.waits += (waited - p.waits) / 4
	if used > within*time.Duration(p.now-1)*3/5 {
		p.calm = 0
	}
	switch rest := max(p.rest, least); {
	case used+weight*p.waits > within*time.Duration(p.now)*4/5 && p.now < p.most:
		if p.since > rest {
			p.rest = least
		} else {
			p.rest = min(2*rest, longest)
		}
		p.now, p.calm, p.waits = p.now+1, 0, 0
	case p.calm >= rest && p.now > 1:
		p.now, p.calm, p.since, p.waits = p.now-1, 0, 0, 0
	}
	return p.now
}

// adapt keeps Go's processors to what is needed, unless GOMAXPROCS says how many.
func adapt() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	p := processors{now: 1, most: runtime.GOMAXPROCS(0)}
	runtime.GOMAXPROCS(p.now)
	var stands threads
	before, at, stood, known := used(), time.Now(), time.Duration(0), false
	for range time.Tick(every) {
		now, clock, waited := used(), time.Now(), time.Duration(0)
		if busy := now-before > every/idle; busy {
			stand := stands.waited(clock)
			if known {
				waited = max(0, stand-stood)
			}
			stood, known = stand, true
		} else {
			known = false
		}
		if was := p.now; p.next(now-before, waited, clock.Sub(at)) != was {
			runtime.GOMAXPROCS(p.now)
		}
		before, at = now, clock
	}
}

// threads are this program's, each with its open schedstat: to find and open them takes half a millisecond, in which a message
// waits where there is one processor.
type threads struct {
	open   map[string]int // descriptors
	listed time.Time
}

// waited is how long they have waited for a processor.
func (t *threads) waited(now time.Time) (sum time.Duration) {
	if now.Sub(t.listed) > time.Second {
		t.list()
		t.listed = now
	}
	var text [64]byte
	for _, fd := range t.open {
		// Without Go's poller; the file is the kernel's memory. A thread that has ended reads as nothing.
		n, err := syscall.Pread(fd, text[:], 0)
		fields := bytes.Fields(text[:max(n, 0)])
		if err != nil || len(fields) < 2 {
			continue
		}
		delay, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		sum += time.Duration(delay)
	}
	return sum
}

// list opens those of new threads and closes those of threads that have ended.
func (t *threads) list() {
	const folder = "/proc/self/task"
	there, _ := os.ReadDir(folder)
	before := t.open
	t.open = make(map[string]int, len(there))
	for _, thread := range there {
		fd, known := before[thread.Name()]
		if !known {
			var err error
			path := filepath.Join(folder, thread.Name(), "schedstat")
			if fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
				continue
			}
		}
		t.open[thread.Name()] = fd
		delete(before, thread.Name())
	}
	for _, fd := range before {
		syscall.Close(fd)
	}
}

// used is the processor time this program has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
