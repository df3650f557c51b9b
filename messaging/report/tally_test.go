// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"giusto.dev/messaging/clock"
)

// What following costs a message: it is counted when it comes and when it is sent, and the lease is looked at.
func BenchmarkCounting(b *testing.B) {
	c, t := clock.New(), Tally{}
	now := time.Now()
	for n := range b.N {
		c.Ahead(now)
		t.Came(c.At(now), 1, true, uint64(n))
		at := time.Now()
		t.Sent(c.At(at), time.Duration(n%1_000_000)*100)
	}
}
