// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// publisher is a connection that publishes one message or batch at a time, each after the OK of the one before, as NSQ's clients do. It is
// written for little processor time: the load is on the broker's cores, and what it takes shows in the broker's latency.
type publisher struct {
	conn net.Conn
	command

	mutex   sync.Mutex
	busy    bool // an OK is awaited
	waiting int  // how often it was due, and waits for it
	failed  error
}

// command publishes bodies whose first 8 bytes are the time of sending, in ns; 0 does not count.
type command struct {
	bytes []byte
	at    []int // of those bytes
}

func (l Load) command() command {
	if l.Batch == 0 {
		head := binary.BigEndian.AppendUint32(fmt.Appendf(nil, "PUB %s\n", l.Topic), uint32(l.Size))
		return command{append(head, make([]byte, l.Size)...), []int{len(head)}}
	}
	c := command{bytes: fmt.Appendf(nil, "MPUB %s\n", l.Topic)}
	c.bytes = binary.BigEndian.AppendUint32(c.bytes, uint32(4+l.Batch*(4+l.Size)))
	c.bytes = binary.BigEndian.AppendUint32(c.bytes, uint32(l.Batch))
	for range l.Batch {
		c.bytes = binary.BigEndian.AppendUint32(c.bytes, uint32(l.Size))
		c.at = append(c.at, len(c.bytes))
		c.bytes = append(c.bytes, make([]byte, l.Size)...)
	}
	return c
}

var answered = []byte("\x00\x00\x00\x06\x00\x00\x00\x00OK")

// connect publishes once, which makes the topic, and waits for its OK.
func connect(address string, what command) (*publisher, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &publisher{conn: conn, command: command{slices.Clone(what.bytes), what.at}}
	if _, err = conn.Write(append([]byte("  V2"), p.bytes...)); err == nil {
		err = p.read(make([]byte, len(answered)))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	go p.answers()
	return p, nil
}

// read takes an OK.
func (p *publisher) read(into []byte) error {
	if _, err := io.ReadFull(p.conn, into); err != nil {
		return err
	}
	if string(into) != string(answered) {
		return fmt.Errorf("answered %q", into)
	}
	return nil
}

// answers takes OKs until the connection ends, and sends what waited for them.
func (p *publisher) answers() {
	frame := make([]byte, len(answered))
	for {
		err := p.read(frame)
		p.mutex.Lock()
		switch {
		case errors.Is(err, net.ErrClosed):
		case err != nil:
			p.failed = err
		case p.waiting > 0:
			p.waiting--
			p.write()
		default:
			p.busy = false
		}
		p.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

// publish sends now, or after the OK that is awaited.
func (p *publisher) publish() {
	p.mutex.Lock()
	if p.busy {
		p.waiting++
	} else {
		p.write()
	}
	p.mutex.Unlock()
}

func (p *publisher) write() {
	p.busy = true
	now := uint64(time.Now().UnixNano())
	for _, at := range p.at {
		binary.BigEndian.PutUint64(p.bytes[at:], now)
	}
	if _, err := p.conn.Write(p.bytes); err != nil {
		p.failed = err
	}
}

func (p *publisher) failure() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.failed
}

// due is when a publisher sends next.
type due struct {
	after  time.Duration
	who    *publisher
	random *rand.Rand
}

type schedule []due

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].after < s[j].after }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)        { *s = append(*s, x.(due)) }
func (s *schedule) Pop() any          { panic("a publisher publishes for ever") }

// send has all publishers publish at random for as long as the load says; how many messages, and how late they were sent.
// It sleeps in the kernel: Go's timers are a millisecond late, and what is due would be sent in bunches.
func (l Load) send(publishers []*publisher, first time.Time) (sent int, lateness []time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // what it was
	next := make(schedule, len(publishers))
	for n, p := range publishers {
		random := rand.New(rand.NewPCG(uint64(n), l.Seed))
		next[n] = due{l.gap(random), p, random}
	}
	heap.Init(&next)
	for next[0].after < l.For {
		if wait := next[0].after - time.Since(first); wait > 0 {
			pause := unix.NsecToTimespec(int64(wait))
			unix.Nanosleep(&pause, nil) // a signal may wake it early
			continue
		}
		lateness = append(lateness, time.Since(first)-next[0].after)
		next[0].who.publish()
		next[0].after += l.gap(next[0].random)
		heap.Fix(&next, 0)
	}
	slices.Sort(lateness)
	return len(lateness) * max(l.Batch, 1), lateness
}

func (l Load) gap(random *rand.Rand) time.Duration {
	return time.Duration(random.ExpFloat64() * float64(max(l.Batch, 1)) / l.Each * 1e9)
}
