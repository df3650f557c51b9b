// SPDX-License-Identifier: Apache-2.0

// Package clock tells the time that gates and buckets reckon with, and the leases', which goes on while the machine sleeps.
package clock

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells the gates' time, ns of the monotonic clock since an epoch, and the leases', which goes on while the machine sleeps
// (CLOCK_BOOTTIME). Go reads that only by a system call. What Go's time.Now reads in any case tells whether that is needed: in a sleep
// the real-time clock, too, gains on the monotonic one, and otherwise only when it is set.
type Clock struct {
	epoch time.Time
	Slept atomic.Int64 // what the leases' time is ahead of the gates', as it was read last
	real  atomic.Int64 // what real time was ahead of the gates' then
}

// early is how long ago the epoch was when the clock was made. The leases' time counts from as long before the boot: it is
// never behind the gates', also of a program that begins right after the boot.
const early = 10 * time.Second

// New is one whose epoch is ten seconds ago.
func New() *Clock {
	c := &Clock{epoch: time.Now().Add(-early)}
	c.look()
	return c
}

// At is the gates' time.
func (c *Clock) At(t time.Time) uint64 { return uint64(t.Sub(c.epoch)) }

// Ahead is what the leases' time is ahead of the gates' at t.
func (c *Clock) Ahead(t time.Time) uint64 {
	const tolerance = int64(time.Millisecond) // a thread that loses its processor between two readings; no sleep is as short
	if off := t.UnixNano() - int64(t.Sub(c.epoch)) - c.real.Load(); off > tolerance || off < -tolerance {
		c.look()
	}
	return uint64(c.Slept.Load())
}

// look reads how far both clocks are ahead.
func (c *Clock) look() {
	var boot unix.Timespec
	for range 10 {
		before := time.Now()
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
			return // no kernel that Go runs on
		}
		c.Slept.Store(boot.Nano() + int64(early) - int64(before.Sub(c.epoch)))
		c.real.Store(before.UnixNano() - int64(before.Sub(c.epoch)))
		if time.Since(before) < 100*time.Microsecond {
			return
		}
	}
}

// Leases is the leases' time.
func (c *Clock) Leases(t time.Time) uint64 { return c.At(t) + c.Ahead(t) }
