// SPDX-License-Identifier: Apache-2.0

// Package store keeps what a distributor must not forget, and says which of several distributors leads: in memory, in a directory, or
// in ZooKeeper. What it keeps are small records, one or two a topic; nothing of a single publisher.
package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Record is one thing that is kept. Its Key is FOLDER/NAME; a nil Value: it is gone.
type Record struct {
	Key   string
	Value []byte
}

// Store says who leads. Close ends it, and a leadership with it.
type Store interface {
	// Lead waits until this process leads. The address is told to those that wait.
	Lead(ctx context.Context, address string) (Leadership, error)
	// Leader is the leader's address, as far as a process knows that waits in Lead; "": none is known.
	Leader() string
	Close() error
}

// Leadership is one time of being the leader.
type Leadership interface {
	// Epoch is higher than that of every leader before.
	Epoch() uint64
	// Until is an instant of Now before which no other process can have become the leader. It moves on while all is well.
	Until() time.Duration
	// Turn says that who leads is at work. From the first on, a leadership with a term ends when there was none for that long: a leader
	// that hangs must not lead on because its beat does not.
	Turn()
	// Lost is closed when Until has passed, or another process leads.
	Lost() <-chan struct{}
	// Load gives all records; those of leaders before are complete, since none of them can save any more.
	Load(ctx context.Context) ([]Record, error)
	// Save keeps all of the records or none, on disk when it returns. The error is ErrFenced if another process leads: then
	// none was kept. After any other error they may be kept or not.
	Save(ctx context.Context, records ...Record) error
	// Resign lets another lead at once. Who calls it has stopped acting as a leader.
	Resign()
}

// first is the epoch before the first of an empty store. Brokers remember orders of a store that was thrown away, and would refuse those of
// lower epochs for ever: the wall clock's seconds are more than it had, as long as it had less than one leader a second.
func first() uint64 { return uint64(max(0, time.Now().Unix())) }

// ErrFenced says that another process leads now.
var ErrFenced = errors.New("another distributor leads now: this one may change nothing any more")

// Forever is what Until says where nothing but the end of the process ends a leadership.
const Forever = time.Duration(1<<63 - 1)

// Now is the time since the machine started, sleep included: a machine that was asleep does not believe that it still leads.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(now.Nano())
}

// split takes a key apart, each part as a file or a znode may be called.
func split(key string) (folder, name string, err error) {
	folder, name, ok := strings.Cut(key, "/")
	if !ok || folder == "" || name == "" {
		return "", "", fmt.Errorf("%q is not a record's key: FOLDER/NAME", key)
	}
	return escape(folder), escape(name), nil
}

// escape spells a name so that it has no slash and is neither . nor .., which topics may be called.
func escape(name string) string {
	name = url.PathEscape(name)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	return name
}

// join is split's inverse.
func join(folder, name string) string {
	for _, part := range []*string{&folder, &name} {
		if plain, err := url.PathUnescape(*part); err == nil {
			*part = plain
		}
	}
	return folder + "/" + name
}

// loss is what every kind of leadership ends with.
type loss struct {
	once sync.Once
	lost chan struct{}
}

func newLoss() loss                   { return loss{lost: make(chan struct{})} }
func (l *loss) Lost() <-chan struct{} { return l.lost }
func (l *loss) Turn()                 {} // where there is no term
func (l *loss) lose()                 { l.once.Do(func() { close(l.lost) }) }
func (l *loss) gone() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}
