// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/fifo"
	"giusto.dev/messaging/outlet"
)

// channel is what stands in a channel of nsqd in the place of its disk queue, before the first consumer comes
// (engine.adopt). What passes it and when:
//
//	topic's pump, requeued, deferred, timed out ──Put──▶ memory, or the disk queue ──run──▶ out ──ReadChan──▶ a consumer's pump ──▶ its socket
//
// A limited channel has all its messages here. Its goroutine takes one only when a consumer's pump asks for it and a
// token is there, so that what waits has begun no time-out and counts for no consumer. A channel without a limit
// keeps nsqd's own memory, and only what that does not hold comes here, as to the disk queue.
type channel struct {
	broker      *Broker
	topic, name string
	inner       nsqd.BackendQueue // nsqd's disk queue
	most        int               // messages in memory
	out         chan []byte
	stir        chan struct{} // something has changed
	emptied     chan struct{}
	quit        chan struct{}
	ended       chan struct{} // closed when run has ended
	asks        atomic.Int64  // how often a pump was ready, since run looked last
	limited     atomic.Bool   // run hands its messages out
	ruled       atomic.Bool   // they must enter by outlet's leave
	alarm       *alarm
	counts      *flow
	ready       atomic.Int64 // consumers with an RDY above 0

	mutex     sync.Mutex
	outlet    outlet.Outlet
	lease     uint64 // the leases' time until which messages may pass; 0: there is none
	memory    fifo.Queue[[]byte]
	first     []byte // before those in memory: it was taken, and could not go on
	taken     bool   // run has one that is in neither
	spilled   fifo.Queue[[]byte]
	consumers int
	running   bool
	stuck     bool                   // a consumer asks, and there is no token
	age       int                    // another when it was emptied
	failed    error                  // why messages spill
	writers   map[*consumer]struct{} // those that a message enters
	use       bucket.Bucket
	peak      uint64
}

// errQuit ends what waits for a channel that is closed.
var errQuit = errors.New("exiting")

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// messageID of a message as nsqd writes it to its queues.
func messageID(data []byte) (id outlet.ID) {
	if len(data) >= 10+nsqd.MsgIDLength {
		copy(id[:], data[10:])
	}
	return id
}

// now is the gates' time; the outlet's lease is brought to it. Called with the lock held.
func (c *channel) now() uint64 {
	t := time.Now()
	if c.lease > 0 {
		c.outlet.Until = max(1, c.lease-min(c.lease, c.broker.clock.Ahead(t)))
	}
	return c.broker.clock.At(t)
}

// ReadChan is where a pump takes messages from; nsqd asks whenever one is ready for another.
func (c *channel) ReadChan() <-chan []byte {
	if !c.limited.Load() {
		return c.inner.ReadChan()
	}
	c.asks.Add(1)
	poke(c.stir)
	return c.out
}

// Put takes a message. Where the disk is full it is kept, and its publishers are slowed down: nsqd would drop it.
func (c *channel) Put(data []byte) error {
	limited := c.limited.Load()
	if limited {
		c.mutex.Lock()
		c.came()
		if c.memory.Len() < c.most {
			c.memory.Push(slices.Clone(data))
			c.mutex.Unlock()
			poke(c.stir)
			return nil
		}
		c.mutex.Unlock()
	}
	err := c.store(data)
	if err != nil {
		c.spill(slices.Clone(data), err)
	}
	return nil
}

// came counts what comes, for the distributor: how much of the bucket it takes. Called with the lock held.
func (c *channel) came() {
	if c.use.Admit(1, c.broker.clock.At(time.Now())) {
		c.peak = max(c.peak, c.use.Lacks())
	}
}

// Depth is how many messages are here.
func (c *channel) Depth() int64 {
	c.mutex.Lock()
	here := c.memory.Len() + c.spilled.Len()
	if c.first != nil || c.taken {
		here++
	}
	c.mutex.Unlock()
	return int64(here) + c.inner.Depth()
}

// Empty throws all away.
func (c *channel) Empty() error {
	c.mutex.Lock()
	c.memory, c.first = fifo.Queue[[]byte]{}, nil
	c.age++
	for c.spilled.Len() > 0 {
		c.spilled.Pop()
		c.broker.spills.Add(-1)
	}
	poke(c.emptied)
	c.mutex.Unlock()
	return c.inner.Empty()
}

// end stops the goroutine, and forgets the channel.
func (c *channel) end() {
	go c.broker.forget(c)
	c.mutex.Lock()
	running := c.running
	c.mutex.Unlock()
	select {
	case <-c.quit:
	default:
		close(c.quit)
	}
	if running {
		<-c.ended
	}
	c.alarm.stop()
}

// Close writes what is in memory to the disk queue, and closes that.
func (c *channel) Close() error {
	c.end()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	rest := c.spilled
	if c.first != nil {
		rest.Push(c.first)
	}
	for c.memory.Len() > 0 {
		rest.Push(c.memory.Pop())
	}
	for rest.Len() > 0 {
		c.last(rest.Pop())
	}
	return c.inner.Close()
}

