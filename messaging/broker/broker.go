// SPDX-License-Identifier: Apache-2.0

// Package broker is a message broker that speaks NSQ's protocol: stock nsqd embedded behind our own listeners, with exact rate
// limits for topics and no avoidable latency.
package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/clock"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/settings"
)

// Broker is one running broker.
type Broker struct {
	writing  atomic.Int64  // bytes that disk queues are to write
	roomy    atomic.Uint64 // until when there is plenty of room
	log      logger
	clock    *clock.Clock
	settings atomic.Pointer[settings.Settings]
	topics   atomic.Pointer[map[string]*topic] // those with a limit; replaced, never changed
	engine   *engine
	ids      ids
	metrics  *metrics
	follower *follower // nil: no distributor
	tls      *tls.Config
	asking   *http.Client // of auth servers
	listener net.Listener
	https    net.Listener // nil: there is none
	alarms   *alarms
	steps    *os.File // tells when the wall clock is set
	web      *http.Server
	webAddr  net.Addr

	assembling atomic.Int64 // bytes allocated for bodies that are not here yet
	crowded    int64
	consuming  atomic.Int64
	stopping   atomic.Bool
	lastCall   chan struct{} // closed: what nsqd does not take now is lost

	installing sync.RWMutex        // of channels; a reader of nsqd's holds it for reading
	channels   map[string]*channel // by topic:channel
	saved      map[string]uint64   // what was in their buckets when the broker ended
	spills     atomic.Int64        // messages that channels could not write

	mutex    sync.Mutex // of clients
	clients  map[*connection]struct{}
	serving  sync.WaitGroup
	changing sync.Mutex // of topics
}

// Start starts a broker. log gets a line for what an operator should know.
func Start(s settings.Settings, log func(format string, words ...any)) (*Broker, error) {
	b := &Broker{log: log, clock: clock.New(), clients: map[*connection]struct{}{}, lastCall: make(chan struct{}),
		crowded: max(int64(s.Memory)/4, 2*int64(s.MaxBody)), asking: &http.Client{Timeout: 5 * time.Second}}
	b.settings.Store(&s)
	b.topics.Store(&map[string]*topic{})
	b.channels, b.saved = map[string]*channel{}, map[string]uint64{}
	b.metrics = &metrics{broker: b, topics: map[string]*counts{}, flows: map[string]*flow{}, errors: map[string]uint64{}}
	var err error
	if b.tls, err = tlsConfig(s.TLS); err != nil {
		return nil, err
	}
	listening := net.ListenConfig{Control: stampAll}
	if b.listener, err = listening.Listen(context.Background(), "tcp", s.Listen); err != nil {
		return nil, err
	}
	web, err := net.Listen("tcp", s.HTTP)
	if err != nil {
		b.listener.Close()
		return nil, err
	}
	b.webAddr = web.Addr()
	if s.HTTPS != "" {
		if b.https, err = tls.Listen("tcp", s.HTTPS, b.tls); err != nil {
			b.listener.Close()
			web.Close()
			return nil, err
		}
	}
	b.alarms, err = newAlarms()
	if err == nil {
		b.engine, err = startEngine(s, b.listener.Addr(), web.Addr(), log, b.adoptAll)
	}
	if err == nil {
		b.ids.node = uint64(b.engine.options.ID)
	}
	if err == nil && len(s.Distributor) > 0 {
		b.follower, err = b.newFollower(s)
	}
	if err == nil {
		b.saved = recall(s.Data)
		for _, t := range b.engine.GetMetadata(true).Topics {
			if nsq, err := b.engine.GetExistingTopic(t.Name); err == nil {
				b.adoptAll(nsq, t.Name)
			}
		}
		err = b.limit(s.Topics)
	}
	if err == nil {
		b.steps, err = b.watchClock()
	}
	if err != nil {
		b.listener.Close()
		web.Close()
		if b.https != nil {
			b.https.Close()
		}
		if b.engine != nil {
			b.engine.stop()
		}
		if b.alarms != nil {
			b.alarms.close()
		}
		return nil, err
	}
	b.web = b.newWeb()
	b.serving.Add(2)
	go func() { defer b.serving.Done(); b.web.Serve(web) }()
	if b.https != nil {
		b.serving.Add(1)
		go func() { defer b.serving.Done(); b.web.Serve(b.https) }()
	}
	go func() { defer b.serving.Done(); b.accept() }()
	if f := b.follower; f != nil {
		f.reporter.Start(f)
	}
	return b, nil
}

// Addr is where producers and consumers connect.
func (b *Broker) Addr() net.Addr { return b.listener.Addr() }

// HTTPAddr is where HTTP is served.
func (b *Broker) HTTPAddr() net.Addr { return b.webAddr }

// HTTPSAddr is where HTTPS is served; nil: nowhere.
func (b *Broker) HTTPSAddr() net.Addr {
	if b.https == nil {
		return nil
	}
	return b.https.Addr()
}

