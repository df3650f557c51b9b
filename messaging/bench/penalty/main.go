// SPDX-License-Identifier: Apache-2.0

// penalty says what splitting a topic's token bucket over brokers costs [LiC20, Fig. 2.6]: with the real bucket in virtual
// time, or with real brokers on this machine. It prints a line of JSON; studies/srtm-penalty judges it.
package main

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"giusto.dev/messaging/bench"
	"giusto.dev/messaging/bucket"
)

// question is a topic of publishers at random, on so many brokers.
type question struct {
	publishers, brokers int
	each                float64
	rate, depth         uint64 // of the whole bucket: tokens a second, tokens
	length              time.Duration
	seed                uint64
}

func main() {
	log.SetFlags(0)
	var q question
	flag.IntVar(&q.publishers, "publishers", 1000, "how many")
	flag.Float64Var(&q.each, "each", 10, "messages a second of one")
	flag.IntVar(&q.brokers, "brokers", 1, "over how many the bucket is split")
	flag.Uint64Var(&q.rate, "rate", 11_000, "tokens a second, at all brokers together")
	flag.Uint64Var(&q.depth, "depth", 26, "tokens, at all brokers together")
	flag.DurationVar(&q.length, "for", 10*time.Second, "of sending")
	flag.Uint64Var(&q.seed, "seed", 1, "of the publishers")
	capacity := flag.Float64("capacity", 0, "virtual time: messages a second that a broker handles, one after the other")
	program := flag.String("broker", "", "real time: the giusto-broker to start")
	flag.Parse()
	var latencies, waits []time.Duration
	var err error
	switch {
	case *program != "" && *capacity == 0:
		latencies, waits, err = q.measure(*program)
	case *program == "" && *capacity > 0:
		latencies, err = q.simulate(*capacity)
	default:
		err = fmt.Errorf("expected -capacity or -broker")
	}
	if err != nil {
		log.Fatal(err)
	}
	out := map[string]any{"messages": len(latencies), "latency_ms": percentiles(latencies)}
	if waits != nil {
		out["wait_ms"] = percentiles(waits)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

// percentiles are the 50th, 95th and 99th, in ms.
func percentiles(times []time.Duration) (found [3]float64) {
	slices.Sort(times)
	for n, p := range []float64{.5, .95, .99} {
		found[n] = times[min(int(p*float64(len(times))), len(times)-1)].Seconds() * 1e3
	}
	return found
}

// shares are the brokers' buckets.
func (q question) shares() ([]bucket.Bucket, error) {
	k := uint64(q.brokers)
	burst := q.depth * bucket.Token / k
	buckets := make([]bucket.Bucket, k)
	for n := range buckets {
		var err error
		if buckets[n], err = bucket.New(bucket.Rate{Num: q.rate, Den: k}, burst, burst, 0); err != nil {
			return nil, err
		}
	}
	return buckets, nil
}

// simulate lets messages through the bucket that ships, each broker's with its share, and then through a broker that
// handles one after the other.
func (q question) simulate(capacity float64) ([]time.Duration, error) {
	buckets, err := q.shares()
	if err != nil {
		return nil, err
	}
	busy := make([]float64, q.brokers)
	random := rand.New(rand.NewPCG(q.seed, uint64(q.brokers)))
	after := func() float64 { return random.ExpFloat64() / q.each * 1e9 }
	next := make(sends, q.publishers)
	for n := range next {
		next[n] = send{after(), n}
	}
	heap.Init(&next)
	var latencies []time.Duration
	for next[0].at < float64(q.length) {
		one := next[0]
		at, broker := uint64(one.at), one.publisher%q.brokers
		released, err := buckets[broker].Take(1, at)
		if err != nil {
			return nil, err
		}
		busy[broker] = max(busy[broker], float64(released)) + 1e9/capacity
		latencies = append(latencies, time.Duration(busy[broker]-float64(at)))
		next[0].at += after()
		heap.Fix(&next, 0)
	}
	return latencies, nil
}

// send is a publisher's next message, in ns.
type send struct {
	at        float64
	publisher int
}

type sends []send

func (s sends) Len() int           { return len(s) }
func (s sends) Less(a, b int) bool { return cmp.Less(s[a].at, s[b].at) }
func (s sends) Swap(a, b int)      { s[a], s[b] = s[b], s[a] }
func (s *sends) Push(any)          {}
func (s *sends) Pop() any          { return nil }

const form = "listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: %d\ndata: %s\n" +
	"topics: {alarms: {rate: %d/%d/s, depth: %d/%d, limit: publishing}}\n"

// measure starts real brokers, each with its share of the bucket and its part of the publishers. It also returns how long the
// messages that were really sent have to wait for tokens, as the bucket says for the times at which they were sent.
func (q question) measure(program string) (latencies, waits []time.Duration, err error) {
	buckets, err := q.shares()
	if err != nil {
		return nil, nil, err
	}
	directory, err := os.MkdirTemp("", "penalty-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(directory)
	var loads sync.WaitGroup
	results, failed := make([]bench.Result, q.brokers), make([]error, q.brokers)
	for n := range q.brokers {
		data := filepath.Join(directory, fmt.Sprint(n))
		file := data + ".yaml"
		text := fmt.Sprintf(form, n, data, q.rate, q.brokers, q.depth, q.brokers)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, nil, err
		}
		broker, err := bench.Start(program, file)
		if err != nil {
			return nil, nil, err
		}
		defer broker.End()
		// Publishers n, n + k, n + 2k, …
		part := (q.publishers + q.brokers - 1 - n) / q.brokers
		load := bench.Load{Publishers: part, Each: q.each, For: q.length, Size: 100, Topic: "alarms", Unbuffered: true, Seed: q.seed*1000 + uint64(n)}
		loads.Add(1)
		go func() {
			defer loads.Done()
			results[n], failed[n] = load.Run(broker.Address, func() {}, func() {})
		}()
	}
	loads.Wait()
	for n, result := range results {
		if failed[n] != nil {
			return nil, nil, failed[n]
		}
		if result.Received < result.Sent {
			return nil, nil, fmt.Errorf("broker %d: %d of %d messages came", n, result.Received, result.Sent)
		}
		latencies = append(latencies, result.Latencies...)
		slices.Sort(result.Sends)
		for _, sent := range result.Sends {
			released, err := buckets[n].Take(1, uint64(sent))
			if err != nil {
				return nil, nil, err
			}
			waits = append(waits, time.Duration(released-uint64(sent)))
		}
	}
	return latencies, waits, nil
}
