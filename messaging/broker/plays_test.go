// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Seeded plays with a real broker, whose topic is on disk: random limits, consumers, and rows of what may happen to
// them. In each, what consumers get is within the bucket over any window, and what was acknowledged all comes; but
// for a message of each consumer at a SIGKILL, which may have been with it. GIUSTO_RUNS says how many, GIUSTO_SEED
// which is the first.
func TestPlaysOfDelivery(t *testing.T) {
	first, plays := uint64(0), 3
	if soak {
		plays = 500
	}
	if n, err := strconv.Atoi(os.Getenv("GIUSTO_RUNS")); err == nil {
		plays = n
	}
	if n, err := strconv.Atoi(os.Getenv("GIUSTO_SEED")); err == nil {
		first = uint64(n)
	}
	counts, entries, lost, beyond := map[string]int{}, 0, 0, 0
	for seed := first; seed < first+uint64(plays); seed++ {
		random := rand.New(rand.NewPCG(seed, 29))
		rate, depth := float64(200+random.IntN(2000)), float64(2+random.IntN(30))
		limit := fmt.Sprintf("rate: %v/s, depth: %v", rate, depth)
		topics := "topics: {kept: {" + limit + ", limit: delivery}}"
		if random.IntN(2) == 0 {
			topics = "topics: {kept: {channels: {test: {" + limit + "}}}}"
			counts["a channel's own limit"]++
		}
		data, text := t.TempDir(), "mem_queue: 0\ndrain: 0s\n"
		if random.IntN(3) == 0 {
			text = "drain: 0s\n"
		}
		command, address, http := child(t, data, text+topics)
		var where sync.Mutex
		at := func() string { where.Lock(); defer where.Unlock(); return address }
		consumers := 1 + random.IntN(4)
		r := record(t, at, "kept", "test", consumers, 1+random.IntN(50))
		again := map[string]bool{}
		r.answer = func(e entry) string {
			if len(e.body)%3 == 0 && !again[e.body] && len(again) < 100 {
				again[e.body] = true
				return fmt.Sprintf("REQ %%s %d\n", len(again)%2*20)
			}
			return "FIN %s\n"
		}
		var all []string
		kills, memory := 0, text == "drain: 0s\n"
		restart := func(end syscall.Signal) {
			command.Process.Signal(end)
			command.Wait()
			where.Lock()
			command, address, http = child(t, data, text+topics)
			where.Unlock()
		}
		for step := range 5 {
			if random.IntN(2) == 0 || step == 0 {
				all = append(all, supply(t, at(), "kept", fmt.Sprint(step), random.IntN(400))...)
			}
			time.Sleep(time.Duration(random.IntN(120)) * time.Millisecond)
			switch what := random.IntN(4); what {
			case 0:
				counts["SIGTERM"]++
				restart(syscall.SIGTERM)
			case 1:
				if memory { // what is in memory may be lost
					continue
				}
				counts["SIGKILL"]++
				kills++
				restart(syscall.SIGKILL)
			case 2:
				counts["stopped"]++
				command.Process.Signal(syscall.SIGSTOP)
				time.Sleep(time.Duration(50+random.IntN(400)) * time.Millisecond)
				command.Process.Signal(syscall.SIGCONT)
			case 3:
				counts["deferred"]++
				post(t, http, fmt.Sprintf("/pub?topic=kept&defer=%d", random.IntN(200)), "deferred")
			}
		}
		missing := func() int {
			seen, left := r.bodies(), 0
			for _, body := range all {
				if seen[body] == 0 {
					left++
				}
			}
			return left
		}
		for end := time.Now().Add(20 * time.Second); missing() > 0 && time.Now().Before(end) && (kills == 0 || missing() > consumers*kills); {
			time.Sleep(10 * time.Millisecond)
		}
		if left := missing(); left > consumers*kills {
			t.Errorf("seed %d: %d of %d acknowledged messages did not come, after %d kills with %d consumers", seed, left, len(all), kills, consumers)
		} else if left > 0 {
			time.Sleep(500 * time.Millisecond)
			lost += missing()
		}
		r.stop()
		command.Process.Kill()
		command.Wait()
		entries += r.count()
		if over := r.excess(rate, depth); over > 0.05 {
			beyond++
			t.Errorf("seed %d: %.2f messages beyond %v + %v·t", seed, over, depth, rate)
		}
		os.RemoveAll(data)
	}
	fmt.Printf("broker: delivery: %d plays, %d entries, %d beyond their bucket, %d with a consumer at a kill did not come again; %v\n", plays, entries, beyond, lost, counts)
}
