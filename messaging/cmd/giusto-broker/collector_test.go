// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The limit is the file's as long as twice what is in use is not more; who uses so much is told once, and before.
func TestTheCollectorsLimit(t *testing.T) {
	c := &collector{memory: 1000}
	for _, step := range []struct {
		live, limit int64
		told        bool
	}{{0, 1000, false}, {400, 1000, false}, {401, 1000, true}, {500, 1000, false}, {501, 1002, false}, {900, 1800, false}, {300, 1000, false},
		{450, 1000, false}, {249, 1000, false}, {450, 1000, true}, {math.MaxInt64, math.MaxInt64 / 4 * 2, false}} {
		if limit, tell := c.next(step.live); limit != step.limit || (tell != "") != step.told {
			t.Errorf("%+v: limit %d, told %q", step, limit, tell)
		}
	}
}

// What is in use is more than the memory of the file: the collector does not run all the time. It would run for
// every few allocations.
func TestTheCollectorRestsBeyondTheMemory(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }()
	collect(32<<20, 10_000)
	var held [][]byte
	for range 64 {
		held = append(held, make([]byte, 1<<20))
	}
	runtime.GC()
	time.Sleep(100 * time.Millisecond) // the finalizer
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 64 { // as much again
		held[0] = make([]byte, 1<<20)
	}
	runtime.ReadMemStats(&after)
	if runs := after.NumGC - before.NumGC; runs > 4 {
		t.Errorf("%d collections for as much as is in use", runs)
	}
	runtime.KeepAlive(held)
}
