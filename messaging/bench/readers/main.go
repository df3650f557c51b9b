// SPDX-License-Identifier: Apache-2.0

// readers measures what a backlog costs nsqd and giusto-broker a message, in turns: read by go-nsq as nsq_tail has
// it, and by bench_reader's commands.
// The gate: at most 1.1 x nsqd's processor time.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/bench"
)

const backlog = 9000 // what nsqd's memory of a channel holds

// tail reads as nsq_tail does: go-nsq by its defaults, and 200 in flight.
func tail(address, topic string, count int) {
	config := nsq.NewConfig()
	config.MaxInFlight = 200
	c, err := nsq.NewConsumer(topic, "c", config)
	if err != nil {
		log.Fatal(err)
	}
	c.SetLogger(log.New(io.Discard, "", 0), nsq.LogLevelError)
	var got atomic.Int64
	done := make(chan struct{})
	c.AddHandler(nsq.HandlerFunc(func(*nsq.Message) error {
		if got.Add(1) == int64(count) {
			close(done)
		}
		return nil
	}))
	if err := c.ConnectToNSQD(address); err != nil {
		log.Fatal(err)
	}
	wait(done)
	c.Stop()
	<-c.StopChan
}

func wait(done chan struct{}) {
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		log.Fatal("the backlog did not come within 30 s")
	}
}

// raw reads by bench_reader's commands: 2,500 in flight, and answers that are written together.
func raw(address, topic string, count int) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	rw := bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	conn.Write(nsq.MagicV2)
	identify, _ := nsq.Identify(map[string]any{"client_id": "reader", "user_agent": "readers"})
	for _, command := range []*nsq.Command{identify, nsq.Subscribe(topic, "c"), nsq.Ready(2500)} {
		command.WriteTo(rw)
	}
	rw.Flush()
	for got := 0; got < count; {
		frame, err := nsq.ReadResponse(rw)
		if err != nil {
			log.Fatal(err)
		}
		kind, data, err := nsq.UnpackResponse(frame)
		if err != nil || kind == nsq.FrameTypeError {
			log.Fatalf("%v %s", err, data)
		}
		if kind == nsq.FrameTypeResponse {
			continue
		}
		message, err := nsq.DecodeMessage(data)
		if err != nil {
			log.Fatal(err)
		}
		nsq.Finish(message.ID).WriteTo(rw)
		if got++; got%625 == 0 || got == count {
			rw.Flush()
		}
	}
	time.Sleep(20 * time.Millisecond) // the last answers
}

func post(address, path, body string) {
	answer, err := http.Post("http://"+address+path, "text/plain", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, answer.Body)
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		log.Fatal(path, answer.Status)
	}
}

// once fills a topic, has it read, and tells the processor time of a message.
func once(b *bench.Broker, read func(string, string, int), number int) time.Duration {
	topic := fmt.Sprint("t", number)
	post(b.HTTP, "/topic/create?topic="+topic, "")
	post(b.HTTP, "/channel/create?channel=c&topic="+topic, "")
	post(b.HTTP, "/mpub?topic="+topic, strings.Repeat(strings.Repeat("x", 100)+"\n", backlog))
	time.Sleep(300 * time.Millisecond) // until all is in the channel
	before, _ := b.CPU()
	read(b.Address, topic, backlog)
	after, _ := b.CPU()
	post(b.HTTP, "/topic/delete?topic="+topic, "")
	return (after - before) / backlog
}

func main() {
	log.SetFlags(0)
	programs := flag.String("programs", "", "directory with giusto-broker and stock")
	rounds := flag.Int("rounds", 9, "rounds")
	flag.Parse()
	directory, err := os.MkdirTemp("", "giusto-bench-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	theirs, file := filepath.Join(directory, "nsqd"), filepath.Join(directory, "broker.yaml")
	os.Mkdir(theirs, 0o700)
	text := fmt.Sprintf("listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: 1\ndata: %s\n", filepath.Join(directory, "giusto"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	nsqd, err := bench.Start(filepath.Join(*programs, "stock"), theirs)
	if err != nil {
		log.Fatal(err)
	}
	defer nsqd.End()
	ours, err := bench.Start(filepath.Join(*programs, "giusto-broker"), file)
	if err != nil {
		log.Fatal(err)
	}
	defer ours.End()
	missed := false
	for _, reader := range []struct {
		name string
		read func(string, string, int)
	}{{"nsq_tail", tail}, {"bench_reader", raw}} {
		var a, b, ratios []time.Duration
		for n := range *rounds {
			a, b = append(a, once(nsqd, reader.read, n)), append(b, once(ours, reader.read, n))
			ratios = append(ratios, 1000*b[n]/a[n])
		}
		slices.Sort(ratios)
		slices.Sort(a)
		slices.Sort(b)
		ratio := float64(ratios[len(ratios)/2]) / 1000
		fmt.Printf("%-12s nsqd %v, giusto %v a message (medians of %d); %.2f x\n", reader.name, a[len(a)/2], b[len(b)/2], *rounds, ratio)
		missed = missed || ratio > 1.1
	}
	if missed {
		fmt.Println("more than 1.1 x")
		ours.End()
		nsqd.End()
		os.RemoveAll(directory)
		os.Exit(1)
	}
}
