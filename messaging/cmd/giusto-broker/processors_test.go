// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Whatever the load: from 1 to the most; enough of them soon, no more than needed after a while, and then it rests.
func TestAsManyProcessorsAsThereIsWorkFor(t *testing.T) {
	grown, shrunk := 0, 0
	for most := 1; most <= 8; most++ {
		for from := 1; from <= most; from++ {
			for percent := 0; percent <= 100*most; percent += 5 {
				p := processors{now: from, most: most}
				demand := every * time.Duration(percent) / 100
				changed := 0 // the last look that changed something
				for look := range 400 {
					was := p.now
					p.next(min(demand, every*time.Duration(p.now)), 0, every) // no more than it has
					if p.now < 1 || p.now > most || p.now > was+1 || p.now < was-1 {
						t.Fatalf("%d processors after %d of %d", p.now, was, most)
					}
					if p.now != was {
						changed = look
					}
					grown, shrunk = grown+max(p.now-was, 0), shrunk+max(was-p.now, 0)
				}
				if need := (percent + 99) / 100; p.now < min(need, most) {
					t.Errorf("%d of %d processors for %d %% of one", p.now, most, percent)
				}
				if slow := most * int(least/every); changed > slow {
					t.Errorf("at %d %% and from %d of %d it still changes after %d looks", percent, from, most, changed)
				}
				if p.now > 1 && demand <= every*time.Duration(p.now-1)*3/5 {
					t.Errorf("%d processors for %d %%, one less would do", p.now, percent)
				}
			}
		}
	}
	if grown == 0 || shrunk == 0 {
		t.Error("nothing grew or shrank")
	}
}

// Two threads wait for each other's processors, one for none: one is enough, and it is found out. Where it is not, that is tried
// ever more rarely.
func TestFewerAreTriedAndRarelyInVain(t *testing.T) {
	for _, c := range []struct {
		waits   [2]time.Duration // with one and with two
		end     int
		changes int
	}{{[2]time.Duration{5, 11}, 1, 1}, {[2]time.Duration{16, 16}, 2, 16}} {
		p, changes, looks := processors{now: 2, most: 2}, 0, 2*time.Minute/every
		for range looks {
			was := p.now
			p.next(every*22/100, every*c.waits[was-1]/100, every)
			changes += max(p.now-was, was-p.now)
		}
		if p.now != c.end || changes > c.changes || changes == 0 {
			t.Errorf("%v: %d processors after %d changes", c.waits, p.now, changes)
		}
	}
}

// What threads wait for the only processor of a machine is seen, whichever of them came since.
func TestWaitingIsSeen(t *testing.T) {
	var stands threads
	before := stands.waited(time.Now())
	var all sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		all.Add(1)
		go func() {
			defer all.Done()
			runtime.LockOSThread() // a thread of its own, which ends with it
			for end := used() + 100*time.Millisecond; used() < end; {
			}
		}()
	}
	time.Sleep(20 * time.Millisecond)
	stands.listed = time.Time{}
	first := stands.waited(time.Now())
	all.Wait()
	stands.listed = time.Time{}
	stands.waited(time.Now())
	if first < before || len(stands.open) == 0 {
		t.Errorf("%v waited, then %v, %d threads", before, first, len(stands.open))
	}
	for name, fd := range stands.open {
		var text [64]byte
		if _, err := syscall.Pread(fd, text[:], 0); err != nil {
			t.Errorf("thread %s: %v", name, err)
		}
	}
}

func TestWorkIsGivenAProcessorWithinALook(t *testing.T) {
	p := processors{now: 1, most: 2}
	if p.next(every*79/100, 0, every) != 1 || p.next(every*81/100, 0, every) != 2 {
		t.Error("four fifths are the limit")
	}
}
