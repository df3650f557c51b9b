// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
)

// On a disk that is full what was acknowledged is kept, with messages in memory or on disk, with a limit at delivery
// and without; publishers are told soon, and when there is room it all comes, and publishers go on. What an orderly
// end finds no room for is told to be lost.
func TestNothingAcknowledgedIsLostOnAFullDisk(t *testing.T) {
	for _, text := range []string{"mem_queue: 0", "mem_queue: 10", "mem_queue: 0\ntopics: {kept: {rate: 2k/s, depth: 50, limit: delivery}}", "mem_queue: 10\ntopics: {kept: {rate: 2k/s, depth: 50, limit: delivery}}"} {
		data := t.TempDir()
		if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=1m"); err != nil {
			t.Skip("a small file system cannot be mounted here:", err)
		}
		defer syscall.Unmount(data, syscall.MNT_DETACH)
		filler := filepath.Join(data, "filler")
		os.WriteFile(filler, make([]byte, 600<<10), 0o600)
		command, address, http := child(t, data, text)
		post(t, http, "/topic/create?topic=kept", "")
		post(t, http, "/channel/create?topic=kept&channel=test", "")
		post(t, http, "/channel/create?topic=kept&channel=idle", "")
		p := producer(t, address, nsq.NewConfig())
		var acknowledged []string
		refusals := 0
		for n := 0; n < 2000 && refusals < 5; n++ {
			body := fmt.Sprintf("%d %s", n, strings.Repeat("x", 1500))
			if err := p.Publish("kept", []byte(body)); err == nil {
				acknowledged = append(acknowledged, body)
			} else {
				if !strings.Contains(err.Error(), "connected") && !strings.Contains(err.Error(), "closed") {
					refusals++
					if !strings.Contains(err.Error(), "no space left on device") {
						t.Error(err)
					}
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		if refusals == 0 || len(acknowledged) < 50 {
			t.Fatalf("%d acknowledged, %d refused: the disk did not fill", len(acknowledged), refusals)
		}
		time.Sleep(300 * time.Millisecond)
		os.Remove(filler)
		settled(t, "refusals", 0, func() int {
			if p.Publish("kept", []byte("after")) != nil {
				return 1
			}
			return 0
		})
		r := record(t, func() string { return address }, "kept", "test", 1, 20)
		settled(t, fmt.Sprintf("%s: lost of %d", text, len(acknowledged)), 0, func() int {
			seen, left := r.bodies(), 0
			for _, body := range acknowledged {
				if seen[body] == 0 {
					left++
				}
			}
			return left
		})
		fmt.Printf("broker: disk full, %s: %d acknowledged all came, %d refused\n", strings.ReplaceAll(text, "\n", ", "), len(acknowledged), refusals)
		p.Stop()
		r.stop()
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}
}

// What finds no room to the end is counted and told.
func TestWhatIsLostIsTold(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("a small file system cannot be mounted here:", err)
	}
	defer syscall.Unmount(data, syscall.MNT_DETACH)
	var said bytes.Buffer
	var saying sync.Mutex
	b := startWith(t, data, "mem_queue: 10\ntopics: {kept: {rate: 1/s, depth: 1, limit: delivery}}", func(format string, words ...any) {
		saying.Lock()
		defer saying.Unlock()
		fmt.Fprintf(&said, format+"\n", words...)
	})
	address := b.Addr().String()
	r := record(t, func() string { return address }, "kept", "test", 1, 20)
	p := producer(t, address, nsq.NewConfig())
	defer p.Stop()
	count := 0
	for range 300 {
		if err := p.Publish("kept", []byte(strings.Repeat("x", 3000))); err == nil {
			count++
		} else {
			break
		}
	}
	r.stop()
	// The broker leaves room for what it has in memory; others may take it.
	filler, err := os.Create(filepath.Join(data, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	filler.Close()
	b.Stop()
	lost := b.metrics.topic("kept").lost.Load()
	if !strings.Contains(said.String(), "kept:test: lost a message of ") || lost == 0 || int(lost) > count {
		t.Errorf("%d lost of %d; it said %s", lost, count, said.String())
	}
}
