// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"testing"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// What is deferred follows the clock when that is set; what is with a consumer has the time that it had, by what has
// passed since it was given. A clock that is really set is tests/messaging-clock.sh's.
func TestQueuesFollowAClockThatIsSet(t *testing.T) {
	b := start(t, "msg_timeout: 2s")
	defer b.Stop()
	address := b.Addr().String()
	r := record(t, func() string { return address }, "a", "test", 1, 50)
	r.answer = func(entry) string { return "NOP\n%.0s" } // it keeps them
	supply(t, address, "a", "kept", 20)
	settled(t, "messages lacking", 0, func() int { return 20 - r.count() })
	post(t, b.HTTPAddr().String(), "/pub?topic=a&defer=3600000", "deferred")
	var channel *nsqd.Channel
	b.everyChannel(func(c *nsqd.Channel) { channel = c })
	settled(t, "deferred messages lacking", 0, func() int { return 1 - len(*part[[]*item](channel, deferredQueue)) })
	stepped(channel, -time.Hour)
	settled(t, "what was deferred", 0, func() int { return 1 - r.bodies()["deferred"] })
	for range 5 {
		stepped(channel, time.Hour)
	}
	again := func() (count int) {
		for body, times := range r.bodies() {
			if body != "deferred" && times > 1 {
				count++
			}
		}
		return count
	}
	settled(t, "messages that were not sent again", 0, func() int { return 20 - again() })
}
