// SPDX-License-Identifier: Apache-2.0

// real lets a distributor place real publishers at real brokers of this machine, with giusto-zookeeper for its state if it is built and asked for. It
// prints a line of JSON: where publishers went, the latencies, and how long it took until another distributor led after the
// first was killed. studies/srtm-real judges it.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/bench"
	"giusto.dev/messaging/client"
	"giusto.dev/messaging/ensemble"
	"giusto.dev/messaging/fleet"
)

// trial is one topic on one fleet.
type trial struct {
	brokers, publishers int
	each                float64
	kind                string
	capacity            float64
	rate, depth         float64
	objective, length   time.Duration
	seed                uint64
}

func main() {
	log.SetFlags(0)
	var t trial
	programs := flag.String("programs", ".", "where giusto-broker and giusto-distributor are")
	zookeeper := flag.Bool("zookeeper", false, "three servers of giusto-zookeeper keep the state; else a directory")
	flag.IntVar(&t.brokers, "brokers", 3, "how many are there")
	flag.IntVar(&t.publishers, "publishers", 150, "how many")
	flag.Float64Var(&t.each, "each", 10, "messages a second of one")
	flag.StringVar(&t.kind, "kind", "srtm", "of distribution: srtm, max-min, conc or lb")
	flag.Float64Var(&t.capacity, "capacity", 5000, "messages a second of a broker")
	flag.Float64Var(&t.rate, "rate", 1650, "tokens a second of the topic")
	flag.Float64Var(&t.depth, "depth", 26, "tokens of the topic")
	flag.DurationVar(&t.objective, "p99", 200*time.Millisecond, "what was promised")
	flag.DurationVar(&t.length, "for", 5*time.Second, "of measuring, once the topic is steady")
	flag.Uint64Var(&t.seed, "seed", 1, "of the publishers")
	flag.Parse()
	directory, err := os.MkdirTemp("", "giusto-real-")
	if err != nil {
		log.Fatal(err)
	}
	path, err := filepath.Abs(*programs)
	if err != nil {
		log.Fatal(err)
	}
	found, err := t.run(fleet.Programs(path), directory, *zookeeper)
	os.RemoveAll(directory)
	if err != nil {
		log.Fatal(err)
	}
	json.NewEncoder(os.Stdout).Encode(found)
}

// result of a trial. Times in ms.
type result struct {
	Brokers    int        `json:"brokers"`   // that have publishers
	Rounds     int        `json:"rounds"`    // of measurement
	Steady     float64    `json:"steady_ms"` // from the first publisher until the distribution is done
	Messages   int        `json:"messages"`
	Latency    [3]float64 `json:"latency_ms"` // the 50th, 95th and 99th percentile
	Takeover   float64    `json:"takeover_ms"`
	Moves      uint64     `json:"moves"`
	Unanswered int        `json:"unanswered"` // messages that were taken and never acknowledged
	Lost       int        `json:"lost"`
}

var silent = log.New(io.Discard, "", 0)

