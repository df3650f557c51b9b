// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math"
	"slices"

	"giusto.dev/messaging/wire"
)

// Depth is the least whole number of tokens with which at least the part p of these batches' messages does not wait for a bucket of
// `rate` tokens a second: what § 2.6 does with a trace. Never less than one token. O(n log n).
//
// A bucket of depth b is b less the work that a queue has which handles `rate` a second, and a message waits if that work was more than
// b - 1 when it came (§ 2.2.1); so one pass tells all depths.
func Depth(sends []uint64, batch int, rate, p float64) uint64 {
	works := make([]float64, 0, len(sends)*max(batch, 1))
	work, before := 0.0, uint64(0)
	for _, sent := range sends {
		work = max(0, work-float64(sent-before)*rate/1e9)
		before = sent
		for range max(batch, 1) {
			works = append(works, work)
			work++
		}
	}
	if len(works) == 0 {
		return 1
	}
	slices.Sort(works)
	at := int(math.Ceil(p*float64(len(works)))) - 1
	return uint64(math.Ceil(works[max(at, 0)]-1e-9)) + 1
}

// Part is that of a bucket, rounded down.
func Part(whole wire.Share, part float64) wire.Share {
	return wire.Share{Rate: uint64(float64(whole.Rate) * part), Depth: uint64(float64(whole.Depth) * part)}
}
