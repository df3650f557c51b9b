// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"
	"time"

	"giusto.dev/messaging/wire"
)

const (
	// kept is how many seconds of a topic wait to be reported.
	keptSeconds = 30
	// bins of a histogram: up to 1.02^1199 us, some hours.
	bins = 1200
)

// Tally counts what comes and is delivered of one topic, by second of the gates' time, for the distributor.
type Tally struct {
	mutex     sync.Mutex
	at        int64 // the second that is counted
	second    wire.Second
	delivered *[bins]uint32 // in that second; nil: never any
	most      int           // the last bin that has some, and one
	done      []wire.Second
}

// Came counts messages that were accepted, and how much of the bucket they used.
func (t *Tally) Came(now uint64, messages int, follows bool, used uint64) {
	t.mutex.Lock()
	t.turn(now)
	t.second.Messages += uint64(messages)
	if !follows {
		t.second.Unmanaged += uint64(messages)
	}
	t.second.Used = max(t.second.Used, used)
	t.mutex.Unlock()
}

// Sent counts a message that was written to a consumer so long after it came.
func (t *Tally) Sent(now uint64, after time.Duration) {
	bin := min(wire.Bin(after), bins-1)
	t.mutex.Lock()
	t.turn(now)
	if t.delivered == nil {
		t.delivered = new([bins]uint32)
	}
	t.delivered[bin]++
	t.most = max(t.most, bin+1)
	t.mutex.Unlock()
}

// turn closes the second that is counted when it is over. Seconds in which nothing happened count: their mean is wanted.
func (t *Tally) turn(now uint64) {
	at := int64(now / 1e9)
	if at <= t.at {
		return
	}
	if t.at > 0 {
		t.second.At = t.at
		for bin := range t.most {
			if count := t.delivered[bin]; count > 0 {
				if t.second.Delivery == nil {
					t.second.Delivery = wire.Histogram{}
				}
				t.second.Delivery[bin] = uint64(count)
				t.delivered[bin] = 0
			}
		}
		t.done = append(t.done, t.second)
		for t.at = max(t.at+1, at-keptSeconds); t.at < at; t.at++ {
			t.done = append(t.done, wire.Second{At: t.at})
		}
		if more := len(t.done) - keptSeconds; more > 0 {
			t.done = append([]wire.Second(nil), t.done[more:]...)
		}
	}
	t.at, t.second, t.most = at, wire.Second{}, 0
}

// Seconds are those that are over and were not reported yet.
func (t *Tally) Seconds(now uint64) []wire.Second {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.turn(now)
	return append([]wire.Second(nil), t.done...)
}

// Reported forgets the seconds up to one.
func (t *Tally) Reported(last int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	n := 0
	for n < len(t.done) && t.done[n].At <= last {
		n++
	}
	t.done = append([]wire.Second(nil), t.done[n:]...)
}