func (t trial) run(programs fleet.Programs, directory string, zookeeper bool) (r result, err error) {
	place := "{file: " + filepath.Join(directory, "store") + "}"
	if zookeeper {
		e, err := ensemble.Open(directory, 3)
		if err != nil {
			return r, err
		}
		defer e.Kill()
		place = "{zookeeper: [" + strings.Join(e.Addresses(), ", ") + "]}"
	}
	f, err := fleet.New(programs, directory, t.brokers, 2, fmt.Sprintf("capacity: %g/s\n", t.capacity),
		fmt.Sprintf("store: %s\nkind: %s\nsilent: 2s\ngather: 1s\nround: 3s\ncalm: 1s\nprepare: 20s\n", place, t.kind))
	if err != nil {
		return r, err
	}
	defer f.End()
	topic := fmt.Sprintf(`{"rate": "%g/s", "depth": "%g", "promise": {"p99": "%dus"}, "each": "%g/s"}`, t.rate, t.depth, t.objective.Microseconds(), t.each)
	if err := f.Ask("PUT", "/topics/alarms", topic, nil, 30*time.Second); err != nil {
		return r, err
	}
	var mutex sync.Mutex
	var latencies []time.Duration
	measuring, seen := false, map[uint64]bool{}
	config := nsq.NewConfig()
	config.MaxInFlight = 1000
	consumer, err := nsq.NewConsumer("alarms", "all", config)
	if err != nil {
		return r, err
	}
	consumer.SetLogger(silent, nsq.LogLevelError)
	consumer.AddConcurrentHandlers(nsq.HandlerFunc(func(m *nsq.Message) error {
		now := time.Now().UnixNano()
		mutex.Lock()
		defer mutex.Unlock()
		seen[binary.BigEndian.Uint64(m.Body[8:])] = true
		if measuring {
			latencies = append(latencies, time.Duration(now-int64(binary.BigEndian.Uint64(m.Body))))
		}
		return nil
	}), 2)
	defer consumer.Stop()
	for end := time.Now().Add(20 * time.Second); consumer.Stats().Connections < t.brokers; time.Sleep(50 * time.Millisecond) {
		for _, address := range f.V2 {
			consumer.ConnectToNSQD(address)
		}
		if time.Now().After(end) {
			return r, fmt.Errorf("the consumer does not reach all brokers")
		}
	}
	ending, stop := context.WithCancel(context.Background())
	defer stop()
	told := map[uint64]bool{}
	var publishing sync.WaitGroup
	clients := make([]*client.Client, t.publishers)
	begun := time.Now()
	for n := range clients {
		if clients[n], err = client.New(client.Options{Distributors: f.Addresses, Topic: "alarms", Publisher: fmt.Sprintf("p%04d", n), Rate: t.each}); err != nil {
			return r, err
		}
		publishing.Add(1)
		go func() {
			defer publishing.Done()
			random := rand.New(rand.NewPCG(t.seed, uint64(n)))
			for number := uint64(n) << 32; ending.Err() == nil; number++ {
				time.Sleep(time.Duration(random.ExpFloat64() / t.each * 1e9))
				body := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())), number)
				clients[n].PublishAsync(append(body, make([]byte, 84)...), func(err error) {
					if err == nil {
						mutex.Lock()
						told[number] = true
						mutex.Unlock()
					}
				})
			}
		}()
	}
	for end := begun.Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		status, err := f.Topic("alarms")
		if err != nil {
			return r, err
		}
		if status.Publishers == t.publishers && status.Phase == "steady" && status.Rounds > 0 {
			r.Rounds, r.Steady = status.Rounds, time.Since(begun).Seconds()*1e3
			for _, share := range status.Shares {
				if share.Publishers > 0 {
					r.Brokers++
				}
			}
			break
		}
		if time.Now().After(end) {
			return r, fmt.Errorf("not steady after two minutes: %s %s, %d publishers", status.Phase, status.Note, status.Publishers)
		}
	}
	switching := func(on bool) {
		mutex.Lock()
		measuring = on
		mutex.Unlock()
	}
	switching(true)
	time.Sleep(t.length)
	switching(false)
	leader, err := f.Leader(10 * time.Second)
	if err != nil {
		return r, err
	}
	f.Distributors[leader].Kill()
	killed := time.Now()
	if _, err = f.Leader(30 * time.Second); err != nil {
		return r, err
	}
	r.Takeover = time.Since(killed).Seconds() * 1e3
	time.Sleep(2 * time.Second)
	stop()
	publishing.Wait()
	ended, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, c := range clients {
		c.Stop(ended)
		r.Moves += c.Counts().Moves
		r.Unanswered += c.Counts().Waiting
	}
	missing := func() (count int) {
		mutex.Lock()
		defer mutex.Unlock()
		for number := range told {
			if !seen[number] {
				count++
			}
		}
		return count
	}
	for end := time.Now().Add(20 * time.Second); missing() > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	r.Lost = missing()
	slices.Sort(latencies)
	r.Messages = len(latencies)
	for n, p := range []float64{.5, .95, .99} {
		r.Latency[n] = bench.Percentile(latencies, p).Seconds() * 1e3
	}
	return r, nil
}
