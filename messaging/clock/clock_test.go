// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"
)

// A real-time clock that was set is no sleep.
func TestASetClockIsNoSleep(t *testing.T) {
	c := New()
	slept := c.Slept.Load()
	now := time.Now()
	c.real.Add(-int64(time.Hour)) // as if it was put forward since
	if off := int64(c.Ahead(now)) - slept; off > 1e7 || off < -1e7 {
		t.Errorf("%v slept", time.Duration(off))
	}
	if off := c.real.Load() - (now.UnixNano() - int64(c.At(now))); off > 1e7 || off < -1e7 {
		t.Error("it was not looked again")
	}
}