// limit makes the topics' limits what they are to be; with an error nothing changes.
func (b *Broker) limit(wanted map[string]settings.Topic) error {
	old := *b.topics.Load()
	changed := map[string]*topic{}
	for name, s := range wanted {
		if old[name] != nil || s.Limit != settings.Publishing {
			continue
		}
		full, err := bucket.New(s.Rate.Rate, uint64(s.Depth), uint64(s.Depth), b.clock.At(time.Now()))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err) // the file was checked: the bucket takes it
		}
		changed[name] = b.newTopic(name, s, full)
	}
	var err error
	for name, t := range old {
		if s, stays := wanted[name]; stays && s.Limit == settings.Publishing {
			err = errors.Join(err, t.set(s)) // the file was checked: the bucket takes it
		} else if b.follower == nil || stays {
			changed[name] = nil
		} else if !t.follows() {
			err = errors.Join(err, t.order(holder.Step{Change: holder.Restart}, 1)) // until there are orders for it
		}
	}
	b.swap(changed)
	return err
}

// Reload takes over the topics of a file read anew. What else differs needs a restart, and is refused with all the rest.
func (b *Broker) Reload(path string) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	err := b.reload(path)
	if err != nil {
		b.metrics.failed.Add(1)
		return fmt.Errorf("not reloaded: %w", err)
	}
	b.metrics.reloaded.Add(1)
	return nil
}

func (b *Broker) reload(path string) error {
	if b.stopping.Load() {
		return errStopping
	}
	s, err := settings.Read(path)
	if err != nil {
		return err
	}
	if key := s.Differs(*b.settings.Load()); key != "" {
		return fmt.Errorf("%s: %s has changed, which needs a restart", path, key)
	}
	before := *b.settings.Load()
	b.settings.Store(&s)
	err = b.deliver(func(string) bool { return false })
	if err == nil {
		err = b.limit(s.Topics)
	}
	if err != nil {
		b.settings.Store(&before)
	}
	return err
}

// accept serves connections until the listener is closed.
func (b *Broker) accept() {
	told := time.Time{}
	for {
		conn, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if time.Since(told) > time.Minute {
				b.log("accept: %v", err)
				told = time.Now()
			}
			time.Sleep(20 * time.Millisecond) // out of files, most likely: others must close some
			continue
		}
		b.metrics.opened.Add(1)
		c, err := b.newConnection(conn.(*net.TCPConn))
		if err != nil {
			conn.Close()
			continue
		}
		b.mutex.Lock()
		b.clients[c] = struct{}{}
		b.mutex.Unlock()
		b.serving.Add(1)
		go func() {
			defer b.serving.Done()
			c.serve()
			b.mutex.Lock()
			delete(b.clients, c)
			b.mutex.Unlock()
		}()
	}
}

// connections is how many there are, and how many of these consume.
func (b *Broker) connections() (all, consuming int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.clients), int(b.consuming.Load())
}

// Ended tells why nsqd ended, if it did by itself.
func (b *Broker) Ended() <-chan error { return b.engine.ended }

// Stop ends the broker; nothing that was acknowledged is lost. No command is read any more; what waits goes out at
// its rate for as long as `drain` says, and the rest to nsqd's disk, as what consumers did not take.
func (b *Broker) Stop() {
	b.stopping.Store(true)
	b.listener.Close()
	if b.follower != nil {
		b.follower.leave()
	}
	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	b.web.Shutdown(ending)
	cancel()
	b.web.Close()
	b.mutex.Lock()
	for c := range b.clients {
		if !c.consuming.Load() {
			c.conn.SetReadDeadline(time.Unix(1, 0)) // wakes it; it sees that we stop
		}
	}
	b.mutex.Unlock()
	topics := *b.topics.Load()
	for end := time.Now().Add(time.Duration(b.settings.Load().Drain)); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		kept := 0
		for _, t := range topics {
			if !t.follows() { // the others' shares were given back
				kept += t.kept()
			}
		}
		if kept == 0 {
			break
		}
	}
	// Consumers leave first: what now goes to nsqd at once is for its disk, and must not reach them faster than the limit.
	b.disconnect()
	for end := time.Now().Add(time.Second); b.consuming.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := b.remember(b.settings.Load().Data); err != nil {
		b.log("buckets begin empty at the next start: %v", err)
	}
	// nsqd's disk may be full: what it does not take within a moment is lost, and said to be.
	last := time.AfterFunc(2*time.Second, func() { close(b.lastCall) })
	for _, t := range topics {
		t.end()
	}
	if last.Stop() {
		close(b.lastCall)
	}
	b.engine.stop()
	b.disconnect()
	b.serving.Wait()
	b.steps.Close()
	b.alarms.close()
}

// disconnect ends all connections.
func (b *Broker) disconnect() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for c := range b.clients {
		c.conn.Close()
	}
}
