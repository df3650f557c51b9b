// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"time"

	"giusto.dev/messaging/wire"
)

// takeover is how long it takes, after a lost broker's lease is over, until others have its shares and use them.
const takeover = time.Second

// within is the longest lease after which a gap of this length is over.
func within(gap time.Duration) time.Duration {
	return (gap - takeover - time.Millisecond) / (drift + 1) * drift
}

// least is the shortest lease: a broker that reports once a second, and is missed after Silent, must not lose it before
// that.
func (c *Control) least() time.Duration {
	return min(c.settings.Lease, c.settings.Silent+time.Second)
}

// Lease is how long a broker keeps its shares when it hears nothing: as long as the settings say, or shorter where a
// topic promises so. It names the topic that does.
func (c *Control) Lease() (time.Duration, string) {
	if t := c.topics[c.hasty]; t != nil {
		if lease := within(t.spec.Gap); lease < c.settings.Lease {
			return max(lease, c.least()), c.hasty // another leader with other settings may have taken the topic
		}
	}
	return c.settings.Lease, ""
}

// keepable says why a gap cannot be promised.
func (c *Control) keepable(spec wire.Topic) error {
	if least := c.least(); spec.Gap != 0 && within(spec.Gap) < least {
		shortest := (lasts(least) + takeover).Truncate(10*time.Millisecond) + 10*time.Millisecond
		return fmt.Errorf("gap: %v cannot be promised: a broker that is lost holds its shares for a lease, which is "+
			"%v at least (silent, %v, and a second), and it takes others %v to go on with them: expected %v or more, or none. "+
			"After the end of a broker that is told (SIGTERM, --guarded, after-end) the gap is shorter in any case",
			spec.Gap, least, c.settings.Silent, takeover, shortest)
	}
	return nil
}

// hasten finds the topic with the shortest gap.
func (c *Control) hasten() {
	c.hasty = ""
	for _, name := range c.names {
		if gap := c.topics[name].spec.Gap; gap > 0 && (c.hasty == "" || gap < c.topics[c.hasty].spec.Gap) {
			c.hasty = name
		}
	}
}
