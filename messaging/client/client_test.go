// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// crowd publishes from several goroutines until it is told to stop, and knows what was acknowledged.
type crowd struct {
	mutex        sync.Mutex
	acknowledged []string
	stop         context.Context
	end          func()
	all          sync.WaitGroup
}

func publish(t *testing.T, c *Client, goroutines int, pause time.Duration) *crowd {
	p := &crowd{}
	p.stop, p.end = context.WithCancel(context.Background())
	for g := range goroutines {
		p.all.Add(1)
		go func() {
			defer p.all.Done()
			for n := 0; p.stop.Err() == nil; n++ {
				body := fmt.Sprintf("%d-%d", g, n)
				if err := c.Publish(context.Background(), []byte(body)); err != nil {
					t.Error("not published: ", err)
					return
				}
				p.mutex.Lock()
				p.acknowledged = append(p.acknowledged, body)
				p.mutex.Unlock()
				time.Sleep(pause)
			}
		}()
	}
	return p
}

func (p *crowd) finish() []string {
	p.end()
	p.all.Wait()
	return p.acknowledged
}

func (p *crowd) count() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.acknowledged)
}

const onDisk = "mem_queue: 0\ntopics: {kept: {rate: 5k/s, depth: 50, limit: publishing}}"

// Between brokers that are well a client moves without losing, repeating or refusing anything.
func TestMovesBetweenHealthyBrokersAreExact(t *testing.T) {
	d := newDistributor(t)
	a, b := start(t, "a", onDisk), start(t, "b", onDisk)
	a.begin(t)
	b.begin(t)
	d.tell("a", a.address)
	c := client(t, d, func(o *Options) { o.Patience, o.Log = 10*time.Second, nil })
	got := newInbox()
	for _, x := range []*daemon{a, b} {
		defer got.consume(t, x.address).Stop()
	}
	settled(t, "it is where it was sent first", func() bool { return c.Broker() == "a" })
	p := publish(t, c, 4, 100*time.Microsecond)
	for n := range 40 {
		before := p.count()
		settled(t, "it goes on", func() bool { return p.count() > before+2 })
		to := []*daemon{b, a}[n%2]
		d.tell(to.name, to.address)
		settled(t, "it says that it is there", func() bool { return d.last().At == to.name })
	}
	bodies := p.finish()
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	settled(t, "all came", func() bool { missing, _ := got.missing(bodies); return missing == 0 })
	counts := c.Counts()
	if _, more := got.missing(bodies); more != 0 || counts.Repeated != 0 || counts.Moves != 40 || counts.Failures != 0 {
		t.Errorf("%d came more than once; %+v", more, counts)
	}
	if counts.Published != uint64(len(bodies)) || len(bodies) < 100 {
		t.Errorf("%d published, %+v", len(bodies), counts)
	}
}

// Whatever happens to brokers and the distributor: what was acknowledged comes, and no more comes twice than the client counted.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDistributor(t)
	brokers := []*daemon{start(t, "a", onDisk), start(t, "b", onDisk)}
	for _, b := range brokers {
		b.begin(t)
	}
	d.tell("a", brokers[0].address)
	c := client(t, d, nil)
	p := publish(t, c, 4, time.Millisecond)
	events := 12
	if os.Getenv("GIUSTO_SOAK") != "" {
		events = 200
	}
	for range events {
		before := p.count()
		settled(t, "it goes on", func() bool { return p.count() > before+20 })
		at, other := brokers[0], brokers[1]
		if c.Broker() == "b" {
			at, other = other, at
		}
		switch random.IntN(5) {
		case 0: // the broker is killed, and publishers sent away
			at.kill()
			d.tell(other.name, other.address)
			settled(t, "it is there", func() bool { return c.Broker() == other.name })
			at.begin(t)
		case 1: // killed in the middle of a move away from it
			d.tell(other.name, other.address)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			at.kill()
			at.begin(t)
		case 2: // the new one is killed in the middle of a move
			d.tell(other.name, other.address)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			other.kill()
			time.Sleep(100 * time.Millisecond)
			other.begin(t)
		case 3: // it hangs
			at.signal(syscall.SIGSTOP)
			time.Sleep(1500 * time.Millisecond)
			d.tell(other.name, other.address)
			settled(t, "it is there", func() bool { return c.Broker() == other.name })
			at.signal(syscall.SIGCONT)
		case 4: // the distributor is away, and the broker starts anew meanwhile
			d.server.Close()
			at.kill()
			at.begin(t)
			before := p.count()
			settled(t, "it goes on without a distributor", func() bool { return p.count() > before+20 })
			d.begin(t, d.address)
		}
	}
	bodies := p.finish()
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	got := newInbox()
	for _, b := range brokers {
		defer got.consume(t, b.address).Stop()
	}
	settled(t, "all came", func() bool { missing, _ := got.missing(bodies); return missing == 0 })
	time.Sleep(300 * time.Millisecond)
	_, more := got.missing(bodies)
	counts := c.Counts()
	fmt.Printf("client: %d acknowledged through %d events, %d came again; %+v\n", len(bodies), events, more, counts)
	if uint64(more) > counts.Repeated {
		t.Errorf("%d came more than once, but only %d are counted", more, counts.Repeated)
	}
}

