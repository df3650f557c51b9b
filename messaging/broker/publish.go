// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"time"

	"github.com/nsqio/nsq/nsqd"
)

var ok = []byte("OK")

// target is where a command publishes to: a topic with a limit, or else nsqd's.
type target struct {
	limited *topic
	name    string
}

// find looks for the command's topic, which must be called validly.
func (c *connection) find(command string) (target, error) {
	if len(c.params) < 2 {
		return target{}, refuse("E_INVALID", "%s insufficient number of parameters", command)
	}
	waits := c.broker.waits()
	if t := (*c.broker.topics.Load())[string(c.params[1])]; t != nil {
		return target{t, t.name}, nil
	}
	name := c.unlimitedName
	if string(c.params[1]) != name || name == "" {
		name = string(c.params[1])
		if err := c.valid(command, name); err != nil {
			return target{}, err
		}
	}
	if waits {
		return target{c.broker.follower.hold(name), name}, nil
	}
	return target{nil, name}, nil
}

// nsq finds nsqd's topic of this target, if it has no limit. It is made if need be.
func (c *connection) nsq(t target) {
	if t.limited == nil && (c.unlimitedName != t.name || c.unlimited.Exiting()) {
		c.unlimited, c.unlimitedName, c.tally = c.broker.engine.topic(t.name), t.name, c.broker.tally(t.name)
	}
}

// size reads and checks a size; what and message name it in errors.
func (c *connection) size(command, code, what string, most int64) (int, error) {
	n, err := c.stream.length()
	if err != nil {
		return 0, refuse(code, "%s failed to read %s size", command, what)
	}
	if n <= 0 {
		return 0, refuse(code, "%s invalid %s size %d", command, what, n)
	}
	if int64(n) > most {
		if code == "E_BAD_MESSAGE" {
			what = "message"
		} else {
			what = "body"
		}
		return 0, refuse(code, "%s %s too big %d > %d", command, what, n, most)
	}
	return int(n), nil
}

// pub does PUB and DPUB.
func (c *connection) pub(deferred bool) error {
	command, deferral := "PUB", time.Duration(0)
	if deferred {
		command = "DPUB"
		if len(c.params) < 3 {
			return refuse("E_INVALID", "DPUB insufficient number of parameters")
		}
	}
	to, err := c.find(command)
	if err != nil {
		return err
	}
	o := c.broker.engine.options
	if deferred {
		ms, ok := base10(c.params[2])
		if !ok {
			return refuse("E_INVALID", "DPUB could not parse timeout %s", c.params[2])
		}
		deferral = time.Duration(ms) * time.Millisecond
		if deferral < 0 || deferral > o.MaxReqTimeout {
			return refuse("E_INVALID", "DPUB timeout %d out of range 0-%d", ms, o.MaxReqTimeout/time.Millisecond)
		}
	}
	size, err := c.size(command, "E_BAD_MESSAGE", "message body", o.MaxMsgSize)
	if err != nil {
		return err
	}
	body, err := c.stream.body(size)
	if err != nil {
		return refuse("E_BAD_MESSAGE", "%s failed to read message body", command)
	}
	if err := c.authorized(command, to.name, ""); err != nil {
		return err
	}
	c.nsq(to)
	c.one[0] = &nsqd.Message{ID: c.broker.ids.next(), Body: body, Timestamp: c.conn.stamp}
	err = c.publish(to, c.one[:], deferral)
	c.one[0] = nil
	if err != nil {
		return failure(command, err)
	}
	c.frame(frameResponse, ok)
	return nil
}

// base10 is nsqd's reading of a number, which lets none be 0 and what is too large wrap.
func base10(text []byte) (uint64, bool) {
	n := uint64(0)
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = n*10 + uint64(digit-'0')
	}
	return n, true
}

// failure is how a producer is told why what it published was not accepted. A full queue empties, so the connection stays.
func failure(command string, err error) error {
	r := refuse("E_"+command+"_FAILED", "%s failed %v", command, err)
	r.open = err == errFull
	return r
}

// mpub does MPUB.
func (c *connection) mpub() error {
	to, err := c.find("MPUB")
	if err != nil {
		return err
	}
	if err := c.authorized("MPUB", to.name, ""); err != nil {
		return err
	}
	c.nsq(to)
	o := c.broker.engine.options
	if _, err := c.size("MPUB", "E_BAD_BODY", "body", o.MaxBodySize); err != nil {
		return err
	}
	messages, err := readBatch(&c.stream, o, &c.broker.ids)
	if err != nil {
		return err
	}
	for _, m := range messages {
		m.Timestamp = c.conn.stamp
	}
	if err := c.publish(to, messages, 0); err != nil {
		return failure("MPUB", err)
	}
	c.frame(frameResponse, ok)
	return nil
}

// batch is where readBatch reads from.
type batch interface {
	length() (int32, error)
	body(n int) ([]byte, error)
}

// readBatch reads the messages of MPUB: their number, and each with its size. Together they must not exceed the largest body:
// nsqd 1.3.0 does not look, and would take gigabytes.
func readBatch(from batch, o *nsqd.Options, ids *ids) ([]*nsqd.Message, error) {
	count, err := from.length()
	if err != nil {
		return nil, refuse("E_BAD_BODY", "MPUB failed to read message count")
	}
	// 4 for their number, and for each 4 and at least one byte.
	if count <= 0 || int64(count) > (o.MaxBodySize-4)/5 {
		return nil, refuse("E_BAD_BODY", "MPUB invalid message count %d", count)
	}
	messages := make([]*nsqd.Message, 0, min(count, 1024))
	room := o.MaxBodySize - 4
	for n := range count {
		size, err := from.length()
		switch {
		case err != nil:
			return nil, refuse("E_BAD_MESSAGE", "MPUB failed to read message(%d) body size", n)
		case size <= 0:
			return nil, refuse("E_BAD_MESSAGE", "MPUB invalid message(%d) body size %d", n, size)
		case int64(size) > o.MaxMsgSize:
			return nil, refuse("E_BAD_MESSAGE", "MPUB message too big %d > %d", size, o.MaxMsgSize)
		}
		if room -= int64(size) + 4; room < 0 {
			return nil, refuse("E_BAD_BODY", "MPUB messages are together bigger than %d", o.MaxBodySize)
		}
		body, err := from.body(int(size))
		if err != nil {
			return nil, refuse("E_BAD_MESSAGE", "MPUB failed to read message body")
		}
		messages = append(messages, &nsqd.Message{ID: ids.next(), Body: body})
	}
	return messages, nil
}

// publish gives messages to their topic.
func (c *connection) publish(to target, messages []*nsqd.Message, deferral time.Duration) error {
	if c.broker.stopping.Load() {
		return errStopping
	}
	if err := c.broker.spilling(to.name); err != nil {
		return err
	}
	if to.limited != nil {
		// If this answer comes late, or the publisher must wait, the answers before it are flushed first.
		return to.limited.publish(messages, deferral, arrival{c.conn.stamp, c.conn.read, c.follows}, c.flush)
	}
	if c.tally != nil {
		c.tally.Came(c.broker.clock.At(c.conn.read), len(messages), c.follows, 0)
	}
	return c.broker.unlimited(c.unlimited, messages, deferral)
}

// unlimited gives messages to a topic without a limit.
func (b *Broker) unlimited(topic *nsqd.Topic, messages []*nsqd.Message, deferral time.Duration) error {
	b.metrics.unlimited.Add(uint64(len(messages)))
	if deferral > 0 && len(messages) == 1 {
		deferBy(messages[0], deferral)
	}
	return b.hand(topic, messages...)
}