// Delete throws all away, and the files.
func (c *channel) Delete() error {
	c.end()
	return c.inner.Delete()
}

// run hands messages out.
func (c *channel) run() {
	defer close(c.ended)
	patience := time.NewTimer(time.Hour)
	defer patience.Stop()
	again, pause := time.NewTimer(time.Hour), time.Second
	defer again.Stop()
	wanted := int64(0)
	for {
		c.mutex.Lock()
		wanted = min(wanted+c.asks.Swap(0), int64(max(c.consumers, 1)))
		at, any := c.outlet.Next(c.now())
		now := c.broker.clock.At(time.Now())
		var data []byte
		if ready := any && at <= now; wanted > 0 && ready {
			data = c.take()
		} else if c.stuck = wanted > 0; c.stuck && any {
			c.alarm.set(time.Duration(at - now))
		}
		from := c.inner.ReadChan()
		if wanted == 0 || !any || at > now {
			from = nil
		}
		c.mutex.Unlock()
		if data == nil {
			select {
			case data = <-from:
			case <-c.stir:
				continue
			case <-c.alarm.rung:
				continue
			case <-again.C:
				wanted = max(wanted, 1)
				continue
			case <-c.quit:
				return
			}
			c.mutex.Lock()
			c.taken = true
			c.mutex.Unlock()
		}
		switch gone, offered := c.offer(data, patience); {
		case gone:
			wanted, pause = wanted-1, time.Second
		case offered: // no consumer waits, or one that asked has not come to wait yet: it would not ask again for long
			wanted = 0
			again.Reset(pause)
			pause = min(2*pause, 16*time.Second)
		}
	}
}

// take is the first of those in memory; nil: there is none. Called with the lock held.
func (c *channel) take() (data []byte) {
	c.stuck = false
	if data, c.first = c.first, nil; data == nil && c.memory.Len() > 0 {
		data = c.memory.Pop()
	}
	c.taken = data != nil
	return data
}

// offer gives a message its token, and then to a pump that waits for one. If it could not go it is back; offered says
// that it had a token.
func (c *channel) offer(data []byte, patience *time.Timer) (gone, offered bool) {
	id := messageID(data)
	c.mutex.Lock()
	granted, age := c.outlet.Grant(id, c.now()), c.age
	c.mutex.Unlock()
	if granted {
		select {
		case c.out <- data:
			gone = true
		default:
			// A pump asked a moment ago. If none comes now it has left, or is not ready any more.
			patience.Reset(100 * time.Millisecond)
			select {
			case c.out <- data:
				gone = true
			case <-patience.C:
				select { // both may have come while the process was stopped
				case c.out <- data:
					gone = true
				default:
				}
			case <-c.emptied:
			case <-c.quit:
			}
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.taken = false
	if gone {
		c.counts.delivered.Add(1)
		return true, true
	}
	if granted {
		c.outlet.Return(id, c.now())
	}
	if c.age == age {
		c.back(data)
	}
	return false, granted
}

// back keeps a message that was taken: first of all in memory, or, where nothing is kept in memory, on disk. Called
// with the lock held.
func (c *channel) back(data []byte) {
	if c.most > 0 || c.store(data) != nil {
		c.first = data
	}
}

// enter waits until a message may enter a consumer's socket, and returns with its `writing` locked. Most have their
// token already; what comes from before the channel had a limit, or lost it with the lease, takes it here. An error:
// it is not to be written.
func (c *channel) enter(id outlet.ID, k *consumer) error {
	var timer *time.Timer
	began := time.Now()
	for beat := began; ; {
		k.writing.Lock()
		c.mutex.Lock()
		now := c.now()
		if c.outlet.Enter(id, now) || c.outlet.Grant(id, now) && c.outlet.Enter(id, now) {
			c.writers[k] = struct{}{}
			c.mutex.Unlock()
			return nil
		}
		wait := 100 * time.Millisecond
		if at, any := c.outlet.Next(now); any {
			wait = min(wait, time.Duration(at-min(at, now))+1)
		}
		c.mutex.Unlock()
		k.writing.Unlock()
		if time.Since(began) > k.patience {
			return errLate
		}
		if time.Since(beat) > k.interval()/2 { // nsqd, which waits for this write, sends none
			beat = time.Now()
			k.connection.frame(frameResponse, []byte("_heartbeat_"))
			if err := k.flush(); err != nil {
				return err
			}
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-k.gone:
			return errQuit
		case <-c.quit:
			return errQuit
		}
	}
}

// errLate: a message that waits for so long is sent again by nsqd, which took it for sent.
var errLate = errors.New("it has waited for too long")

// left says that a message's write is over.
func (c *channel) left(id outlet.ID, k *consumer) {
	c.mutex.Lock()
	delete(c.writers, k)
	c.outlet.Left(id, c.now())
	c.counts.late.Store(c.outlet.Counts.Late)
	c.mutex.Unlock()
	poke(c.stir)
}
