// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"time"

	"giusto.dev/messaging/wire"
)

const (
	// poll is how long a question may stay unanswered when there is nothing new.
	poll = 30 * time.Second
	// Between two tries, at first and at most.
	soon, late = 50 * time.Millisecond, 2 * time.Second
)

// follow asks where to send, and goes there, until the client ends. While the distributor is away it stays where it is, and comes back
// there if it must.
func (c *Client) follow() {
	defer c.all.Done()
	var last wire.Assignment // the one that it follows, or tries to
	failed := ""
	rest := soon
	for c.ended.Err() == nil {
		at := c.Broker()
		c.mutex.Lock()
		if c.failed != "" && c.failed != at {
			failed = c.failed
		}
		c.failed = ""
		c.mutex.Unlock()
		ask := wire.Ask{Topic: c.options.Topic, Publisher: c.options.Publisher, Group: c.options.Group, Rate: c.options.Rate, At: at,
			Failed: failed, Seen: last.Version}
		if at != "" && failed == "" {
			ask.Wait = poll
		}
		told, err := c.asker.ask(c.ended, c.news, ask)
		switch {
		case errors.Is(err, errNews):
			rest = soon
			continue
		case err != nil && c.ended.Err() == nil:
			c.options.Log("no assignment: %v", err)
		case err == nil && told.Broker != "" && told.V2 != "":
			last = told
		case err == nil:
			last.Version = told.Version
		}
		if at == "" && last.V2 != "" || at != "" && err == nil && last.Broker != at {
			if err := c.move(last); err != nil {
				c.options.Log("%s at %s: %v", last.Broker, last.V2, err)
				failed = last.Broker
			} else {
				failed, rest = "", soon
				continue
			}
		} else if err == nil && at != "" {
			failed, rest = "", soon
			if ask.Wait > 0 {
				continue
			}
		}
		select {
		case <-time.After(rest):
		case <-c.ended.Done():
		}
		rest = min(2*rest, late)
	}
}

// move changes brokers: connect to the new one; send no more to the old; await its answers; send to the new what has none.
func (c *Client) move(to wire.Assignment) error {
	next, err := c.connect(to.Broker, to.V2)
	if err != nil {
		return err
	}
	timer := time.AfterFunc(c.options.Patience, func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.changed.Broadcast()
	})
	defer timer.Stop()
	end := time.Now().Add(c.options.Patience)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	old := c.link
	c.link = nil
	for old != nil && !old.dead && len(old.sent) > 0 && time.Now().Before(end) && c.ended.Err() == nil {
		c.changed.Wait()
	}
	if old != nil {
		c.drop(old)
		c.counts.Moves++
		c.options.Log("moved from %s to %s", old.broker, next.broker)
	}
	if next.dead {
		return errors.New("it was lost at once")
	}
	c.link = next
	if c.ended.Err() != nil {
		c.drop(next)
	}
	c.changed.Broadcast()
	return nil
}
