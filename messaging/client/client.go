// SPDX-License-Identifier: Apache-2.0

// Package client is a producer for topics that a distributor manages. It sends where the distributor says, and
// moves when that changes. What
// Publish took is taken by some broker, whether brokers hang or are replaced, or the distributor is away. Under
// which settings of the brokers it
// is then delivered at least once, also when they are killed, README.md says (*At least once*).
//
//	p, err := client.New(client.Options{Distributors: []string{"10.0.0.9:4170"}, Topic: "alarms", Publisher: "sensor-17"})
//	err = p.Publish(ctx, []byte("23.5"))
//	err = p.Stop(ctx)
//
// Who is told nil, told OK by a broker, is as sure of its message as the broker's settings make it. What had no
// answer when a broker was lost or hung is sent again: it may
// come twice, and is counted. Messages keep their order at one broker, not over a move.
package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
)

// Options say who publishes what.
type Options struct {
	// Distributors are their HTTP addresses, HOST:PORT; any that answers will do.
	Distributors []string
	Topic        string
	// Publisher is this one's own name among the topic's.
	Publisher string
	// Group of publishers that send at the same time; "": none.
	Group string
	// Rate is how many messages a second it sends; 0: as many as the topic's publishers do.
	Rate float64
	// Buffer is how many messages may wait for an answer; 0: 10,000.
	Buffer int
	// Patience is how long a broker may say nothing, neither an answer nor that it lives (2.5 s at least: brokers say so once a second at most), and how
	// long one that is left is waited for; 0: 5 s. However long a broker holds a message before it says OK, it is not left for that.
	Patience time.Duration
	// Nsq is go-nsq's: TLS, the auth secret; nil: its defaults. Heartbeats and the time-out of reading follow Patience.
	Nsq *nsq.Config
	// Log is called for errors and moves; it must not use the client. nil: nothing is logged.
	Log func(format string, values ...any)
}

// Counts of a client since it began.
type Counts struct {
	// Published were told OK, Refused an error of the broker, such as that the topic's queue is full.
	Published, Refused uint64
	// Repeated were sent again without knowing whether they had arrived: so many came twice at most.
	Repeated uint64
	// Moves to another broker, Failures of brokers.
	Moves, Failures uint64
	// Waiting are those without an answer now.
	Waiting int
}

// Errors of a client; those of brokers are go-nsq's ErrProtocol.
var (
	ErrFull    = errors.New("as many messages wait for an answer as the buffer holds")
	ErrStopped = errors.New("the client was stopped before a broker took the message")
)

// leastPatience is what a broker that is well may take to answer when it is left.
const leastPatience = 10 * time.Millisecond

// message is one that was taken. After it had its answer, done is nil.
type message struct {
	body []byte
	done func(error)
	sent time.Time // last
}

// Client is a producer of one topic.
type Client struct {
	options Options
	config  *nsq.Config
	asker   asker
	room    chan struct{}
	ended   context.Context
	end     func()
	all     sync.WaitGroup

	mutex   sync.Mutex
	changed *sync.Cond // waiting, link, or a link's end
	waiting []*message // for a link, in order
	link    *link      // that is sent to; nil while there is none, or one is being left
	failed  string     // the broker that was lost last, until the distributor was told
	stopped bool
	counts  Counts
	news    chan struct{} // the mover is to look at the link
	answers []answer      // not delivered yet, in order
	telling bool          // a goroutine delivers them
}

// answer is an outcome to deliver to the caller that published.
type answer struct {
	done func(error)
	err  error
}

