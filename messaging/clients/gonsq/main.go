// SPDX-License-Identifier: Apache-2.0

// gonsq does with go-nsq what matrix.py wants of a client: gonsq ADDRESS MODE TOPIC.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
)

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	address, mode, topic := os.Args[1], os.Args[2], os.Args[3]
	config := nsq.NewConfig()
	config.MaxInFlight = 50
	switch mode {
	case "TLS":
		config.TlsV1, config.TlsConfig = true, &tls.Config{InsecureSkipVerify: true}
	case "AUTH":
		config.AuthSecret = "good"
	case "compression":
		config.Snappy = true
	}
	quiet := log.New(io.Discard, "", 0)
	p, err := nsq.NewProducer(address, config)
	must(err)
	p.SetLogger(quiet, nsq.LogLevelError)
	for n := range 10 {
		must(p.Publish(topic, fmt.Appendf(nil, "pub %d", n)))
	}
	fmt.Println("PUB ok")
	batch := [][]byte{[]byte("requeue"), []byte("touch")}
	for n := range 8 {
		batch = append(batch, fmt.Appendf(nil, "mpub %d", n))
	}
	must(p.MultiPublish(topic, batch))
	fmt.Println("MPUB ok")
	must(p.DeferredPublish(topic, 100*time.Millisecond, []byte("dpub")))
	fmt.Println("DPUB ok")
	c, err := nsq.NewConsumer(topic, "matrix", config)
	must(err)
	c.SetLogger(quiet, nsq.LogLevelError)
	var mutex sync.Mutex
	seen, done := map[string]bool{}, make(chan bool)
	c.AddConcurrentHandlers(nsq.HandlerFunc(func(m *nsq.Message) error {
		body := string(m.Body)
		if body == "requeue" && m.Attempts == 1 {
			m.DisableAutoResponse()
			m.RequeueWithoutBackoff(0)
			return nil
		}
		if body == "touch" {
			m.Touch()
			time.Sleep(50 * time.Millisecond)
		}
		mutex.Lock()
		defer mutex.Unlock()
		if seen[body] = true; len(seen) == 21 {
			close(done)
		}
		return nil
	}), 4)
	must(c.ConnectToNSQD(address))
	select {
	case <-done:
		fmt.Println("SUB ok\nTOUCH ok")
	case <-time.After(15 * time.Second):
		fmt.Println("failed: received", len(seen))
	}
	time.Sleep(50 * time.Millisecond)
	c.Stop()
	<-c.StopChan
	p.Stop()
}
