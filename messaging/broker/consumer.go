// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
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
// 16 KiB or 250 ms are full.
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
	k.channel = c.broker.join(topic, channel)
	defer k.channel.leave()
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

// send writes a frame; a message only when it may enter the socket.
func (c *consumer) send(frame []byte) error {
	limited := c.channel.ruled.Load() && binary.BigEndian.Uint32(frame[4:]) == frameMessage && len(frame) >= 8+10+nsqd.MsgIDLength
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
	c.out = append(c.out, frame...)
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
