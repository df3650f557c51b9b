// SPDX-License-Identifier: Apache-2.0

package control

import (
	"strings"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// The lease follows the shortest gap that is promised, and what it cannot keep is refused with what it can. Another
// leader finds the same, from what was saved.
func TestTheLeaseFollowsTheShortestGap(t *testing.T) {
	settings := Defaults()
	settings.Lease = 20 * time.Second
	c := New(settings, 0, 1, nil)
	put := func(name string, gap time.Duration) error {
		return c.Put(0, wire.Topic{Name: name, Share: wire.Share{Rate: 100 * wire.Unit, Depth: 10 * wire.Unit}, Delivery: true,
			Gap: gap})
	}
	leased := func(when string, want time.Duration, whose string) {
		t.Helper()
		lease, of := c.Lease()
		if lease != want || of != whose {
			t.Errorf("%s: a lease of %v for %q, expected %v for %q", when, lease, of, want, whose)
		}
		if err := c.Report(0, wire.Report{Broker: "b", Incarnation: "1", V2: "b"}); err != nil {
			t.Fatal(err)
		}
		if orders, _ := c.Orders(0, "b", 0); orders.Lease != want {
			t.Errorf("%s: the orders have a lease of %v", when, orders.Lease)
		}
		if end := c.leases["b/1"]; end < lasts(want) {
			t.Errorf("%s: the lease is over at %v", when, end)
		}
	}
	put("none", 0)
	leased("no gap", 20*time.Second, "")
	put("long", time.Minute)
	leased("a gap longer than the lease", 20*time.Second, "")
	put("a", 11101*time.Millisecond) // 10 s, a hundredth of it, a ms, and a second
	leased("one", 10*time.Second, "a")
	put("b", 6051*time.Millisecond)
	leased("a shorter one", 5*time.Second, "b")
	err := put("c", 4*time.Second)
	if err == nil || !strings.Contains(err.Error(), "expected 4.04s or more") ||
		!strings.Contains(err.Error(), "gap: 4s cannot be promised") {
		t.Error(err)
	}
	if err := put("c", 4040*time.Millisecond); err != nil {
		t.Error(err)
	}
	c.Remove(0, "c")
	leased("the shortest is gone", 5*time.Second, "b")
	var saved []Record
	for _, record := range c.Unsaved() {
		if record != nil {
			saved = append(saved, *record)
		}
	}
	put("b", 0)
	leased("the shortest promises none any more", 10*time.Second, "a")
	c = New(settings, 0, 2, saved)
	if lease, of := c.Lease(); lease != 5*time.Second || of != "b" {
		t.Errorf("another leader: %v for %q", lease, of)
	}
}
