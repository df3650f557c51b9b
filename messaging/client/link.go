// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"log"
	"strings"
	"time"

	"github.com/nsqio/go-nsq"
)

// link is one connection to a broker, from its beginning to its end. go-nsq's Producer would connect again by itself, to the same broker, and
// lose count of what was sent; its connection does not.
type link struct {
	of      *Client
	broker  string
	conn    *nsq.Conn
	sent    []*message // without an answer, in order
	dead    bool
	refused bool // a message for which the broker closes the connection, and does not fail
	replies delegate
}

var nowhere = log.New(io.Discard, "", 0)

// connect makes a connection, and waits for the broker to answer IDENTIFY.
func (c *Client) connect(broker, address string) (*link, error) {
	l := &link{of: c, broker: broker}
	l.replies.link = l
	l.conn = nsq.NewConn(address, c.config, &l.replies)
	l.conn.SetLogger(nowhere, nsq.LogLevelError, "")
	if _, err := l.conn.Connect(); err != nil {
		l.conn.Close()
		return nil, err
	}
	c.all.Add(1)
	go l.write()
	return l, nil
}

// write sends what waits, while the link is the client's.
func (l *link) write() {
	c := l.of
	defer c.all.Done()
	for {
		c.mutex.Lock()
		for !l.dead && (c.link != l || len(c.waiting) == 0) {
			c.changed.Wait()
		}
		if l.dead {
			c.mutex.Unlock()
			return
		}
		m := c.waiting[0]
		c.waiting = c.waiting[1:]
		m.sent = time.Now()
		l.sent = append(l.sent, m)
		command := nsq.Publish(c.options.Topic, m.body)
		c.mutex.Unlock()
		if err := l.conn.WriteCommand(command); err != nil {
			l.failed(err)
			return
		}
	}
}

// drop ends a link. What had no answer waits again, before all others. The mutex is held.
func (c *Client) drop(l *link) {
	if l.dead {
		return
	}
	l.dead = true
	l.conn.Close()
	if c.link == l {
		c.link = nil
	}
	c.counts.Repeated += uint64(len(l.sent))
	c.waiting = append(l.sent, c.waiting...)
	l.sent = nil
	c.changed.Broadcast()
}

// failed drops a link because its broker is of no use.
func (l *link) failed(err error) {
	c := l.of
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if l.dead {
		return
	}
	c.options.Log("%s: %v; %d messages without an answer", l.broker, err, len(l.sent))
	if !l.refused {
		c.counts.Failures++
		c.failed = l.broker
	}
	c.drop(l)
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// first takes the message that an answer is for. The mutex is held.
func (l *link) first() *message {
	if l.dead || len(l.sent) == 0 {
		return nil
	}
	m := l.sent[0]
	l.sent = l.sent[1:]
	if len(l.sent) == 0 {
		l.of.changed.Broadcast()
	}
	return m
}

// delegate is what go-nsq tells of a connection.
type delegate struct{ link *link }

func (d *delegate) OnResponse(_ *nsq.Conn, _ []byte) {
	c := d.link.of
	c.mutex.Lock()
	defer c.tell()
	if m := d.link.first(); m != nil {
		c.counts.Published++
		c.answer(m, nil)
	}
}

// OnError gives an error to the caller that published. An error that says that the broker cannot take the message (its disk
// is full, it ends) is no answer: another broker can take it.
func (d *delegate) OnError(_ *nsq.Conn, text []byte) {
	l, c := d.link, d.link.of
	c.mutex.Lock()
	m := l.first()
	unable := strings.HasPrefix(string(text), "E_PUB_FAILED") && !strings.Contains(string(text), "queue is full")
	if m != nil && unable {
		c.waiting = append([]*message{m}, c.waiting...)
	} else if m != nil {
		c.counts.Refused++
		l.refused = !strings.HasPrefix(string(text), "E_PUB_FAILED")
		c.answer(m, nsq.ErrProtocol{Reason: string(text)})
	}
	c.tell()
	if unable {
		l.failed(errors.New(string(text)))
	}
}

func (d *delegate) OnIOError(_ *nsq.Conn, err error) { go d.link.failed(err) }
func (d *delegate) OnClose(*nsq.Conn)                { d.link.failed(io.ErrUnexpectedEOF) }

func (d *delegate) OnMessage(*nsq.Conn, *nsq.Message)         {}
func (d *delegate) OnMessageFinished(*nsq.Conn, *nsq.Message) {}
func (d *delegate) OnMessageRequeued(*nsq.Conn, *nsq.Message) {}
func (d *delegate) OnBackoff(*nsq.Conn)                       {}
func (d *delegate) OnContinue(*nsq.Conn)                      {}
func (d *delegate) OnResume(*nsq.Conn)                        {}
func (d *delegate) OnHeartbeat(*nsq.Conn)                     {}
