// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/outlet"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/settings"
)

// consumer is what nsqd sees of a connection that subscribes: first our own IDENTIFY, then the client's SUB and what follows.
// What publishes is kept from nsqd, since it must pass the topic's limit. nsqd writes each frame in parts; the client gets it
// whole, in one write.
//
// IDENTIFY is the client's but for its output buffer, which is off: by default nsqd lets a consumer with RDY above 1 wait until
// 16 KiB or 250 ms are full. What is buffered is buffered here, and only while the next messages are there already (gather).
type consumer struct {
	*connection
	channel  *channel
	gone     chan struct{} // closed when nsqd has let it go
	closing  sync.Once
	patience time.Duration // with a message that waits for its token here
	tally    *report.Tally // of the topic that it consumes; nil: it is not counted
	first    []byte        // what nsqd is to read first
	skipped  bool          // the answer to IDENTIFY was
	frame    []byte        // of the frame that nsqd is writing, what is here

	backlog chan *nsqd.Message // nsqd's memory of the channel, for its length
	rdy     atomic.Int64
	flying  atomic.Int64 // messages that were sent and not answered, as far as the client's commands tell
	most    int          // bytes that may be gathered; 0: none
	late    *time.Timer  // writes what was gathered and not followed by others
}

// subscribe does SUB: the rest of the connection's life is nsqd's. nil: it is over.
func (c *connection) subscribe() error {
	if err := c.enforceTLS(); err != nil {
		return err
	}
	if c.heartbeat.Load() <= 0 {
		return refuse("E_INVALID", "cannot SUB with heartbeats disabled")
	}
	if len(c.params) < 3 {
		return refuse("E_INVALID", "SUB insufficient number of parameters")
	}
	topic, channel := string(c.params[1]), string(c.params[2])
	if err := c.valid("SUB", topic); err != nil {
		return err
	}
	if !settings.ValidName(channel) {
		return refuse("E_BAD_CHANNEL", "SUB channel name %q is not valid", channel)
	}
	if err := c.authorized("SUB", topic, channel); err != nil {
		return err
	}
	said := c.identity
	said.FeatureNegotiation, said.TLSv1, said.Deflate, said.Snappy = false, false, false, false
	said.HeartbeatInterval = int(time.Duration(c.heartbeat.Load()) / time.Millisecond)
	said.OutputBufferSize, said.OutputBufferTimeout = -1, 0
	text, err := json.Marshal(said)
	if err != nil {
		return refuse("E_SUB_FAILED", "SUB failed %v", err)
	}
	if err := c.flush(); err != nil {
		return err
	}
	if nsq, err := c.broker.engine.topic(topic).GetExistingChannel(channel); err != nil || nsq.Exiting() {
		c.broker.engine.prepare(topic + ":" + channel)
	}
	c.consuming.Store(true)
	c.broker.consuming.Add(1)
	defer c.broker.consuming.Add(-1)
	first := binary.BigEndian.AppendUint32([]byte("  V2IDENTIFY\n"), uint32(len(text)))
	first = fmt.Appendf(append(first, text...), "SUB %s %s\n", topic, channel)
	k := &consumer{connection: c, tally: c.broker.tally(topic), first: first, gone: make(chan struct{}), patience: c.broker.engine.options.MsgTimeout / 2}
	if said.MsgTimeout > 0 {
		k.patience = time.Duration(said.MsgTimeout) * time.Millisecond / 2
	}
	k.channel, k.backlog = c.broker.join(topic, channel)
	defer k.channel.leave()
	defer k.takes(0)
	if k.most = c.identity.OutputBufferSize; k.most == 0 {
		k.most = gathered
	}
	k.late = time.AfterFunc(time.Hour, func() { k.flush() })
	defer k.late.Stop()
	c.broker.engine.handler.Handle(k)
	return nil
}

