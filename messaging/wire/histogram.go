// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Histogram counts durations by logarithm: bucket n holds (1.02^(n-1), 1.02^n] microseconds, bucket 0 all up to one. What it tells of a
// percentile is at most 2 % too much.
type Histogram map[int]uint64

const growth = 1.02

// Observe counts one.
func (h Histogram) Observe(d time.Duration) { h[Bin(d)]++ }

// Bin is where a duration counts.
func Bin(d time.Duration) int {
	us := float64(d) / float64(time.Microsecond)
	if us <= 1 {
		return 0
	}
	return int(math.Ceil(math.Log(us)/math.Log(growth) - 1e-9))
}

// Bound is the longest that counts in a bin.
func Bound(bin int) time.Duration {
	return time.Duration(math.Pow(growth, float64(bin)) * float64(time.Microsecond))
}

// Add counts all of another.
func (h Histogram) Add(other Histogram) {
	for n, count := range other {
		h[n] += count
	}
}

// Count is how many there are.
func (h Histogram) Count() (total uint64) {
	for _, count := range h {
		total += count
	}
	return total
}

// Percentile is the least bound that at least the part p of all does not exceed; 0 of nothing.
func (h Histogram) Percentile(p float64) time.Duration {
	left := uint64(math.Ceil(p * float64(h.Count())))
	if left == 0 {
		return 0
	}
	seen := uint64(0)
	for _, n := range slices.Sorted(maps.Keys(h)) {
		if seen += h[n]; seen >= left {
			return Bound(n)
		}
	}
	return 0
}
