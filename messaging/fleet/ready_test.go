// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
)

// taken is what nsqd's statistics say of a topic at a broker: messages that came, and the RDY of all consumers.
func taken(address string) (messages, ready int, err error) {
	answer, err := asking.Get("http://" + address + "/stats?format=json&topic=alarms")
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	var stats struct {
		Topics []struct {
			Messages int `json:"message_count"`
			Channels []struct {
				Clients []struct {
					Ready int `json:"ready_count"`
				}
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil || len(stats.Topics) != 1 {
		return 0, 0, fmt.Errorf("%d topics: %v", len(stats.Topics), err)
	}
	for _, channel := range stats.Topics[0].Channels {
		for _, client := range channel.Clients {
			ready += client.Ready
		}
	}
	return stats.Topics[0].Messages, ready, nil
}

// A consumer of go-nsq whose first connection has all of its MaxInFlight gives the second, half of the time, an RDY of
// 0, and tries again only after 5 s. Publishers that move meanwhile wait until it takes messages there.
func TestADrainWaitsForAConsumerThatTakesNothingYet(t *testing.T) {
	directory := t.TempDir()
	programs, err := Build(directory, "giusto.dev/messaging/cmd/giusto-broker", "giusto.dev/messaging/cmd/giusto-distributor",
		"giusto.dev/messaging/bench/publish")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(programs, directory, 2, 1, "", "store: memory\ngather: 100ms\n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.End()
	if err := f.Ask("PUT", "/topics/alarms", `{"rate": "500/s", "depth": "20", "each": "20/s"}`, nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	publishers, err := Launch(func(string) {}, programs.Path("publish"), "-distributors", strings.Join(f.Addresses, ","),
		"-publishers", "5", "-rate", "20")
	if err != nil {
		t.Fatal(err)
	}
	defer publishers.Kill()
	busy := -1
	for end := time.Now().Add(30 * time.Second); busy < 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		status, err := f.Topic("alarms")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range status.Shares {
			if s.Publishers == 5 && s.InForce {
				fmt.Sscanf(s.Broker, "b%d", &busy)
			}
		}
	}
	if busy < 0 {
		t.Fatal("no broker has the publishers")
	}
	other := 1 - busy
	for try := 0; ; try++ {
		config := nsq.NewConfig()
		config.MaxInFlight = 100
		consumer, err := nsq.NewConsumer("alarms", "all", config)
		if err != nil {
			t.Fatal(err)
		}
		consumer.SetLogger(silent, nsq.LogLevelError)
		consumer.AddHandler(nsq.HandlerFunc(func(*nsq.Message) error { return nil }))
		if err := consumer.ConnectToNSQDs([]string{f.V2[busy], f.V2[other]}); err != nil {
			t.Fatal(err)
		}
		defer consumer.Stop()
		time.Sleep(50 * time.Millisecond)
		if _, ready, err := taken(f.HTTP[other]); err != nil {
			t.Fatal(err)
		} else if ready == 0 {
			break
		}
		consumer.Stop()
		<-consumer.StopChan
		if try == 40 {
			t.Skip("this go-nsq gives each connection its part of MaxInFlight at once")
		}
	}
	if err := f.Ask("PUT", fmt.Sprintf("/brokers/b%d/drain", busy), "", nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	began, waited := time.Now(), time.Duration(0)
	for came := 0; came == 0; time.Sleep(10 * time.Millisecond) {
		var ready int
		if came, ready, err = taken(f.HTTP[other]); err != nil {
			t.Fatal(err)
		}
		if ready == 0 {
			if waited = time.Since(began); came > 0 {
				t.Fatalf("%d messages went to a broker whose consumer takes none, %v after the drain began", came, waited)
			}
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the publishers do not leave a broker that is drained")
		}
	}
	fmt.Printf("fleet: the consumer took nothing for %v of a drain; the first message came %v after it began\n",
		waited.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}
