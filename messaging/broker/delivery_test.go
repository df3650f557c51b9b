// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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

// recorder is consumers of one channel that note when the kernel got each message. They speak the protocol by
// themselves, so that nothing lies between the socket and the note, and come back when their broker does.
type recorder struct {
	mutex   sync.Mutex
	entries []entry
	before  []entry // the limit that is looked at
	conns   map[int]*stampedConn
	there   map[int]bool // consumers that the broker has confirmed
	over    bool
	running sync.WaitGroup
	// answer is what a message is answered with: FIN, or REQ.
	answer func(entry) string
}

// record starts consumers of a channel, and waits until the broker has confirmed them: what is published before a channel's
// first consumer may not come to it. address is asked before each connection.
func record(t testing.TB, address func() string, topic, channel string, consumers, rdy int) *recorder {
	r := &recorder{conns: map[int]*stampedConn{}, there: map[int]bool{}, answer: func(entry) string { return "FIN %s\n" }}
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
	settled(t, "consumers lacking", 0, func() int {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return consumers - len(r.there)
	})
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
	connected := wall.now()
	fmt.Fprintf(conn, "  V2SUB %s %s\nRDY %d\n", topic, channel, rdy)
	var here []byte
	before := connected // what one read gives has one stamp, that of its last byte
	buffer := make([]byte, bufferSize)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		stamp := wall.even(conn.stamp, conn.read)
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
			case string(frame[4:]) == "OK":
				r.mutex.Lock()
				r.there[client] = true
				r.mutex.Unlock()
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

// forget what came.
func (r *recorder) forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.entries = nil
}

// excess is by how many messages the entries are beyond depth + rate·t in the worst window. A message came at some
// time between the stamps of two reads of its connection; it counts for a window that has both. The stamps' clock may
// be slewed, by a thousandth at most.
func (r *recorder) excess(rate, depth float64) float64 {
	worst, _, _ := r.window(rate, depth)
	return worst
}

// window is the worst one, too: from and to, by the stamps' clock.
func (r *recorder) window(rate, depth float64) (worst float64, from, to int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	entries := slices.Clone(r.entries)
	slices.SortFunc(entries, func(a, b entry) int { return int(a.by - b.by) })
	for first := range entries {
		begin, inside := entries[first].after, 0.0
		for _, e := range entries[first:] {
			if e.after < begin {
				continue // it may have come before
			}
			inside++
			if over := inside - depth - 1.001*rate*(float64(e.by-begin)/1e9); over > worst {
				worst, from, to = over, begin, e.by
			}
		}
	}
	return worst, from, to
}

// bodies that came, each once.
func (r *recorder) bodies() map[string]int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	seen := map[string]int{}
	for _, e := range slices.Concat(r.before, r.entries) {
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

// silence is what a distributor says that does not lead.
func silence(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no leader", 503) }

// A broker that was stopped for longer than its lease lasts lets nothing go when it wakes, until it has new orders:
// another may have its share. What it had on its way waits, too.
func TestABrokerThatSleptLetsNothingGo(t *testing.T) {
	d := distribute(t)
	command, address, http := child(t, t.TempDir(), "mem_queue: 0\n"+d.file())
	defer func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}()
	r := record(t, func() string { return address }, "kept", "test", 3, 50)
	order := share("kept", 500, 10)
	order.Delivery = true
	d.order(t, 1500*time.Millisecond, order)
	supply(t, address, "kept", "a", 2000)
	settled(t, "messages lacking", 0, func() int { return max(0, 300-r.count()) })
	d.say(silence)
	command.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2100 * time.Millisecond) // the lease is over, and consumers have read what had entered
	before := r.count()
	command.Process.Signal(syscall.SIGCONT)
	time.Sleep(700 * time.Millisecond)
	if after := r.count(); after > before {
		t.Errorf("%d messages entered after the lease", after-before)
	}
	d.say(nil)
	settled(t, "messages lacking", 0, func() int { return max(0, 2000-r.count()) })
	fmt.Printf("broker: delivery: stopped beyond its lease: nothing entered; %.2f beyond the bucket at worst\n", r.excess(500, 10))
	if over := r.excess(500, 10); over > 0.05 {
		t.Errorf("%.2f messages beyond 10 + 500·t", over)
	}
	if metrics := get(t, http, "/metrics"); !strings.Contains(metrics, `giusto_broker_late_messages_total{channel="test",topic="kept"} 0`) ||
		!strings.Contains(metrics, `giusto_broker_delivered_messages_total{channel="test",topic="kept"} 2`) {
		t.Error("its metrics lack what was delivered, or it was late")
	}
	// A share of nothing is acknowledged when nothing enters any more, and what is published meanwhile is kept.
	order.Share = share("kept", 0, 0).Share
	supply(t, address, "kept", "b", 500)
	d.order(t, time.Minute, order)
	before = r.count()
	time.Sleep(300 * time.Millisecond)
	if after := r.count(); after > before {
		t.Errorf("%d messages entered after the share was given up", after-before)
	}
	d.order(t, time.Minute) // no limit any more
	settled(t, "messages lacking", 0, func() int { return max(0, 2500-r.count()) })
}

