// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math"
	"math/bits"
	"time"
)

// steps of a power of two: a percentile is told to 1/128 too much at most.
const steps = 7

// Latencies counts times by their size.
type Latencies struct {
	counts [64 << steps]uint32
	count  int
}

// Observe counts one, in ns.
func (l *Latencies) Observe(ns float64) {
	n := uint64(max(ns, 1))
	if n < 1<<steps {
		l.counts[n]++
	} else {
		shift := bits.Len64(n) - steps - 1
		l.counts[shift<<steps+int(n>>shift)]++
	}
	l.count++
}

// Add counts all of another.
func (l *Latencies) Add(other *Latencies) {
	for n, count := range other.counts {
		l.counts[n] += count
	}
	l.count += other.count
}

// Count is how many there are.
func (l *Latencies) Count() int { return l.count }

// Percentile is what at least the part p of all does not exceed; 0 of nothing.
func (l *Latencies) Percentile(p float64) time.Duration {
	left := int(math.Ceil(p * float64(l.count)))
	for n, count := range l.counts {
		if left -= int(count); left <= 0 && count > 0 {
			if n < 1<<steps {
				return time.Duration(n)
			}
			shift := n>>steps - 1
			return time.Duration((uint64(n)-uint64(shift)<<steps+1)<<shift - 1)
		}
	}
	return 0
}
