// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
)

// book is what publishers were told and what a consumer got.
type book struct {
	mutex sync.Mutex
	told  map[string]bool
	got   map[string]int
	last  time.Time
	moves int
	// longest is how long nothing came, at worst.
	longest time.Duration
}

func (b *book) line(text string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if body, yes := strings.CutPrefix(text, "+ "); yes {
		b.told[body] = true
	} else if strings.HasPrefix(text, "moved ") {
		b.moves++
	}
}

// HandleMessage is the consumer's.
func (b *book) HandleMessage(m *nsq.Message) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.got[string(m.Body)]++
	if now := time.Now(); !b.last.IsZero() {
		b.longest = max(b.longest, now.Sub(b.last))
	}
	b.last = time.Now()
	return nil
}

func (b *book) moved() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.moves
}

// lost are messages that a broker answered with OK and no consumer got.
func (b *book) lost() (lost []string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for body := range b.told {
		if b.got[body] == 0 {
			lost = append(lost, body)
		}
	}
	return lost
}

var silent = log.New(io.Discard, "", 0)

// Publishers move between three brokers while brokers, distributors and publishers are killed with SIGKILL: no message that was acknowledged is lost. An
// unmodified producer publishes at one of the brokers all the time.
func TestNothingAcknowledgedIsLostWhenPublishersMove(t *testing.T) {
	wanted := 40
	if os.Getenv("GIUSTO_SOAK") != "" {
		wanted = 500
	}
	directory := t.TempDir()
	programs, err := Build(directory, "giusto.dev/messaging/cmd/giusto-broker", "giusto.dev/messaging/cmd/giusto-distributor", "giusto.dev/messaging/bench/publish")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(programs, directory, 3, 2, "mem_queue: 0\nmsg_timeout: 5s\n",
		"store: {file: "+directory+"/store}\nlease: 4s\nsilent: 2s\ngather: 300ms\nround: 1s\ncalm: 500ms\nprepare: 10s\nmove: 3s\ncapacity: 5000/s\n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.End()
	b := &book{told: map[string]bool{}, got: map[string]int{}}
	topic := `{"rate": "2k/s", "depth": "60", "promise": {"p99": "500ms"}, "each": "20/s"}`
	if err := f.Ask("PUT", "/topics/alarms", topic, nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	config := nsq.NewConfig()
	config.MaxInFlight, config.LookupdPollInterval = 500, time.Second
	config.DefaultRequeueDelay, config.MaxBackoffDuration = 0, 0
	consumer, err := nsq.NewConsumer("alarms", "all", config)
	if err != nil {
		t.Fatal(err)
	}
	consumer.SetLogger(silent, nsq.LogLevelError)
	consumer.AddHandler(b)
	defer consumer.Stop()
	// It connects again by itself, also to a broker that is not there yet.
	for end := time.Now().Add(20 * time.Second); consumer.Stats().Connections < 3; time.Sleep(50 * time.Millisecond) {
		for _, address := range f.V2 {
			consumer.ConnectToNSQD(address)
		}
		if time.Now().After(end) {
			t.Fatal("the consumer does not reach all brokers")
		}
	}
	publishers := func(n int) (*Process, error) {
		return Launch(b.line, programs.Path("publish"), "-distributors", strings.Join(f.Addresses, ","), "-publishers", "5", "-rate", "20",
			"-prefix", fmt.Sprintf("g%dr%d-", n, time.Now().UnixNano()))
	}
	var groups []*Process
	for n := range 3 {
		p, err := publishers(n)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, p)
	}
	// What knows nothing of distributors: its own broker is never killed.
	stopped, plain := make(chan struct{}), make(chan int)
	go func() {
		quiet := nsq.NewConfig()
		p, err := nsq.NewProducer(f.V2[0], quiet)
		if err == nil {
			p.SetLogger(silent, nsq.LogLevelError)
			defer p.Stop()
		}
		sent := 0
		for err == nil {
			select {
			case <-stopped:
				plain <- sent
				return
			case <-time.After(50 * time.Millisecond):
			}
			body := fmt.Sprint("plain.", sent)
			if err = p.Publish("alarms", []byte(body)); err == nil {
				sent++
				b.line("+ " + body)
			}
		}
		t.Errorf("an unmodified producer was told %v after %d messages", err, sent)
		<-stopped
		plain <- sent
	}()

	random := rand.New(rand.NewPCG(3, 1))
	kills, cycle := map[string]int{}, 0
	for end := time.Now().Add(time.Duration(20+wanted*5) * time.Second); b.moved() < wanted && time.Now().Before(end); cycle++ {
		source := cycle % 3
		if err := f.Ask("PUT", fmt.Sprintf("/brokers/b%d/drain", source), "", nil, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		pause := time.Duration(random.IntN(1000)) * time.Millisecond
		var victim *Process
		switch random.IntN(5) {
		case 0: // a source or target; the first has the unmodified producer
			victim = f.Brokers[1+random.IntN(2)]
			kills["broker"]++
		case 1:
			victim = f.Brokers[1+random.IntN(2)]
			kills["broker"]++
		case 2, 3:
			victim = f.Distributors[random.IntN(2)]
			kills["distributor"]++
		default:
			n := random.IntN(len(groups))
			groups[n].Kill()
			kills["publishers"]++
			if groups[n], err = publishers(n); err != nil {
				t.Fatal(err)
			}
		}
		if victim != nil {
			victim.Kill()
			time.Sleep(pause)
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(500+random.IntN(1500)) * time.Millisecond)
		if err := f.Ask("DELETE", fmt.Sprintf("/brokers/b%d/drain", source), "", nil, 20*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	close(stopped)
	unmodified := <-plain
	for _, p := range groups {
		p.End()
	}
	for end := time.Now().Add(60 * time.Second); len(b.lost()) > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	lost := b.lost()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	twice := 0
	for _, count := range b.got {
		twice += count - 1
	}
	fmt.Printf("fleet: %d moves in %d cycles, killed %v; %d messages acknowledged, %d of an unmodified producer, %d lost, %d came more than once\n",
		b.moves, cycle, kills, len(b.told), unmodified, len(lost), twice)
	if len(lost) > 0 {
		t.Errorf("lost: %v", lost[:min(len(lost), 10)])
	}
	if b.moves < wanted {
		t.Errorf("only %d moves of %d", b.moves, wanted)
	}
}
