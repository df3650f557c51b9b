// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// entry is a message at a consumer's socket: by the kernel's stamps it came after `after`, and at `by` at the latest.
type entry struct {
	after, by int64
	body      string
	attempts  uint16
	client    int
}

// recorder is consumers of one channel that note when the kernel got each message. They speak the protocol by themselves, so that nothing lies between the
// socket and the note, and come back when their broker does.
type recorder struct {
	mutex   sync.Mutex
	entries []entry
	conns   map[int]*stampedConn
	over    bool
	running sync.WaitGroup
	// answer is what a message is answered with: FIN, or REQ.
	answer func(entry) string
}

// record starts consumers of a channel. address is asked before each connection.
func record(t testing.TB, address func() string, topic, channel string, consumers, rdy int) *recorder {
	r := &recorder{conns: map[int]*stampedConn{}, answer: func(entry) string { return "FIN %s\n" }}
	for n := range consumers {
		r.running.Add(1)
		go func() {
			defer r.running.Done()
			for !r.stopped() {
				if conn, err := (&net.Dialer{Control: func(a, b string, c syscall.RawConn) error { return stampAll(a, b, c) }}).Dial("tcp", address()); err == nil {
					r.read(n, conn.(*net.TCPConn), topic, channel, rdy)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	t.Cleanup(r.stop)
	return r
}

func (r *recorder) stopped() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.over
}

func (r *recorder) stop() {
	r.mutex.Lock()
	r.over = true
	for _, c := range r.conns {
		c.Close()
	}
	r.mutex.Unlock()
	r.running.Wait()
}

func (r *recorder) read(client int, tcp *net.TCPConn, topic, channel string, rdy int) {
	defer tcp.Close()
	conn, err := newStampedConn(tcp)
	if err != nil {
		return
	}
	r.mutex.Lock()
	r.conns[client] = conn
	over := r.over
	r.mutex.Unlock()
	if over {
		return
	}
	fmt.Fprintf(conn, "  V2SUB %s %s\nRDY %d\n", topic, channel, rdy)
	var here []byte
	before := int64(0)
	buffer := make([]byte, bufferSize)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		stamp := conn.stamp
		if before == 0 {
			before = stamp
		}
		here = append(here, buffer[:n]...)
		for len(here) >= 4 && len(here) >= 4+int(binary.BigEndian.Uint32(here)) {
			frame := here[4 : 4+int(binary.BigEndian.Uint32(here))]
			switch kind := binary.BigEndian.Uint32(frame); {
			case kind == frameMessage:
				e := entry{before, stamp, string(frame[30:]), binary.BigEndian.Uint16(frame[12:]), client}
				r.mutex.Lock()
				r.entries = append(r.entries, e)
				answer := r.answer(e)
				r.mutex.Unlock()
				fmt.Fprintf(conn, answer, frame[14:30])
			case string(frame[4:]) == "_heartbeat_":
				io.WriteString(conn, "NOP\n")
			}
			here = here[4+len(frame):]
		}
		before = stamp
	}
}

// count is how many messages came.
func (r *recorder) count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.entries)
}

// excess is by how many messages the entries are beyond depth + rate·t in the worst window. A message came at some time between the stamps of two reads of its
// connection; it counts for a window that has both. The stamps' clock may be slewed, by a thousandth at most.
func (r *recorder) excess(rate, depth float64) float64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	entries := slices.Clone(r.entries)
	slices.SortFunc(entries, func(a, b entry) int { return int(a.by - b.by) })
	worst := 0.0
	for first := range entries {
		begin, inside := entries[first].after, 0.0
		for _, e := range entries[first:] {
			if e.after < begin {
				continue // it may have come before
			}
			inside++
			if over := inside - depth - 1.001*rate*(float64(e.by-begin)/1e9); over > worst {
				worst = over
			}
		}
	}
	return worst
}

// bodies that came, each once.
func (r *recorder) bodies() map[string]int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	seen := map[string]int{}
	for _, e := range r.entries {
		seen[e.body]++
	}
	return seen
}

// supply publishes by a raw connection, in batches of MPUB; it returns what was acknowledged.
func supply(t testing.TB, address, topic, prefix string, count int) (acknowledged []string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	io.WriteString(conn, "  V2")
	for at := 0; at < count; at += 100 {
		var batch strings.Builder
		binary.Write(&batch, binary.BigEndian, uint32(min(100, count-at)))
		var names []string
		for n := at; n < min(at+100, count); n++ {
			names = append(names, fmt.Sprintf("%s-%d", prefix, n))
			batch.WriteString(sized(names[len(names)-1]))
		}
		fmt.Fprintf(conn, "MPUB %s\n%s", topic, sized(batch.String()))
		head := make([]byte, 8)
		if _, err := io.ReadFull(answers, head); err != nil {
			return acknowledged
		}
		text := make([]byte, binary.BigEndian.Uint32(head)-4)
		io.ReadFull(answers, text)
		if string(text) == "OK" {
			acknowledged = append(acknowledged, names...)
		}
	}
	return acknowledged
}

// What consumers get of a channel is within its bucket over any window, whatever its messages went through: a start, a backlog, SIGTERM, SIGKILL, a stop
// of the process, being sent again, being deferred. And nothing that was acknowledged is lost.
func TestTheLimitHoldsAtConsumersSockets(t *testing.T) {
	data := t.TempDir()
	const rate, depth = 1000, 20
	text := "mem_queue: 0\ndrain: 200ms\ntopics: {kept: {rate: 1k/s, depth: 20, limit: delivery}}"
	command, address, http := child(t, data, text)
	where := sync.Mutex{}
	at := func() string { where.Lock(); defer where.Unlock(); return address }
	r := record(t, at, "kept", "test", 3, 50)
	once := map[string]bool{}
	r.answer = func(e entry) string {
		if e.attempts == 1 && len(once) < 300 && len(e.body)%2 == 0 {
			once[e.body] = true
			return "REQ %s 0\n"
		}
		return "FIN %s\n"
	}
	again := func(kill bool) {
		if kill {
			command.Process.Kill()
		} else {
			command.Process.Signal(syscall.SIGTERM)
		}
		command.Wait()
		where.Lock()
		command, address, http = child(t, data, text)
		where.Unlock()
	}
	settled(t, "messages not come", 0, func() int { supply(t, at(), "kept", "first", 1); return 1 - min(1, r.count()) })
	var all []string
	all = append(all, supply(t, at(), "kept", "a", 1500)...)
	again(false)
	all = append(all, supply(t, at(), "kept", "b", 1500)...)
	time.Sleep(300 * time.Millisecond)
	command.Process.Signal(syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond)
	command.Process.Signal(syscall.SIGCONT)
	time.Sleep(200 * time.Millisecond)
	post(t, http, "/pub?topic=kept&defer=300", "deferred")
	again(true)
	all = append(all, supply(t, at(), "kept", "c", 500)...)
	settled(t, "acknowledged messages", 0, func() int {
		seen, left := r.bodies(), 0
		for _, body := range all {
			if seen[body] == 0 {
				left++
			}
		}
		return left
	})
	r.stop()
	command.Process.Signal(syscall.SIGTERM)
	command.Wait()
	fmt.Printf("broker: delivery: %d entries of %d messages over a SIGTERM, a stop and a SIGKILL: %.2f beyond the bucket at worst\n", r.count(), len(all), r.excess(rate, depth))
	if over := r.excess(rate, depth); over > 0.05 {
		t.Errorf("%.2f messages beyond %d + %d·t", over, depth, rate)
	}
}