// New starts a client. It does not wait for a broker: messages wait until there is one.
func New(o Options) (*Client, error) {
	if len(o.Distributors) == 0 || o.Topic == "" || o.Publisher == "" {
		return nil, errors.New("a client needs distributors, a topic and the publisher's name")
	}
	if !nsq.IsValidTopicName(o.Topic) {
		return nil, fmt.Errorf("%q is not a topic's name: 1 to 64 of . a-z A-Z 0-9 _ -, perhaps #ephemeral", o.Topic)
	}
	if o.Buffer < 0 {
		return nil, fmt.Errorf("a buffer of %d messages is less than none", o.Buffer)
	}
	if o.Patience != 0 && o.Patience < leastPatience {
		return nil, fmt.Errorf("a patience of %v is less than %v: no broker would be quick enough", o.Patience, leastPatience)
	}
	if o.Buffer == 0 {
		o.Buffer = 10_000
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	config := nsq.NewConfig()
	if o.Nsq != nil {
		copied := *o.Nsq
		config = &copied
	}
	// A broker that hangs is noticed by its silence alone, which ends the connection.
	config.HeartbeatInterval = max(time.Second, o.Patience/3)
	config.ReadTimeout = max(o.Patience, 5*config.HeartbeatInterval/2)
	config.ClientID = o.Publisher
	config.UserAgent = "giusto/1 group=" + url.QueryEscape(o.Group)
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c := &Client{options: o, config: config, asker: newAsker(o.Distributors), room: make(chan struct{}, o.Buffer), news: make(chan struct{}, 1)}
	c.changed = sync.NewCond(&c.mutex)
	c.ended, c.end = context.WithCancel(context.Background())
	c.all.Add(1)
	go c.follow()
	return c, nil
}

// Publish waits for the broker's answer. Where the context ends first, the message may be published nevertheless, if it was sent already.
func (c *Client) Publish(ctx context.Context, body []byte) error {
	select {
	case c.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended.Done():
		return ErrStopped
	}
	answer := make(chan error, 1)
	m, err := c.take(body, func(err error) { answer <- err })
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		c.withdraw(m)
		return ctx.Err()
	}
}

// PublishAsync takes a message, or says at once that it cannot. Done, if not nil, is called with the answer, from another goroutine, one after the
// other in the order of the answers. It may use the client, also to publish again, but it must not wait for anything: neither Publish nor Stop.
func (c *Client) PublishAsync(body []byte, done func(error)) error {
	select {
	case c.room <- struct{}{}:
	default:
		return ErrFull
	}
	if done == nil {
		done = func(error) {}
	}
	_, err := c.take(body, done)
	return err
}

// take has room already.
func (c *Client) take(body []byte, done func(error)) (*message, error) {
	m := &message{body: body, done: done}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		<-c.room
		return nil, ErrStopped
	}
	c.waiting = append(c.waiting, m)
	c.changed.Broadcast()
	return m, nil
}

// withdraw takes back a message that no caller waits for any more, if it was not sent.
func (c *Client) withdraw(m *message) {
	c.mutex.Lock()
	defer c.tell()
	for n, other := range c.waiting {
		if other == m {
			c.waiting = append(c.waiting[:n:n], c.waiting[n+1:]...)
			c.answer(m, context.Canceled)
			return
		}
	}
}

// answer queues the outcome for the caller that published; the next tell delivers it. The mutex is held.
func (c *Client) answer(m *message, err error) {
	<-c.room
	c.answers = append(c.answers, answer{m.done, err})
	m.done, m.body = nil, nil
}

// tell calls those that have an answer, without the mutex, which is held before and free after. Who comes while another tells leaves it to that one, which
// keeps the order.
func (c *Client) tell() {
	for !c.telling && len(c.answers) > 0 {
		next := c.answers[0]
		c.answers = c.answers[1:]
		c.telling = true
		c.mutex.Unlock()
		next.done(next.err)
		c.mutex.Lock()
		c.telling = false
		if c.stopped {
			c.changed.Broadcast()
		}
	}
	c.mutex.Unlock()
}

// Counts are those of now.
func (c *Client) Counts() Counts {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := c.counts
	now.Waiting = len(c.room)
	return now
}

// Broker is the one that is sent to; "": none.
func (c *Client) Broker() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.link == nil {
		return ""
	}
	return c.link.broker
}

// Stop takes no more messages, waits for the answers to those that it took, and ends. Those that have none when the context ends are told
// ErrStopped.
func (c *Client) Stop(ctx context.Context) error {
	c.mutex.Lock()
	c.stopped = true
	c.mutex.Unlock()
	var err error
	for len(c.room) > 0 && err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	c.end()
	c.mutex.Lock()
	if c.link != nil {
		c.drop(c.link)
	}
	c.changed.Broadcast()
	c.mutex.Unlock()
	c.all.Wait()
	c.mutex.Lock()
	for _, m := range c.waiting {
		c.answer(m, ErrStopped)
	}
	c.waiting = nil
	for c.telling {
		c.changed.Wait()
	}
	c.tell()
	return err
}
