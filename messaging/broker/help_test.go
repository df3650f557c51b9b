// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"io"
	"log"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/settings"
)

// start runs a broker of a file's text on ports of the kernel's choice.
func start(t testing.TB, text string) *Broker {
	t.Helper()
	return startWith(t, t.TempDir(), text, t.Logf)
}

// startWith runs one with its data somewhere, and tells log what it says.
func startWith(t testing.TB, data, text string, log func(string, ...any)) *Broker {
	t.Helper()
	s, err := settings.Parse([]byte(fmt.Sprintf("listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\ndata: %s\nnode: 1\n%s", data, text)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(s, log)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tuned changes nsqd's options for brokers that this test starts.
func tuned(t testing.TB, change func(*nsqd.Options)) {
	tune = change
	t.Cleanup(func() { tune = func(*nsqd.Options) {} })
}

// silent makes nsqd say nothing.
func silent(o *nsqd.Options) { o.LogLevel = nsqd.LOG_FATAL }

// quiet is where go-nsq's lines go.
var quiet = log.New(io.Discard, "", 0)

func producer(t testing.TB, address string, config *nsq.Config) *nsq.Producer {
	t.Helper()
	if config == nil {
		config = nsq.NewConfig()
	}
	p, err := nsq.NewProducer(address, config)
	if err != nil {
		t.Fatal(err)
	}
	p.SetLogger(quiet, nsq.LogLevelError)
	return p
}

type received struct {
	body  string
	at    time.Time
	stamp time.Time
}

// consume gives what a consumer with RDY 200 gets.
func consume(t testing.TB, address, topic string, config *nsq.Config) (*nsq.Consumer, chan received) {
	t.Helper()
	if config == nil {
		config = nsq.NewConfig()
	}
	config.MaxInFlight = 200
	c, err := nsq.NewConsumer(topic, "test", config)
	if err != nil {
		t.Fatal(err)
	}
	c.SetLogger(quiet, nsq.LogLevelError)
	got := make(chan received, 100_000)
	c.AddHandler(nsq.HandlerFunc(func(m *nsq.Message) error {
		got <- received{string(m.Body), time.Now(), time.Unix(0, m.Timestamp)}
		return nil
	}))
	if err := c.ConnectToNSQD(address); err != nil {
		t.Fatal(err)
	}
	return c, got
}
