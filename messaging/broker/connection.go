// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/settings"
)

// Kinds of frames to clients.
const (
	frameResponse = 0
	frameError    = 1
	frameMessage  = 2
)

// refusal is an error that the client is told: nsqd's code and text.
type refusal struct {
	code, text string
	open       bool // the connection stays
}

func (r *refusal) Error() string { return r.code + " " + r.text }

func refuse(code, format string, words ...any) *refusal {
	return &refusal{code: code, text: fmt.Sprintf(format, words...)}
}

// connection is one client's. Its goroutine reads commands; publishing is done here, the rest of a consumer's is nsqd's.
type connection struct {
	broker *Broker
	conn   *stampedConn
	stream stream
	params [][]byte
	fresh  bool // the command being read has no deadline yet

	// What the client said of itself, and what was agreed.
	identity  identity
	heartbeat atomic.Int64 // ns; 0: none
	secret    []byte
	rights    *rights
	allowed   map[string]bool // topics it may publish to, until its rights expire

	// The topic without a limit that it last published to.
	unlimited     *nsqd.Topic
	unlimitedName string
	tally         *report.Tally // its; nil: not counted
	follows       bool          // a publisher that goes where the distributor says
	one           [1]*nsqd.Message

	writing sync.Mutex
	out     []byte // frames not written yet
	writer  io.Writer
	broken  error

	consuming atomic.Bool
	over      atomic.Bool
	pulse     *time.Timer // sends the next heartbeat
}

func (b *Broker) newConnection(conn *net.TCPConn) (*connection, error) {
	stamped, err := newStampedConn(conn)
	if err != nil {
		return nil, err
	}
	c := &connection{broker: b, conn: stamped, writer: conn, identity: b.stranger(conn)}
	c.heartbeat.Store(int64(b.engine.options.ClientTimeout / 2))
	c.stream = stream{conn: stamped, before: c.beforeRead, assembling: &b.assembling, crowded: b.crowded}
	return c, nil
}

// serve runs until the client or an error ends it.
func (c *connection) serve() {
	defer c.end()
	c.fresh = true
	var magic [4]byte
	for n := range magic {
		for len(c.stream.data) == 0 {
			if c.stream.fill() != nil {
				return
			}
		}
		magic[n] = c.stream.data[0]
		c.stream.data = c.stream.data[1:]
	}
	if string(magic[:]) != "  V2" {
		c.frame(frameError, []byte("E_BAD_PROTOCOL"))
		c.flush()
		return
	}
	c.pulse = time.AfterFunc(time.Hour, c.beat)
	c.pulse.Reset(c.interval())
	for {
		c.fresh = true
		line, err := c.stream.line()
		if err != nil {
			return
		}
		c.params = split(c.params[:0], line)
		if string(c.params[0]) == "SUB" {
			err = c.subscribe()
			if err == nil {
				return
			}
		} else {
			err = c.execute()
		}
		if err != nil && !c.tell(err) {
			return
		}
	}
}

// split is bytes.Split by spaces, into memory that is there.
func split(into [][]byte, line []byte) [][]byte {
	for {
		at := bytes.IndexByte(line, ' ')
		if at < 0 {
			return append(into, line)
		}
		into, line = append(into, line[:at]), line[at+1:]
	}
}

// execute does one command other than SUB.
func (c *connection) execute() error {
	command := c.params[0]
	if string(command) == "IDENTIFY" {
		return c.identify()
	}
	if err := c.enforceTLS(); err != nil {
		return err
	}
	switch string(command) {
	case "PUB":
		return c.pub(false)
	case "DPUB":
		return c.pub(true)
	case "MPUB":
		return c.mpub()
	case "NOP":
		return nil
	case "AUTH":
		return c.auth()
	case "FIN", "RDY", "REQ", "TOUCH", "CLS":
		return refuse("E_INVALID", "cannot %s in current state", command)
	}
	return refuse("E_INVALID", "invalid command %s", command)
}

func (c *connection) enforceTLS() error {
	if t := c.broker.settings.Load().TLS; t != nil && t.Required != "" && c.stream.tls == nil {
		return refuse("E_INVALID", "cannot %s in current state (TLS required)", c.params[0])
	}
	return nil
}

// tell sends the client an error; false: the connection is to end.
func (c *connection) tell(err error) bool {
	r, ok := err.(*refusal)
	if !ok {
		return false
	}
	c.broker.metrics.failure(r.code)
	c.frame(frameError, []byte(r.Error()))
	return c.flush() == nil && r.open
}

func (c *connection) interval() time.Duration {
	if hb := time.Duration(c.heartbeat.Load()); hb > 0 {
		return hb
	}
	return time.Hour // no heartbeats are wanted: look again later
}

// beat sends a heartbeat. It runs in a goroutine of its own, since a write may block.
func (c *connection) beat() {
	if c.consuming.Load() {
		return // nsqd sends them
	}
	if c.heartbeat.Load() > 0 {
		c.frame(frameResponse, []byte("_heartbeat_"))
		if c.flush() != nil {
			c.conn.Close()
			return
		}
	}
	c.pulse.Reset(c.interval())
	if c.over.Load() {
		c.pulse.Stop()
	}
}

// beforeRead is called before every read that may block: what was answered goes out, and a command has twice the heartbeat
// interval from its first read on.
func (c *connection) beforeRead() error {
	if err := c.flush(); err != nil {
		return err
	}
	if c.fresh {
		c.fresh = false
		var deadline time.Time
		if hb := time.Duration(c.heartbeat.Load()); hb > 0 {
			deadline = time.Now().Add(2 * hb)
		}
		c.conn.SetReadDeadline(deadline)
	}
	if c.broker.stopping.Load() && !c.consuming.Load() {
		return errStopping
	}
	return nil
}

// frame puts a frame after those that wait to be written.
func (c *connection) frame(kind uint32, data []byte) {
	c.writing.Lock()
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(data))+4)
	c.out = binary.BigEndian.AppendUint32(c.out, kind)
	c.out = append(c.out, data...)
	full := len(c.out) > 4096
	c.writing.Unlock()
	if full {
		c.flush()
	}
}

// flush writes what waits.
func (c *connection) flush() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.write()
}

// write is flush with the lock held.
func (c *connection) write() error {
	if len(c.out) == 0 || c.broken != nil {
		return c.broken
	}
	var deadline time.Time
	if hb := time.Duration(c.heartbeat.Load()); hb > 0 {
		deadline = time.Now().Add(hb)
	}
	c.conn.SetWriteDeadline(deadline)
	_, c.broken = c.writer.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > quickly {
		c.out = nil
	}
	return c.broken
}

// end lets go of everything.
func (c *connection) end() {
	c.over.Store(true)
	if c.pulse != nil {
		c.pulse.Stop()
	}
	c.flush()
	c.conn.Close()
	c.stream.drop()
}

// stranger is a client that said nothing of itself: nsqd calls it by its address.
func (b *Broker) stranger(conn net.Conn) identity {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return identity{ClientID: host, Hostname: host}
}

// valid says whether a topic may be called so; spelled as nsqd does.
func (c *connection) valid(command, topic string) error {
	if settings.ValidName(topic) {
		return nil
	}
	code := ""
	if strings.HasPrefix(command, "M") {
		code = "E_BAD_TOPIC " // nsqd 1.3.0 says it twice here
	}
	return refuse("E_BAD_TOPIC", "%s%s topic name %q is not valid", code, command, topic)
}
