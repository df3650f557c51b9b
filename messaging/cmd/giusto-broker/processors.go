// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// processors is how many of its processors Go should use. A message goes through four goroutines; with more processors than there
// is work for, each of them wakes an idle thread that looks for work and finds none, which costs a fifth of the processor time.
type processors struct {
	now, most int
	calm      time.Duration // for how long one less would have done
}

const (
	every = 50 * time.Millisecond // it is looked at
	rest  = time.Second           // of calm, until there is one less
)

// next says how many there should be after the program used so much processor time within so much time. One more as soon as
// four fifths are used, or waited for; one less when three fifths of what is left would have done for a while.
func (p *processors) next(used, within time.Duration) int {
	p.calm += within
	if used > within*time.Duration(p.now-1)*3/5 {
		p.calm = 0
	}
	switch {
	case used > within*time.Duration(p.now)*4/5 && p.now < p.most:
		p.now, p.calm = p.now+1, 0
	case p.calm >= rest && p.now > 1:
		p.now, p.calm = p.now-1, 0
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
	before, at := used(), time.Now()
	stood, known := time.Duration(0), false
	for range time.Tick(every) {
		now, clock := used(), time.Now()
		demand := now - before
		if known = known && demand > every/idle; demand > every/idle {
			stands := waited()
			if known {
				demand += weight * max(0, stands-stood)
			}
			stood, known = stands, true
		}
		if was := p.now; p.next(demand, clock.Sub(at)) != was {
			runtime.GOMAXPROCS(p.now)
		}
		before, at = now, clock
	}
}

const (
	// weight of the time that its threads waited for a processor that others had: a message waits with the thread, and
	// another processor of Go's is another chance. A sixth of the time is enough for one more.
	weight = 4
	// idle: who uses less than one part in so many of a processor is not asked how long it waited.
	idle = 50
)

// waited is how long its threads have waited for a processor.
func waited() (sum time.Duration) {
	tasks, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		var ran, delay int64
		fmt.Sscan(string(text), &ran, &delay)
		sum += time.Duration(delay)
	}
	return sum
}

// used is the processor time this program has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
