// SPDX-License-Identifier: Apache-2.0

// profile measures how long a giusto-broker takes at several loads. It prints a profile: JSON, with the date, the machine and what else
// ran on it. messaging/simulate is calibrated on such files, and checked.
//
// The broker has one core for itself, publishers and consumer have the others, and all of them go before what else runs here
// (nice -20, in a session of their own; needs root): what is measured is a broker of one core on a machine that is its own.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"giusto.dev/messaging/bench"
	"giusto.dev/messaging/simulate"
	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	program := flag.String("broker", "", "the giusto-broker to start")
	length := flag.Duration("for", 4*time.Second, "of sending, each time")
	repeats := flag.Int("repeats", 3, "how often each load")
	loads := flag.String("loads", "200x10x1,500x10x1,800x10x1", "PUBLISHERSxMESSAGES/SxBATCH, ...")
	flag.Parse()
	if err := alone(); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Fatal(err)
	}
	profile := simulate.Measured{Date: time.Now().UTC().Format(time.DateOnly), Machine: machine(), Seconds: length.Seconds()}
	for range *repeats {
		for n, text := range strings.Split(*loads, ",") {
			var load simulate.MeasuredLoad
			if _, err := fmt.Sscanf(text, "%dx%gx%d", &load.Publishers, &load.Each, &load.Batch); err != nil {
				log.Fatalf("-loads %s: expected PUBLISHERSxMESSAGES/SxBATCH", text)
			}
			if n >= len(profile.Loads) {
				profile.Loads = append(profile.Loads, load)
			}
			repeat, err := measure(*program, load, *length)
			if err != nil {
				log.Fatal(err)
			}
			profile.Loads[n].Repeats = append(profile.Loads[n].Repeats, repeat)
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	out.Encode(profile)
}

func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	model := "a processor"
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("%s, %d cores, one of them the broker's", model, runtime.NumCPU())
}

// alone makes a session of this process's own that goes before all others (sched(7), autogroup).
func alone() error {
	unix.Setsid() // fails if it is the first of one
	return os.WriteFile("/proc/self/autogroup", []byte("-20"), 0)
}

// pin lets this process, and what it starts from now on, run on the cores from first to last, before all others.
func pin(first, last int) error {
	var cores unix.CPUSet
	for core := first; core <= last; core++ {
		cores.Set(core)
	}
	tasks, err := filepath.Glob("/proc/self/task/*")
	for _, task := range tasks {
		var thread int
		fmt.Sscan(filepath.Base(task), &thread)
		err = errors.Join(err, unix.SchedSetaffinity(thread, &cores), unix.Setpriority(unix.PRIO_PROCESS, thread, -20))
	}
	return err
}

const form = "listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: 1\ndata: %s\n"

func measure(program string, load simulate.MeasuredLoad, length time.Duration) (repeat simulate.Repeat, err error) {
	directory, err := os.MkdirTemp("", "profile-")
	if err != nil {
		return repeat, err
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "broker.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, form, directory), 0o600); err != nil {
		return repeat, err
	}
	last := runtime.NumCPU() - 1
	if err := pin(last, last); err != nil {
		return repeat, err
	}
	broker, err := bench.Start(program, file)
	if err != nil {
		return repeat, err
	}
	defer broker.End()
	if err := pin(0, max(last-1, 0)); err != nil {
		return repeat, err
	}
	batch := load.Batch
	if batch == 1 {
		batch = 0 // PUB
	}
	one := bench.Load{Publishers: load.Publishers, Each: load.Each, Batch: batch, For: length, Size: 100, Unbuffered: true, Topic: "alarms", Seed: uint64(time.Now().UnixNano())}
	var before, used, waited time.Duration
	result, err := one.Run(broker.Address, func() { before, waited = broker.CPU() }, func() {
		after, late := broker.CPU()
		used, waited = after-before, late-waited
	})
	if err != nil {
		return repeat, err
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()/100) / 10 }
	each := float64(max(result.Sent, 1))
	repeat = simulate.Repeat{
		CPU: us(used) / each, Waited: us(waited) / each, Late: us(bench.Percentile(result.Lateness, .99)),
		P50: us(result.Percentile(.5)), P90: us(result.Percentile(.9)), P95: us(result.Percentile(.95)), P99: us(result.Percentile(.99)), P999: us(result.Percentile(.999)),
	}
	if result.Received < result.Sent {
		return repeat, fmt.Errorf("%d of %d messages came", result.Received, result.Sent)
	}
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &repeat.LoadAverage)
	return repeat, nil
}
