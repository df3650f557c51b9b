// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"giusto.dev/messaging/bench"
)

// stopped stops a broker for 40 ms every 250 ms under a load that keeps to the limit, and compares the part of its messages that wait
// for tokens: stamped by the kernel and put in order, and stamped when they are read. False: not five times fewer.
func stopped(programs string, rounds int, length time.Duration) bool {
	fmt.Println("500 publishers x 2/s under 1100/s, depth 26; the broker stopped for 40 ms every 250 ms: the part that waits for tokens")
	parts := map[string][]float64{}
	for round := range rounds {
		for n := range 2 {
			name := []string{"giusto-broker", "read-time"}[(n+round)%2]
			accepted, delayed, held := stopping(filepath.Join(programs, name), length)
			part := delayed / max(accepted, 1)
			fmt.Printf("  %-14s %5.1f %% of %.0f delayed, %.0f held\n", name, 100*part, accepted, held)
			parts[name] = append(parts[name], part)
		}
	}
	ordered, read := median(parts["giusto-broker"]), median(parts["read-time"])
	fmt.Printf("  medians: %.2f %% with kernel stamps in order, %.2f %% stamped when read: %.1f x fewer\n", 100*ordered, 100*read, read/max(ordered, 1e-4))
	if read < 5*ordered {
		fmt.Println("  MISSED: 5 x fewer")
		return false
	}
	return true
}

func stopping(program string, length time.Duration) (accepted, delayed, held float64) {
	directory, err := os.MkdirTemp("", "bench-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "broker.yaml")
	os.WriteFile(file, []byte(fmt.Sprintf(form, directory, 1100, 26)), 0o600)
	b := launch(program, file)
	defer b.End()
	end, ended := make(chan bool), make(chan bool)
	before := map[string]float64{}
	load := bench.Load{Publishers: 500, Each: 2, For: length, Size: 100, Topic: "alarms"}
	_, err = load.Run(b.Address, func() {
		time.Sleep(500 * time.Millisecond) // what connecting took is there again
		before = metrics(b)
		go func() {
			defer close(ended)
			for {
				select {
				case <-end:
					return
				case <-time.After(210 * time.Millisecond):
				}
				b.Signal(syscall.SIGSTOP)
				time.Sleep(40 * time.Millisecond)
				b.Signal(syscall.SIGCONT)
			}
		}()
	}, func() {
		close(end)
		<-ended
	})
	if err != nil {
		log.Print(err)
	}
	after := metrics(b)
	count := func(name string) float64 { return after[name] - before[name] }
	return count("accepted_messages_total"), count("delayed_messages_total"), count("held_messages_total")
}

// metrics is the counts of the topic.
func metrics(b *bench.Broker) map[string]float64 {
	response, err := http.Get("http://" + b.HTTP + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	all := map[string]float64{}
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, found := strings.Cut(line, `{topic="alarms"} `); found {
			var number float64
			fmt.Sscan(value, &number)
			all[strings.TrimPrefix(name, "giusto_broker_")] = number
		}
	}
	return all
}
