// SPDX-License-Identifier: Apache-2.0

// publish runs publishers that follow a distributor, until SIGTERM. It prints a line for each message that was acknowledged ("+ body"), for each move
// ("moved") and, at the end, its counts. Bodies are PREFIX.PUBLISHER.NUMBER.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"giusto.dev/messaging/client"
)

func main() {
	log.SetFlags(0)
	distributors := flag.String("distributors", "", "HOST:PORT,...")
	topic := flag.String("topic", "alarms", "the topic")
	prefix := flag.String("prefix", "p", "of publishers' names and messages")
	count := flag.Int("publishers", 1, "how many")
	rate := flag.Float64("rate", 10, "messages a second of one, at random")
	groups := flag.Int("groups", 0, "correlation groups that they belong to; 0: none")
	flag.Parse()
	ending, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	var printing sync.Mutex
	say := func(form string, words ...any) {
		line := fmt.Sprintf(form+"\n", words...)
		printing.Lock()
		os.Stdout.WriteString(line)
		printing.Unlock()
	}
	var all sync.WaitGroup
	for n := range *count {
		name := fmt.Sprintf("%s%d", *prefix, n)
		group := ""
		if *groups > 0 {
			group = fmt.Sprint(n % *groups)
		}
		c, err := client.New(client.Options{Distributors: strings.Split(*distributors, ","), Topic: *topic, Publisher: name, Group: group, Rate: *rate})
		if err != nil {
			log.Fatal(err)
		}
		all.Add(1)
		go func() {
			defer all.Done()
			at := ""
			for number := 0; ending.Err() == nil; number++ {
				time.Sleep(time.Duration(rand.ExpFloat64() / *rate * 1e9))
				body := fmt.Sprintf("%s.%d", name, number)
				err := c.PublishAsync([]byte(body), func(err error) {
					if err == nil {
						say("+ %s", body)
					}
				})
				if err != nil {
					say("refused %s: %v", body, err)
				}
				if now := c.Broker(); now != at && now != "" {
					if at != "" {
						say("moved %s %s %s", name, at, now)
					}
					at = now
				}
			}
			ended, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := c.Stop(ended); err != nil {
				say("left %s: %v", name, err)
			}
			say("counts %s %+v", name, c.Counts())
		}()
	}
	all.Wait()
}
