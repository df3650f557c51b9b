// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// collector keeps the garbage collector off until the heap nears the memory of the file: its pauses are what a tail
// of latencies is made of. Where more
// than half of that is in use, it would run all the time to find nothing. There the heap may grow to twice what is
// in use, as Go's does by
// default, and a line says so before.
type collector struct {
	memory int64
	limit  int64
	told   bool
	queue  int64 // mem_queue
}

// next is the limit after a collection that found so much in use, and what an operator should know; empty: nothing new.
func (c *collector) next(live int64) (limit int64, tell string) {
	limit = c.memory
	if live > c.memory/2 {
		limit = 2 * min(live, math.MaxInt64/4)
	}
	if live > c.memory*2/5 && !c.told {
		c.told = true
		tell = "%d MiB are in use of a memory of %d MiB: from half of it on the heap grows to twice what is in use. Each topic and each channel takes " +
			"%d KiB for its mem_queue: give more memory, or a smaller mem_queue"
	} else if live < c.memory/4 {
		c.told = false
	}
	return limit, tell
}

// collect does so from now on.
func collect(memory, queue int64) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memory)
	c := &collector{memory: memory, limit: memory, queue: queue}
	c.watch()
}

// watch looks after each collection: an object that nothing holds is finalized then.
func (c *collector) watch() {
	type sentinel struct{ *collector }
	runtime.SetFinalizer(&sentinel{c}, func(s *sentinel) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		limit, tell := s.next(int64(live[0].Value.Uint64()))
		if tell != "" {
			log.Printf(tell, live[0].Value.Uint64()>>20, s.memory>>20, s.queue*8>>10)
		}
		if limit != s.limit {
			s.limit = limit
			debug.SetMemoryLimit(limit)
		}
		s.watch()
	})
}
