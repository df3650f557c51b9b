// SPDX-License-Identifier: Apache-2.0

// topics measures what many topics with a channel each cost nsqd and giusto-broker, one after the other: memory
// when they are there, and processor time
// of a round of messages through all of them. The gate: at most 1.2 x nsqd's of both, memory of what is more than
// the 512 MiB that the broker may have.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"giusto.dev/messaging/bench"
)

// cost of one broker.
type cost struct {
	resident, peak int64 // MiB
	files          int
	made, used     time.Duration
}

var client = &http.Client{Timeout: time.Minute}

func post(address, path, body string) {
	answer, err := client.Post("http://"+address+path, "text/plain", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		log.Fatalf("%s: %s: %s", path, answer.Status, text)
	}
}

func measure(path, argument string, topics, messages int) (c cost) {
	b, err := bench.Start(path, argument)
	if err != nil {
		log.Fatal(err)
	}
	defer b.End()
	for n := range topics {
		post(b.HTTP, fmt.Sprintf("/topic/create?topic=t%d", n), "")
		post(b.HTTP, fmt.Sprintf("/channel/create?topic=t%d&channel=c", n), "")
	}
	c.made, _ = b.CPU()
	for n := range messages {
		post(b.HTTP, fmt.Sprintf("/pub?topic=t%d", n%topics), strings.Repeat("x", 100))
	}
	time.Sleep(2 * time.Second) // what a collector does meanwhile counts
	used, _ := b.CPU()
	c.used = used - c.made
	c.resident, c.peak = b.Memory()
	c.files = b.Files()
	return c
}

func main() {
	log.SetFlags(0)
	programs := flag.String("programs", "", "directory with giusto-broker and stock")
	topics := flag.Int("topics", 2730, "topics, each with a channel")
	messages := flag.Int("messages", 5000, "messages published to them in turn")
	more := flag.String("more", "", "more of the broker's file, such as: memory: 1GiB")
	limit := flag.String("limit", "", "of each topic: publishing or delivery; none where nothing is said")
	flag.Parse()
	directory, err := os.MkdirTemp("", "giusto-bench-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	theirs := filepath.Join(directory, "nsqd")
	os.Mkdir(theirs, 0o700)
	text := fmt.Sprintf("listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: 1\ndata: %s\n%s\n", filepath.Join(directory, "giusto"), *more)
	if *limit != "" {
		text += "topics:\n"
		for n := range *topics {
			text += fmt.Sprintf("  t%d: {rate: 100k/s, depth: 1000, limit: %s}\n", n, *limit)
		}
	}
	file := filepath.Join(directory, "broker.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	nsqd := measure(filepath.Join(*programs, "stock"), theirs, *topics, *messages)
	ours := measure(filepath.Join(*programs, "giusto-broker"), file, *topics, *messages)
	fmt.Printf("%d topics with a channel, %d messages\n%8s %8s %12s %12s %12s %12s\n", *topics, *messages, "", "files", "resident MiB", "peak MiB", "made, CPU", "messages, CPU")
	for _, one := range []struct {
		name string
		cost
	}{{"nsqd", nsqd}, {"giusto", ours}} {
		fmt.Printf("%8s %8d %12d %12d %12v %12v\n", one.name, one.files, one.resident, one.peak, one.made.Round(time.Millisecond), one.used.Round(time.Millisecond))
	}
	fmt.Printf("%8s %8s %12.2f %12.2f %12.2f %12.2f\n", "ratio", "", float64(ours.resident)/float64(nsqd.resident), float64(ours.peak)/float64(nsqd.peak),
		float64(ours.made)/float64(nsqd.made), float64(ours.used)/float64(nsqd.used))
	if float64(ours.resident) > 1.2*float64(max(nsqd.resident, 512)) || float64(ours.used) > 1.2*float64(nsqd.used) {
		fmt.Println("more than 1.2 x")
		os.RemoveAll(directory)
		os.Exit(1)
	}
}
