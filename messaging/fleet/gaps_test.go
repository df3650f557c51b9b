// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/distributor"
)

// command runs a program, for ten seconds at most.
func command(path string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, arguments...).CombinedOutput()
	return string(out), err
}

// ready says whether every broker has a consumer that takes messages.
func ready(brokers []string) bool {
	for _, address := range brokers {
		answer, err := asking.Get("http://" + address + "/stats?format=json&topic=alarms")
		if err != nil {
			return false
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(text), `"ready_count":`) || strings.Contains(string(text), `"ready_count":0`) {
			return false
		}
	}
	return true
}

// How long nothing of a topic comes when the broker that its publishers are at ends, with a lease of 16 s: after
// SIGTERM, and after SIGKILL of which the distributor is told, by a guard or by an operator, some hundredths of a
// second; after SIGKILL alone a lease, which is shorter where the topic promises a gap. What is asserted is that nothing
// waited for one of 16 s.
func TestATopicFlowsAgainSoonAfterItsBrokerEnded(t *testing.T) {
	directory := t.TempDir()
	programs, err := Build(directory, "giusto.dev/messaging/cmd/giusto-broker", "giusto.dev/messaging/cmd/giusto-distributor", "giusto.dev/messaging/bench/publish")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(programs, directory, 2, 1, "mem_queue: 0\ndrain: 500ms\n", "store: memory\nlease: 16s\n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.End()
	for _, one := range f.Brokers {
		one.End()
		one.arguments = append([]string{"--guarded"}, one.arguments...)
		if err := one.Start(); err != nil {
			t.Fatal(err)
		}
	}
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
	if lease := time.Duration(distributor.Defaults().Lease); lease > 5*time.Second {
		t.Error("the default lease is", lease)
	}
	const told = 8 * time.Second // not the lease
	for _, how := range []struct {
		name string
		end  func(n int)
		most time.Duration
	}{
		{"SIGKILL below its guard", func(n int) {
			child := f.Brokers[n].Children()
			if len(child) != 1 {
				t.Fatal("a guard has these children:", child)
			}
			syscall.Kill(child[0], syscall.SIGKILL)
		}, told},
		{"SIGTERM", func(n int) { f.Brokers[n].Signal(syscall.SIGTERM) }, told},
		{"SIGKILL, and it is said to be dead", func(n int) {
			f.Brokers[n].Kill()
			if out, err := command(programs.Path("giusto-distributor"), "dead", fmt.Sprint("b", n), f.Addresses[0]); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}, told},
		{"SIGKILL, with a gap of 4.5 s that is promised", func(n int) { f.Brokers[n].Kill() }, told},
	} {
		if strings.Contains(how.name, "gap") {
			promised := `{"rate": "500/s", "depth": "20", "each": "20/s", "limit": "delivery", "gap": "4.5s"}`
			if err := f.Ask("PUT", "/topics/alarms", promised, nil, 20*time.Second); err != nil {
				t.Fatal(err)
			}
			if status, err := f.Topic("alarms"); err != nil || status.LeaseFor != "alarms" || status.Lease > 3500*time.Millisecond {
				t.Fatal(status, err)
			}
			time.Sleep(17 * time.Second) // until then a broker may have the longer lease from before
		}
		busy, last := -1, ""
		end := time.Now().Add(90 * time.Second)
		for ; busy < 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			status, err := f.Topic("alarms")
			if err != nil {
				t.Fatal(err)
			}
			last = fmt.Sprintf("%+v", status)
			for _, s := range status.Shares {
				if s.Publishers == 5 && s.InForce && s.Measured > 50 && s.Rate > 499 { // all of it
					fmt.Sscanf(s.Broker, "b%d", &busy)
				}
			}
		}
		if busy < 0 {
			t.Fatal(how.name, ": no broker has the publishers: ", last)
		}
		// go-nsq may give a second connection an RDY of 0, and looks again after 5 s: that gap would be its own.
		for end := time.Now().Add(20 * time.Second); !ready(f.HTTP) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		}
		b.mutex.Lock()
		b.longest, b.last = 0, time.Now()
		b.mutex.Unlock()
		how.end(busy)
		flows := func() bool {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			return time.Since(b.last) < 200*time.Millisecond
		}
		time.Sleep(6 * time.Second)
		for end := time.Now().Add(how.most); !flows() && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		b.mutex.Lock()
		longest := max(b.longest, time.Since(b.last))
		b.mutex.Unlock()
		fmt.Printf("fleet: %s: the longest gap was %v\n", how.name, longest.Round(time.Millisecond))
		if longest > how.most {
			t.Errorf("%s: nothing came for %v, expected at most %v", how.name, longest, how.most)
		}
		<-f.Brokers[busy].ended
		if how.name == "SIGKILL below its guard" { // the others have none
			f.Brokers[1-busy].End()
			for n := range f.Brokers {
				f.Brokers[n].arguments = f.Brokers[n].arguments[1:]
			}
			if err := f.Brokers[1-busy].Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Brokers[busy].Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); consumer.Stats().Connections < 2 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for _, address := range f.V2 {
				consumer.ConnectToNSQD(address)
			}
		}
	}
	for end := time.Now().Add(20 * time.Second); len(b.lost()) > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
}
