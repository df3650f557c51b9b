// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/nsqio/nsq/nsqd"
)

// soak is whether the long tests are wanted.
var soak = os.Getenv("GIUSTO_SOAK") == "1"

// frames checks that all that a client was sent is whole frames of known kinds, and counts them. What follows an
// answer that agrees on compression is
// unpacked.
func frames(text []byte) (int, error) {
	count := 0
	for len(text) > 0 {
		if len(text) < 8 {
			return count, fmt.Errorf("%d bytes are left over", len(text))
		}
		size, kind := int(binary.BigEndian.Uint32(text)), binary.BigEndian.Uint32(text[4:])
		if size < 4 || size+4 > len(text) || kind > 2 {
			return count, fmt.Errorf("size %d, kind %d, %d bytes", size, kind, len(text))
		}
		said := text[8 : size+4]
		text = text[size+4:]
		count++
		var packed io.Reader
		switch {
		case bytes.Contains(said, []byte(`"snappy":true`)):
			packed = snappy.NewReader(bytes.NewReader(text))
		case bytes.Contains(said, []byte(`"deflate":true`)):
			packed = flate.NewReader(bytes.NewReader(text))
		default:
			continue
		}
		var err error
		if text, err = io.ReadAll(packed); err != nil && err != io.ErrUnexpectedEOF { // deflate has no end where the connection ends
			return count, err
		}
	}
	return count, nil
}

// feed sends bytes, and then no more; the broker must end the connection, with whole frames before.
func feed(address string, input []byte) (int, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		conn.Write(input)
		conn.(*net.TCPConn).CloseWrite()
	}()
	answer, err := io.ReadAll(conn)
	if e, timeout := err.(net.Error); timeout && e.Timeout() {
		return 0, fmt.Errorf("the connection stayed open: %q", input)
	}
	if err != nil {
		return 0, nil // it was reset, since the broker did not read all: what came before that may be cut
	}
	return frames(answer)
}

// corpus is what fuzzing starts from: every transcript.
func corpus() (all [][]byte) {
	for _, tr := range transcripts() {
		if text := strings.Join(tr.sent, ""); len(text) < 30_000 {
			all = append(all, []byte(text))
		}
	}
	return all
}

func FuzzCommands(f *testing.F) {
	for _, text := range corpus() {
		f.Add(text)
	}
	tuned(f, silent)
	b := start(f, "topics: {limited: {rate: 1M/s, depth: 1000, limit: publishing}}\nmax_message: 1KiB\nmax_body: 4KiB")
	f.Fuzz(func(t *testing.T, input []byte) {
		if _, err := feed(b.Addr().String(), input); err != nil {
			t.Fatal(err)
		}
	})
}

// end stops a broker that has a process of its own.
func end(command *exec.Cmd) {
	command.Process.Signal(syscall.SIGTERM)
	command.Wait()
}

// settled waits until a count is at most so many.
func settled(t testing.TB, what string, most int, count func() int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); count() > most; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %d, at most %d expected", what, count(), most)
		}
	}
}

// Random changes of all transcripts: the broker ends each connection, answers in whole frames, keeps no goroutine and no memory, and
// serves others all the while.
func TestNoBytesUpsetTheBroker(t *testing.T) {
	tuned(t, silent)
	b := start(t, "topics: {limited: {rate: 1M/s, depth: 1000, limit: publishing}}\nmax_message: 1KiB\nmax_body: 4KiB")
	defer b.Stop()
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	p.Publish("limited", []byte("x"))
	before := runtime.NumGoroutine()
	random, seeds := rand.New(rand.NewPCG(9, 9)), corpus()
	inputs, answered := 1500, 0
	if soak {
		inputs = 100_000
	}
	for n := range inputs {
		input := append([]byte{}, seeds[n%len(seeds)]...)
		if n >= len(seeds) {
			for range 1 + random.IntN(4) {
				at := 4 + random.IntN(max(len(input)-4, 1))
				switch at = min(at, len(input)); random.IntN(4) {
				case 0:
					input = append(input[:at:at], append([]byte{byte(random.IntN(256))}, input[at:]...)...)
				case 1:
					input = append(input[:at:at], seeds[random.IntN(len(seeds))]...)
				case 2:
					input = input[:at]
				case 3:
					if at < len(input) {
						input[at] ^= 1 << random.IntN(8)
					}
				}
			}
		}
		count, err := feed(b.Addr().String(), input)
		if err != nil {
			t.Fatalf("%q: %v", input, err)
		}
		if count > 0 {
			answered++
		}
		if n%100 == 0 {
			if err := p.Publish("limited", []byte("y")); err != nil {
				t.Fatal("others are not served:", err)
			}
		}
	}
	made := 4 // nsqd scans queues with up to four, and keeps two for each topic and one for each channel
	for _, topic := range b.engine.GetMetadata(true).Topics {
		made += 2 + len(topic.Channels)
	}
	settled(t, "goroutines", before+made, runtime.NumGoroutine)
	settled(t, "connections", 1, func() int { all, _ := b.connections(); return all })
	if b.assembling.Load() != 0 {
		t.Error("memory for bodies was not given back:", b.assembling.Load())
	}
	fmt.Printf("broker: %d random inputs, %d answered with whole frames, all connections ended\n", inputs, answered)
	if answered < inputs/2 {
		t.Error("most were not answered")
	}
}

