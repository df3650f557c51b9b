// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"

	"giusto.dev/messaging/ensemble"
)

// A leader that hangs, so that it says no more that it is at work, leads no more after a term, though its beat is well.
func TestAHungLeaderIsLost(t *testing.T) {
	servers := ensemble.Start(t, 3).Addresses()
	one, other := zookeeper(t, servers), zookeeper(t, servers)
	defer one.Close()
	defer other.Close()
	l := lead(t, one, "one")
	for range 8 {
		l.Turn()
		time.Sleep(term / 4)
	}
	if l.Until() < Now() {
		t.Error("it was lost while it turned")
	}
	select {
	case <-l.Lost():
	case <-time.After(3 * term):
		t.Fatal("it leads on")
	}
	if next := lead(t, other, "other"); next.Epoch() <= l.Epoch() {
		t.Error(next.Epoch())
	}
}