// Read gives nsqd as many of the client's commands as are here, at least one.
func (c *consumer) Read(into []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(into, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	given := 0
	for given == 0 || c.stream.ready() {
		c.fresh = true
		line, err := c.stream.line()
		if err != nil {
			return given, io.EOF // why, is of no use to nsqd's log
		}
		c.params = split(c.params[:0], line)
		switch string(c.params[0]) {
		case "PUB", "DPUB", "MPUB":
			if err := c.execute(); err != nil && !c.tell(err) {
				return given, io.EOF
			}
			continue
		case "FIN", "REQ":
			c.flying.Store(max(0, c.flying.Load()-1))
		case "RDY":
			n, err := strconv.ParseInt(string(c.params[len(c.params)-1]), 10, 64)
			if err != nil {
				n = 1 // as nsqd has it where there is no number
			}
			c.takes(n)
		case "CLS":
			c.takes(0)
		}
		n := copy(into[given:], line)
		given += n
		if given < len(into) {
			into[given] = '\n'
			given++
			continue
		}
		c.first = append(append(c.first, line[n:]...), '\n') // nsqd reads the rest next
		return given, nil
	}
	return given, nil
}

// takes takes note of how many messages the client is ready for. Only who reads the client's commands calls it.
func (c *consumer) takes(rdy int64) {
	switch before := c.rdy.Swap(rdy); {
	case before <= 0 && rdy > 0:
		c.channel.ready.Add(1)
	case before > 0 && rdy <= 0:
		c.channel.ready.Add(-1)
	}
}

// Write takes what nsqd writes, and sends whole frames.
func (c *consumer) Write(data []byte) (int, error) {
	c.frame = append(c.frame, data...)
	for len(c.frame) >= 4 {
		size := int(binary.BigEndian.Uint32(c.frame)) + 4
		if len(c.frame) < size {
			break
		}
		if c.skipped {
			if err := c.send(c.frame[:size]); err != nil {
				return 0, err
			}
		}
		c.skipped = true
		if c.frame = append(c.frame[:0], c.frame[size:]...); cap(c.frame) > quickly {
			c.frame = nil
		}
	}
	return len(data), nil
}

const (
	// gathered: so many bytes are written at once, unless the client says another number. As nsqd has it.
	gathered = 16 << 10
	// lately: a message that others were to follow waits no longer for them.
	lately = time.Millisecond
)

// following: so many messages must be there already for one to wait for the next. Other consumers of the channel
// take some of them. Tests change it.
var following = 8

// gather says whether a message may wait to be written with those that follow it at once: nsqd's loop has them
// already, and the client takes
// more. So a backlog goes out in writes as large as nsqd's, and what comes alone goes out alone. Called with `writing` held.
func (c *consumer) gather() bool {
	flying := min(c.flying.Load()+1, c.rdy.Load()) // it is not above: nsqd sends no more
	c.flying.Store(flying)
	if len(c.backlog) < following || len(c.out) >= c.most || flying >= c.rdy.Load() || c.channel.ruled.Load() {
		return false
	}
	return c.broken == nil
}

// hurry writes what consumers have gathered: a limit was set, and what comes from now on is to pass it.
func (b *Broker) hurry() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for c := range b.clients {
		if c.consuming.Load() && c.writing.TryLock() { // else it is being written
			waits := len(c.out) > 0
			if c.writing.Unlock(); waits {
				go c.flush() // it may block
			}
		}
	}
}

// send writes a frame; a message only when it may enter the socket.
func (c *consumer) send(frame []byte) error {
	message := binary.BigEndian.Uint32(frame[4:]) == frameMessage && len(frame) >= 8+10+nsqd.MsgIDLength
	limited := c.channel.ruled.Load() && message
	var id outlet.ID
	if limited {
		id = messageID(frame[8:])
		if err := c.channel.enter(id, c); err == errLate {
			return nil
		} else if err != nil {
			return err
		}
	} else {
		c.writing.Lock()
	}
	first := len(c.out) == 0
	c.out = append(c.out, frame...)
	if message && !limited && c.tally == nil && c.gather() {
		c.writing.Unlock()
		if first {
			c.late.Reset(lately)
		}
		return nil
	}
	err := c.write()
	c.writing.Unlock()
	if limited {
		c.channel.left(id, c)
	}
	if err == nil && c.tally != nil {
		c.count(frame[4:])
	}
	return err
}

// count counts a message that was written: its time runs from when it came. What is sent again says nothing of the broker.
func (c *consumer) count(frame []byte) {
	if binary.BigEndian.Uint32(frame) != frameMessage || len(frame) < 14 || binary.BigEndian.Uint16(frame[12:]) != 1 {
		return
	}
	now := time.Now()
	c.tally.Sent(c.broker.clock.At(now), time.Duration(now.UnixNano()-int64(binary.BigEndian.Uint64(frame[4:]))))
}

// Close ends the connection; nsqd calls it.
func (c *consumer) Close() error {
	c.closing.Do(func() { close(c.gone) })
	return c.conn.Close()
}

// LocalAddr and RemoteAddr are the client's, for nsqd's statistics.
func (c *consumer) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr is the client's.
func (c *consumer) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline and its like do nothing: the connection sets its own.
func (c *consumer) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (c *consumer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (c *consumer) SetWriteDeadline(time.Time) error { return nil }
