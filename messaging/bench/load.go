// SPDX-License-Identifier: Apache-2.0

// Package bench loads nsqd and giusto-broker alike and measures both.
package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsqio/go-nsq"
)

// Load is publishers at random, each with a connection of its own, and one consumer with RDY above 1.
type Load struct {
	Publishers int
	Each       float64 // messages a second of one publisher
	For        time.Duration
	Size       int
	Unbuffered bool // the consumer asks for no output buffer
	Topic      string
	Seed       uint64
}

// Result is what came of it. Latencies are from just before Publish to the handler.
type Result struct {
	Sent, Received int
	Latencies      []time.Duration // sorted
	Inside         []time.Duration // sorted; from the time that the broker gave the message, which for ours is when the kernel had it
	Sends          []int64         // when, in ns; in no order
	First, Last    time.Time
}

// Percentile of the latencies.
func (r Result) Percentile(p float64) time.Duration { return Percentile(r.Latencies, p) }

// Percentile of what is sorted; 0 of nothing.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

var quiet = log.New(io.Discard, "", 0)

// Run runs the load against a broker. started is called when all are connected, ended when the last message was sent.
func (l Load) Run(address string, started, ended func()) (Result, error) {
	config := nsq.NewConfig()
	config.MaxInFlight = 1000
	if l.Unbuffered {
		config.OutputBufferSize = -1
	}
	consumer, err := nsq.NewConsumer(l.Topic, "bench", config)
	if err != nil {
		return Result{}, err
	}
	consumer.SetLogger(quiet, nsq.LogLevelError)
	var mutex sync.Mutex
	result := Result{}
	consumer.AddConcurrentHandlers(nsq.HandlerFunc(func(m *nsq.Message) error {
		now := time.Now().UnixNano()
		if sent := int64(binary.BigEndian.Uint64(m.Body)); sent > 0 {
			mutex.Lock()
			result.Latencies = append(result.Latencies, time.Duration(now-sent))
			result.Inside = append(result.Inside, time.Duration(now-m.Timestamp))
			result.Sends = append(result.Sends, sent)
			mutex.Unlock()
		}
		return nil
	}), 2)
	if err := consumer.ConnectToNSQD(address); err != nil {
		return Result{}, err
	}
	defer func() {
		consumer.Stop()
		<-consumer.StopChan
	}()
	producers := make([]*nsq.Producer, l.Publishers)
	for n := range producers {
		producers[n], err = nsq.NewProducer(address, nsq.NewConfig())
		if err != nil {
			return Result{}, err
		}
		producers[n].SetLogger(quiet, nsq.LogLevelError)
		if err := producers[n].Publish(l.Topic, make([]byte, l.Size)); err != nil {
			return Result{}, fmt.Errorf("publisher %d: %w", n, err)
		}
		defer producers[n].Stop()
	}
	time.Sleep(300 * time.Millisecond)
	started()
	var sent atomic.Int64
	var failed atomic.Value
	var publishers sync.WaitGroup
	result.First = time.Now()
	for n, p := range producers {
		publishers.Add(1)
		go func() {
			defer publishers.Done()
			random := rand.New(rand.NewPCG(uint64(n), l.Seed))
			next := result.First.Add(time.Duration(random.ExpFloat64() / l.Each * 1e9)) // not evenly: that would double the rate at first
			for next.Sub(result.First) < l.For {
				time.Sleep(time.Until(next))
				body := make([]byte, l.Size)
				binary.BigEndian.PutUint64(body, uint64(time.Now().UnixNano()))
				if err := p.Publish(l.Topic, body); err != nil {
					failed.Store(err)
					return
				}
				sent.Add(1)
				next = next.Add(time.Duration(random.ExpFloat64() / l.Each * 1e9))
			}
		}()
	}
	publishers.Wait()
	result.Last = time.Now()
	ended()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		mutex.Lock()
		result.Received = len(result.Latencies)
		mutex.Unlock()
		if result.Received >= int(sent.Load()) {
			break
		}
	}
	result.Sent = int(sent.Load())
	mutex.Lock()
	defer mutex.Unlock()
	slices.Sort(result.Latencies)
	slices.Sort(result.Inside)
	if err := failed.Load(); err != nil {
		return result, err.(error)
	}
	return result, nil
}