// A size alone takes no memory, and who sends a byte now and then is not waited for longer than twice the heartbeat interval.
func TestSizesAndSlowClients(t *testing.T) {
	tuned(t, func(o *nsqd.Options) { o.ClientTimeout = 2 * time.Second })
	b := start(t, "max_message: 100MiB\nmax_body: 100MiB")
	defer b.Stop()
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, text)
		return conn
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	began := time.Now()
	slow := []net.Conn{dial(""), dial("  "), dial(v2), dial(v2 + "PU")}
	for range 100 {
		slow = append(slow, dial(v2+"PUB t\n"+be(100<<20)+"abc"), dial(v2+"MPUB t\n"+be(100<<20)+be(1<<20)+be(1<<20)))
	}
	time.Sleep(300 * time.Millisecond)
	runtime.ReadMemStats(&m)
	grown := int64(m.HeapAlloc) - int64(before)
	trickling := dial(v2)
	go func() {
		for range 100 {
			if _, err := io.WriteString(trickling, "P"); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	settled(t, "connections", 0, func() int { all, _ := b.connections(); return all })
	took := time.Since(began)
	for _, conn := range append(slow, trickling) {
		conn.Close()
	}
	fmt.Printf("broker: 200 announced bodies of 100 MiB took %d KiB; %d slow clients were let go after %v\n", grown>>10, len(slow)+1, took.Round(100*time.Millisecond))
	if grown > 64<<20 {
		t.Error("memory was taken for sizes")
	}
	if took < 1900*time.Millisecond || took > 15*time.Second {
		t.Error("let go after", took)
	}
}

// A thousand connections that come and go in all ways leave no goroutine.
func TestNoGoroutineIsLeft(t *testing.T) {
	b := start(t, "topics: {limited: {rate: 10k/s, depth: 10, limit: publishing}}")
	defer b.Stop()
	said(t, b.Addr().String(), []string{v2 + "SUB t c\n"}, true)
	before := runtime.NumGoroutine()
	random := rand.New(rand.NewPCG(3, 3))
	kinds := []string{"", v2, v2 + "PUB limited\n" + sized("x"), v2 + "SUB t c\n", v2 + "SUB t c\nRDY 5\nPUB t\n" + sized("y"), v2 + "NONSENSE\n",
		v2 + identify(`{"heartbeat_interval":1000}`), v2 + "PUB t\n" + be(100), "GET / HTTP/1.1\r\n\r\n"}
	for n := range 1000 {
		conn, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, kinds[n%len(kinds)])
		if random.IntN(2) == 0 {
			conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			conn.Read(make([]byte, 100))
		}
		conn.Close()
	}
	settled(t, "goroutines", before, runtime.NumGoroutine)
	fmt.Printf("broker: 1000 connections of %d kinds came and went, %d goroutines as before\n", len(kinds), before)
}

// A consumer that reads nothing is disconnected; it harms no other topic, and its messages go to the next consumer.
func TestASlowConsumerHarmsNoOther(t *testing.T) {
	b := start(t, "msg_timeout: 1s\nmem_queue: 100")
	defer b.Stop()
	slow, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	slow.(*net.TCPConn).SetReadBuffer(4096)
	io.WriteString(slow, v2+identify(`{"heartbeat_interval":1000,"msg_timeout":1000}`)+"SUB big test\nRDY 2500\n")
	time.Sleep(50 * time.Millisecond)
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	quick, got := consume(t, b.Addr().String(), "other", nil)
	defer quick.Stop()
	large := strings.Repeat("x", 20_000)
	const count = 500
	late := 0
	for n := range count {
		if err := p.Publish("big", fmt.Appendf(nil, "%d %s", n, large)); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			p.Publish("other", []byte("x"))
			if m := <-got; m.at.Sub(m.stamp) > 200*time.Millisecond {
				late++
			}
		}
	}
	settled(t, "consumers", 1, func() int { _, consuming := b.connections(); return consuming })
	next, all := consume(t, b.Addr().String(), "big", nil)
	defer next.Stop()
	seen := map[string]bool{}
	for len(seen) < count {
		select {
		case m := <-all:
			seen[strings.Fields(m.body)[0]] = true
		case <-time.After(20 * time.Second):
			t.Fatal("lost", count-len(seen))
		}
	}
	fmt.Printf("broker: a consumer that reads nothing was let go; %d messages came to the next; of another topic's 50, %d were late\n", count, late)
	if late > 5 {
		t.Error("another topic was harmed")
	}
}
