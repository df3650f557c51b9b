// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
)

// command runs a program, for ten seconds at most.
func command(path string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, arguments...).CombinedOutput()
	return string(out), err
}

// How long nothing of a topic comes when the broker that its publishers are at ends: after SIGTERM, after SIGKILL of
// which the distributor is told, and after SIGKILL. It is less than the lease in the first two, and not much longer
// in the last.
func TestATopicFlowsAgainSoonAfterItsBrokerEnded(t *testing.T) {
	directory := t.TempDir()
	programs, err := Build(directory, "giusto.dev/messaging/cmd/giusto-broker", "giusto.dev/messaging/cmd/giusto-distributor", "giusto.dev/messaging/bench/publish")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(programs, directory, 2, 1, "mem_queue: 0\ndrain: 500ms\n", "store: memory\n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.End()
	if err := f.Ask("PUT", "/topics/alarms", `{"rate": "500/s", "depth": "20", "each": "20/s", "limit": "delivery"}`, nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	b := &book{told: map[string]bool{}, got: map[string]int{}}
	config := nsq.NewConfig()
	config.MaxInFlight, config.LookupdPollInterval = 500, 100*time.Millisecond
	consumer, err := nsq.NewConsumer("alarms", "all", config)
	if err != nil {
		t.Fatal(err)
	}
	consumer.SetLogger(silent, nsq.LogLevelError)
	consumer.AddHandler(b)
	defer consumer.Stop()
	for end := time.Now().Add(20 * time.Second); consumer.Stats().Connections < 2; time.Sleep(50 * time.Millisecond) {
		for _, address := range f.V2 {
			consumer.ConnectToNSQD(address)
		}
		if time.Now().After(end) {
			t.Fatal("the consumer does not reach all brokers")
		}
	}
	publishers, err := Launch(b.line, programs.Path("publish"), "-distributors", strings.Join(f.Addresses, ","), "-publishers", "5", "-rate", "20", "-prefix", "g")
	if err != nil {
		t.Fatal(err)
	}
	defer publishers.Kill()
	lease := 5 * time.Second
	for _, how := range []struct {
		name string
		end  func(n int)
		most time.Duration
	}{
		{"SIGTERM", func(n int) { f.Brokers[n].Signal(syscall.SIGTERM) }, lease / 2},
		{"SIGKILL, and it is said to be dead", func(n int) {
			f.Brokers[n].Kill()
			if out, err := command(programs.Path("giusto-distributor"), "dead", fmt.Sprint("b", n), f.Addresses[0]); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}, lease / 2},
		{"SIGKILL", func(n int) { f.Brokers[n].Kill() }, lease + 3*time.Second},
	} {
		busy := -1
		for end := time.Now().Add(30 * time.Second); busy < 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			status, err := f.Topic("alarms")
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range status.Shares {
				if s.Publishers == 5 && s.InForce && s.Measured > 50 && s.Rate > 499 { // all of it
					fmt.Sscanf(s.Broker, "b%d", &busy)
				}
			}
		}
		if busy < 0 {
			t.Fatal("no broker has the publishers")
		}
		b.mutex.Lock()
		b.longest, b.last = 0, time.Now()
		b.mutex.Unlock()
		how.end(busy)
		time.Sleep(how.most + 2*time.Second)
		b.mutex.Lock()
		longest := max(b.longest, time.Since(b.last))
		b.mutex.Unlock()
		fmt.Printf("fleet: %s: the longest gap was %v\n", how.name, longest.Round(time.Millisecond))
		if longest > how.most {
			t.Errorf("%s: nothing came for %v, expected at most %v", how.name, longest, how.most)
		}
		if how.name == "SIGTERM" {
			<-f.Brokers[busy].ended
		}
		if err := f.Brokers[busy].Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); consumer.Stats().Connections < 2 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			consumer.ConnectToNSQD(f.V2[busy])
		}
	}
	for end := time.Now().Add(20 * time.Second); len(b.lost()) > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
}
