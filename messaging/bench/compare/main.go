// SPDX-License-Identifier: Apache-2.0

// compare measures nsqd, giusto-broker and a bare echo in turns under the same load, and a giusto-broker that is stopped
// again and again.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"giusto.dev/messaging/bench"
)

// launch starts a broker.
func launch(path string, arguments ...string) *bench.Broker {
	b, err := bench.Start(path, arguments...)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

// steal is the part of the machine's time that others took, in ticks of 10 ms, and all ticks.
func steal() (stolen, all int64) {
	text, _ := os.ReadFile("/proc/stat")
	for n, word := range strings.Fields(strings.SplitN(string(text), "\n", 2)[0])[1:9] {
		var ticks int64
		fmt.Sscan(word, &ticks)
		if all += ticks; n == 7 {
			stolen = ticks
		}
	}
	return stolen, all
}

func median(values []float64) float64 {
	sort.Float64s(values)
	return values[len(values)/2]
}

func main() {
	log.SetFlags(0)
	programs := flag.String("programs", "", "directory with giusto-broker, stock, echo and read-time")
	rounds := flag.Int("rounds", 3, "rounds")
	length := flag.Duration("for", 5*time.Second, "of one load")
	flag.Parse()
	missed := !stopped(*programs, *rounds, *length)
	for _, load := range []bench.Load{
		{Publishers: 200, Each: 10}, {Publishers: 200, Each: 10, Unbuffered: true},
		{Publishers: 1000, Each: 10}, {Publishers: 1000, Each: 10, Unbuffered: true},
	} {
		load.For, load.Size, load.Topic = *length, 100, "alarms"
		if !compare(load, *programs, *rounds) {
			missed = true
		}
	}
	if missed {
		os.Exit(1)
	}
}

// The bucket of the load: a tenth of headroom, and a tenth of a second's messages deep. What is measured is the broker, and not how
// evenly a load generator on the same cores sends.
const form = "listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: 1\ndata: %s\n" +
	"topics: {alarms: {rate: %d/s, depth: %d, limit: publishing}}\n"

func compare(load bench.Load, programs string, rounds int) bool {
	total := float64(load.Publishers) * load.Each
	kind := "default settings"
	if load.Unbuffered {
		kind = "no output buffer"
	}
	fmt.Printf("%d publishers x %v/s, consumer with RDY > 1, %s\n", load.Publishers, load.Each, kind)
	values := map[string]map[string][]float64{"nsqd": {}, "giusto": {}, "echo": {}}
	for round := range rounds {
		for n := range 3 {
			name := []string{"nsqd", "giusto", "echo"}[(n+round)%3]
			stolen, ticks := steal()
			r, cpu, waited := once(load, programs, name, int(total))
			after, all := steal()
			void := ""
			if share := float64(after-stolen) / float64(max(all-ticks, 1)); share > 0.05 {
				void = fmt.Sprintf(" VOID: %.0f %% stolen", 100*share)
			}
			fmt.Printf("  %-7s %6.1f us CPU/msg and %.1f waited for it, p50 %8.3f p99 %8.3f p99.9 %8.3f, "+
				"p99 from the broker on %.3f, of sending late %.3f ms, %d of %d%s\n",
				name, each(cpu, r), each(waited, r),
				r.Percentile(.5).Seconds()*1e3, r.Percentile(.99).Seconds()*1e3, r.Percentile(.999).Seconds()*1e3, bench.Percentile(r.Inside, .99).Seconds()*1e3,
				bench.Percentile(r.Lateness, .99).Seconds()*1e3, r.Received, r.Sent, void)
			if void != "" {
				continue
			}
			v := values[name]
			v["cpu"] = append(v["cpu"], each(cpu, r))
			v["p50"] = append(v["p50"], r.Percentile(.5).Seconds()*1e3)
			v["p99"] = append(v["p99"], r.Percentile(.99).Seconds()*1e3)
		}
	}
	for name := range values {
		if len(values[name]["cpu"]) == 0 {
			fmt.Println("  void: the machine was too noisy; run it again")
			return false
		}
	}
	over := func(floor, key string) float64 { return median(values["giusto"][key]) / median(values[floor][key]) }
	ratio := func(key string) float64 { return over("nsqd", key) }
	fmt.Printf("  medians, giusto over nsqd: CPU %.2f, p50 %.3f, p99 %.3f; giusto's p99 %.3f ms\n", ratio("cpu"), ratio("p50"), ratio("p99"), median(values["giusto"]["p99"]))
	fmt.Printf("  giusto over a bare echo: CPU %.2f, p50 %.3f, p99 %.3f; the echo's p99 %.3f ms\n", over("echo", "cpu"),
		over("echo", "p50"), over("echo", "p99"), median(values["echo"]["p99"]))
	held := true
	gate := func(key, floor string, found, limit float64) {
		if found > limit {
			fmt.Printf("  MISSED: %s at most %g x %s\n", key, limit, floor)
			held = false
		}
	}
	gate("p99", "the echo's", over("echo", "p99"), 1.5)
	if load.Unbuffered {
		gate("cpu", "nsqd's", ratio("cpu"), 1.1)
		gate("p50", "nsqd's", ratio("p50"), 1.1)
		// A broker as fast as the floor is not slower than nsqd, as far as this can be measured.
		gate("p99", "nsqd's or the echo's", min(ratio("p99"), over("echo", "p99")), 1.1)
	} else {
		// With an output buffer nsqd's messages wait until it is full, for 250 ms at most, and fewer writes need less than the
		// echo, which forwards each message at once.
		gate("cpu", "the echo's", over("echo", "cpu"), 1.25)
		gate("p50", "nsqd's", ratio("p50"), 0.2)
		gate("p99", "nsqd's", ratio("p99"), 0.5)
	}
	return held
}

// each is a time for each message, in us.
func each(time time.Duration, r bench.Result) float64 {
	return float64(time.Nanoseconds()) / 1e3 / float64(max(r.Sent, 1))
}

func once(load bench.Load, programs, name string, rate int) (r bench.Result, used, waited time.Duration) {
	directory, err := os.MkdirTemp("", "bench-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	var b *bench.Broker
	switch name {
	case "nsqd":
		b = launch(filepath.Join(programs, "stock"), directory)
	case "echo":
		b = launch(filepath.Join(programs, "echo"))
	default:
		file := filepath.Join(directory, "broker.yaml")
		os.WriteFile(file, []byte(fmt.Sprintf(form, directory, rate*11/10, rate/10)), 0o600)
		b = launch(filepath.Join(programs, "giusto-broker"), file)
	}
	defer b.End()
	var before, delay time.Duration
	r, err = load.Run(b.Address, func() { before, delay = b.CPU() }, func() { used, waited = b.CPU() })
	if err != nil {
		log.Print(err)
	}
	return r, used - before, waited - delay
}
