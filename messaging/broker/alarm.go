// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"container/heap"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarms wakes goroutines at times, all by one timerfd, because Go's timers are late by up to a millisecond where
// nothing else wakes the process: it then sleeps in whole milliseconds.
type alarms struct {
	file  *os.File
	fd    int
	epoch time.Time

	mutex sync.Mutex
	due   dues
	armed time.Duration // when the timerfd rings, since epoch; 0: it does not
}

// alarm is one that can be set. rung has something when its time has come.
type alarm struct {
	of    *alarms
	at    time.Duration
	index int // in due; -1: it is not set
	rung  chan struct{}
}

func newAlarms() (*alarms, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarms{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd, epoch: time.Now()}
	go a.run()
	return a, nil
}

// run rings until it is closed.
func (a *alarms) run() {
	var count [8]byte
	for {
		if _, err := a.file.Read(count[:]); err != nil {
			return
		}
		a.mutex.Lock()
		a.armed = 0
		now := time.Since(a.epoch)
		for len(a.due) > 0 && a.due[0].at <= now {
			heap.Pop(&a.due).(*alarm).ring()
		}
		a.arm()
		a.mutex.Unlock()
	}
}

// arm sets the timerfd for the earliest. Called with the lock held.
func (a *alarms) arm() {
	if len(a.due) == 0 || a.armed != 0 && a.armed <= a.due[0].at {
		return
	}
	a.armed = max(a.due[0].at, 1)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(a.armed-time.Since(a.epoch), 1)))}
	_ = unix.TimerfdSettime(a.fd, 0, &spec, nil) // a time that is one, of a descriptor that is open
}

func (a *alarms) close() { a.file.Close() }

// alarm makes one.
func (a *alarms) alarm() *alarm { return &alarm{of: a, index: -1, rung: make(chan struct{}, 1)} }

// set makes it ring after so long, and not at a time set before.
func (a *alarm) set(after time.Duration) {
	a.of.mutex.Lock()
	defer a.of.mutex.Unlock()
	a.at = time.Since(a.of.epoch) + after
	if a.index >= 0 {
		heap.Fix(&a.of.due, a.index)
	} else {
		heap.Push(&a.of.due, a)
	}
	a.of.arm()
}

// stop makes it not ring.
func (a *alarm) stop() {
	a.of.mutex.Lock()
	defer a.of.mutex.Unlock()
	if a.index >= 0 {
		heap.Remove(&a.of.due, a.index)
	}
}

// ring rings now.
func (a *alarm) ring() {
	select {
	case a.rung <- struct{}{}:
	default:
	}
}

// dues is a heap of alarms that are set.
type dues []*alarm

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}
func (d *dues) Push(x any) {
	x.(*alarm).index = len(*d)
	*d = append(*d, x.(*alarm))
}
func (d *dues) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	x.index = -1
	return x
}
