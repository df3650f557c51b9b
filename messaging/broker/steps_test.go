// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// steps are what the wall clock was set by, and undoes them in stamps. The clock is set only where GIUSTO_STEPS=1 says
// that it is the test's: in a guest (tests/messaging-clock.sh).
type steps struct {
	began time.Time
	mutex sync.Mutex
	sum   time.Duration
	sums  map[time.Duration]bool // what it was ahead by at some time
}

var (
	clockIsOurs = os.Getenv("GIUSTO_STEPS") == "1"
	wall        = &steps{began: time.Now(), sums: map[time.Duration]bool{0: true}}
)

// step sets the clock, by whole seconds, in one step of the kernel.
func (s *steps) step(by time.Duration) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_SETOFFSET, Time: unix.NsecToTimeval(int64(by))})
	if err == nil {
		s.sum += by
		s.sums[s.sum] = true
	}
	return err
}

// even is what the clock would have shown, had it never been set, when it showed `shown`, a short time before `read`.
func (s *steps) even(shown int64, read time.Time) int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := s.began.UnixNano() + int64(read.Sub(s.began))
	best, off := shown, int64(1<<62)
	for sum := range s.sums {
		one := shown - int64(sum)
		if d := max(at-one, one-at); d < off {
			best, off = one, d
		}
	}
	return best
}

// now is even for now.
func (s *steps) now() int64 { now := time.Now(); return s.even(now.UnixNano(), now) }