// The file's limits change while consumers are there: what a limit that comes lets through, from then on, is within
// its bucket, also on the connections that are there; a channel has its own; one that goes is not felt any more.
func TestLimitsAtDeliveryAreReloaded(t *testing.T) {
	b := start(t, "topics: {a: {channels: {slow: {rate: 50/s, depth: 2}}}}")
	defer b.Stop()
	address := b.Addr().String()
	slow := record(t, func() string { return address }, "a", "slow", 1, 20)
	free := record(t, func() string { return address }, "a", "free", 1, 20)
	supply(t, address, "a", "x", 40)
	settled(t, "messages lacking", 0, func() int { return 40 - free.count() })
	settled(t, "messages lacking", 0, func() int { return 40 - slow.count() })
	if over := slow.excess(50, 2); over > 0.05 {
		t.Errorf("%.2f messages beyond 2 + 50·t", over)
	}
	path := t.TempDir() + "/file.yaml"
	reload := func(topics string) {
		t.Helper()
		s := *b.settings.Load()
		os.WriteFile(path, fmt.Appendf(nil, "listen: %s\nhttp: %s\ndata: %s\nnode: 1\n%s", s.Listen, s.HTTP, s.Data, topics), 0o600)
		if err := b.Reload(path); err != nil {
			t.Fatal(err)
		}
	}
	reload("topics: {a: {rate: 100/s, depth: 1, limit: delivery}}")
	free.forget()
	slow.forget()
	supply(t, address, "a", "y", 50)
	settled(t, "messages lacking", 0, func() int { return 50 - free.count() })
	if over := free.excess(100, 1); over > 0.05 {
		t.Errorf("%.2f messages beyond 1 + 100·t on a connection from before the limit", over)
	}
	// Taken away and put back: it begins empty.
	for range 5 {
		reload("")
		reload("topics: {a: {rate: 20/s, depth: 10, limit: delivery}}")
	}
	free.forget()
	began := time.Now()
	supply(t, address, "a", "z", 10)
	settled(t, "messages lacking", 0, func() int { return 10 - free.count() })
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("10 at 20/s, from an empty bucket on, came in %v", took)
	}
}

// What is in a bucket is there again after an orderly end, and is not after a kill.
func TestTokensOutliveAnOrderlyEnd(t *testing.T) {
	data := t.TempDir()
	text := "topics: {a: {rate: 20/s, depth: 10, limit: delivery}}"
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		command, address, _ := child(t, data, text)
		r := record(t, func() string { return address }, "a", "test", 1, 20)
		time.Sleep(700 * time.Millisecond) // the bucket is full
		command.Process.Signal(end)
		command.Wait()
		started := time.Now()
		command, address, _ = child(t, data, text)
		settled(t, "messages lacking", 0, func() int { supply(t, address, "a", "first", 1); return 1 - min(1, r.count()) })
		began := time.Now()
		supply(t, address, "a", "x", 8)
		settled(t, "messages lacking", 0, func() int { return max(0, 9-r.count()) })
		if took := time.Since(began); end == syscall.SIGTERM && took > 200*time.Millisecond {
			t.Errorf("after %v 8 messages took %v, with the bucket full", end, took)
		}
		if took := time.Since(started); end == syscall.SIGKILL && took < 450*time.Millisecond {
			t.Errorf("after %v 9 messages came %v after the start, from an empty bucket at 20/s", end, took)
		}
		r.stop()
		command.Process.Kill()
		command.Wait()
	}
}

// What consumers get of a channel is within its bucket over any window, whatever its messages went through: a start,
// a backlog, SIGTERM, SIGKILL, a stop of the process, being sent again, being deferred. And nothing that was
// acknowledged is lost.
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