// Without a broker messages wait, as many as the buffer holds; then they go out, or are given back.
func TestTheBufferIsBounded(t *testing.T) {
	d := newDistributor(t)
	c := client(t, d, func(o *Options) { o.Buffer = 3 })
	answers := make(chan error, 4)
	for range 3 {
		if err := c.PublishAsync([]byte("x"), func(err error) { answers <- err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PublishAsync([]byte("x"), nil); !errors.Is(err, ErrFull) {
		t.Error("a fourth is taken:", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := c.Publish(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("a fourth is taken:", err)
	}
	a := start(t, "a", onDisk)
	a.begin(t)
	d.tell("a", a.address)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	a.signal(syscall.SIGSTOP)
	settled(t, "it is stopped", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.command.Process.Pid))
		return strings.Contains(string(stat), ") T ")
	})
	for range 3 {
		c.PublishAsync([]byte("x"), func(err error) { answers <- err })
	}
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := c.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for range 3 {
		if err := <-answers; !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
	}
	if err := c.PublishAsync([]byte("x"), nil); !errors.Is(err, ErrStopped) {
		t.Error("a message is taken after the end:", err)
	}
}

// A message that a broker refuses is the publisher's business: it stays at the broker, and loses no other.
func TestARefusedMessageIsTold(t *testing.T) {
	d := newDistributor(t)
	a := start(t, "a", "max_message: 100B\nmax_body: 1KiB")
	a.begin(t)
	d.tell("a", a.address)
	c := client(t, d, nil)
	defer c.Stop(context.Background())
	large := make(chan error, 1)
	c.PublishAsync(make([]byte, 200), func(err error) { large <- err })
	if err := c.Publish(context.Background(), []byte("x")); err != nil {
		t.Error(err)
	}
	if err := <-large; err == nil || !strings.Contains(err.Error(), "E_BAD_MESSAGE") {
		t.Error("a message that is too large:", err)
	}
	if counts := c.Counts(); counts.Refused != 1 || counts.Failures != 0 {
		t.Errorf("%+v", counts)
	}
}

// IDENTIFY tells who publishes, and that it follows assignments.
func TestIdentifyTellsWhoItIs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := newDistributor(t)
	d.tell("fake", l.Addr().String())
	c := client(t, d, nil)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	if line, _ := reader.ReadString('\n'); line != "  V2IDENTIFY\n" {
		t.Errorf("%q", line)
	}
	var size uint32
	binary.Read(reader, binary.BigEndian, &size)
	text := make([]byte, size)
	io.ReadFull(reader, text)
	var said struct {
		ClientID  string `json:"client_id"`
		UserAgent string `json:"user_agent"`
	}
	if json.Unmarshal(text, &said); said.ClientID != "p1" || said.UserAgent != "giusto/1 group=g+1" {
		t.Errorf("%+v", said)
	}
	conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Stop(ctx)
}

// A question is read as it was spelled; what cannot be one is refused.
func TestQuestionsAreReadAsSpelled(t *testing.T) {
	for _, a := range []wire.Ask{{Topic: "t", Publisher: "p"}, {Topic: "t", Publisher: "a b&c", Group: "g/1", Rate: 0.25, At: "x", Failed: "y",
		Seen: 1<<63 + 5, Wait: 1500 * time.Millisecond}} {
		if got, err := wire.ParseAsk(a.Query()); err != nil || got != a {
			t.Errorf("%+v %v", got, err)
		}
	}
	for _, bad := range []string{"", "topic=t", "publisher=p", "topic=t&publisher=p&rate=-1", "topic=t&publisher=p&rate=NaN", "topic=t&publisher=p&wait=3",
		"topic=t&publisher=p&wait=-3s", "topic=t&publisher=p&seen=-1", "topic=t&publisher=p&what=1"} {
		if got, err := wire.ParseAsk(query(bad)); err == nil {
			t.Errorf("%s is taken as %+v", bad, got)
		}
	}
}
