// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"sync"
	"testing"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// Ids differ, grow, and are given at once, also when the clock was put back by an hour, and by many at once; and they
// are nsqd's: between two of its own of the same node.
func TestIdsDifferAndAreGivenAtOnceWhateverTheClockSays(t *testing.T) {
	b := start(t, "")
	defer b.Stop()
	nsq := b.engine.topic("a")
	before := nsq.GenerateID()
	time.Sleep(3 * time.Millisecond)
	between := b.ids.next()
	time.Sleep(3 * time.Millisecond)
	if after := nsq.GenerateID(); string(between[:]) <= string(before[:]) || string(between[:]) >= string(after[:]) {
		t.Errorf("%s is not between nsqd's %s and %s", between, before, after)
	}
	i := &ids{node: 1023}
	i.last.Store(uint64(time.Now().Add(time.Hour).UnixNano()>>20-idEpoch) << idNumbers) // as if the clock was put back since
	began := time.Now()
	const each, readers = 20_000, 4
	seen := [readers]map[nsqd.MessageID]bool{}
	var all sync.WaitGroup
	for n := range readers {
		seen[n] = map[nsqd.MessageID]bool{}
		all.Add(1)
		go func() {
			defer all.Done()
			last := ""
			for range each {
				id := i.next()
				if string(id[:]) <= last {
					t.Errorf("%s after %s", id, last)
				}
				last = string(id[:])
				seen[n][id] = true
			}
		}()
	}
	all.Wait()
	together := map[nsqd.MessageID]bool{}
	for _, one := range seen {
		for id := range one {
			together[id] = true
		}
	}
	if len(together) != each*readers || time.Since(began) > 30*time.Second {
		t.Errorf("%d of %d ids differ, in %v", len(together), each*readers, time.Since(began))
	}
}
