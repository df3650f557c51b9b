// SPDX-License-Identifier: Apache-2.0

// Package bench loads nsqd and giusto-broker alike and measures both.
package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
)

// Load is publishers at random, each with a connection of its own, and one consumer of go-nsq with RDY above 1.
type Load struct {
	Publishers int
	Each       float64 // messages a second of one publisher
	Batch      int     // messages that it sends at once, with MPUB; 0: one, with PUB
	For        time.Duration
	Size       int
	Unbuffered bool // the consumer asks for no output buffer
	Topic      string
	Seed       uint64
}

// Result is what came of it. Latencies are from just before the message is written to the handler.
type Result struct {
	Sent, Received int
	Latencies      []time.Duration // sorted
	Inside         []time.Duration // sorted; from the time that the broker gave the message, which for ours is when the kernel had it
	Sends          []int64         // when, in ns; in no order
	Lateness       []time.Duration // of the sends against their schedule, sorted
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
	// The collector of the load would stop the load, and its tail is not the broker's.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
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
	publishers := make([]*publisher, l.Publishers)
	for n := range publishers {
		publishers[n], err = connect(address, l.command())
		if err != nil {
			return Result{}, fmt.Errorf("publisher %d: %w", n, err)
		}
		defer publishers[n].conn.Close()
	}
	time.Sleep(300 * time.Millisecond)
	started()
	result.First = time.Now()
	sent, lateness := l.send(publishers, result.First)
	result.Last = time.Now()
	result.Sent, result.Lateness = sent, lateness
	ended()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		mutex.Lock()
		result.Received = len(result.Latencies)
		mutex.Unlock()
		if result.Received >= result.Sent {
			break
		}
	}
	mutex.Lock()
	defer mutex.Unlock()
	slices.Sort(result.Latencies)
	slices.Sort(result.Inside)
	for n, p := range publishers {
		if err := p.failure(); err != nil {
			return result, fmt.Errorf("publisher %d: %w", n, err)
		}
	}
	return result, nil
}
