// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/fleet"
	"giusto.dev/messaging/settings"
)

// TestMain makes this program a broker of its own where a test wants one that it can kill.
func TestMain(m *testing.M) {
	fleet.Main(m.Run, func(file string) (string, func(), error) {
		s, err := settings.Read(file)
		if err != nil {
			return "", nil, err
		}
		b, err := Start(s, func(string, ...any) {})
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprint(b.Addr(), " ", b.HTTPAddr()), b.Stop, nil
	})
}

// child runs a broker in a process of its own.
func child(t testing.TB, data, text string) (command *exec.Cmd, tcp, http string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "broker.yaml")
	os.WriteFile(file, []byte(fmt.Sprintf("listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: 1\ndata: %s\n%s", data, text)), 0o600)
	limited := []string{"-c", "ulimit -n ${FILES:-$(ulimit -Hn)}; exec \"$@\"", "sh"}
	command = exec.Command("/bin/sh", append(limited, fleet.Self(file).Args...)...)
	line, err := fleet.Ready(command)
	words := strings.Fields(line)
	if err != nil || len(words) != 2 {
		t.Fatal("no broker: ", line, err)
	}
	return command, words[0], words[1]
}

// Killed at any time, a broker whose topics are on disk loses nothing that it acknowledged: neither what waits for tokens, since
// that is not acknowledged yet, nor what nsqd had written a moment before.
func TestNothingAcknowledgedIsLostWhenKilled(t *testing.T) {
	kills, total := 4, 0
	if soak {
		kills = 40
	}
	for kill := range kills {
		data := t.TempDir()
		text := "mem_queue: 0\ntopics: {kept: {rate: 2k/s, depth: 20, limit: publishing}}"
		command, address, _ := child(t, data, text)
		var mutex sync.Mutex
		acknowledged := map[string]bool{}
		var publishers sync.WaitGroup
		for publisher := range 8 {
			publishers.Add(1)
			go func() {
				defer publishers.Done()
				p := producer(t, address, nil)
				defer p.Stop()
				for n := 0; ; n++ {
					topic := []string{"kept", "free"}[n%2]
					body := fmt.Sprintf("%s-%d-%d", topic, publisher, n)
					if p.Publish(topic, []byte(body)) != nil {
						return
					}
					mutex.Lock()
					acknowledged[body] = true
					mutex.Unlock()
				}
			}()
		}
		settled(t, "messages not acknowledged", 0, func() int { mutex.Lock(); defer mutex.Unlock(); return 100 - len(acknowledged) })
		time.Sleep(time.Duration(kill*150) * time.Millisecond)
		command.Process.Kill()
		command.Wait()
		publishers.Wait()
		total += len(acknowledged)
		dead := filepath.Join(os.TempDir(), fmt.Sprintf("giusto-broker-%d-*", command.Process.Pid))
		command, address, _ = child(t, data, text)
		if left, _ := filepath.Glob(dead); len(left) > 0 {
			t.Errorf("the dead broker's sockets are still there: %v", left)
		}
		for _, topic := range []string{"kept", "free"} {
			c, got := consume(t, address, topic, nil)
			left := 0
			for body := range acknowledged {
				if strings.HasPrefix(body, topic) {
					left++
				}
			}
			for left > 0 {
				select {
				case m := <-got:
					if acknowledged[m.body] {
						delete(acknowledged, m.body)
						left--
					}
				case <-time.After(5 * time.Second):
					t.Fatalf("kill %d: %s: lost %d", kill, topic, left)
				}
			}
			c.Stop()
		}
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}
	fmt.Printf("broker: killed %d times, %d acknowledged messages all came after\n", kills, total)
}

// With a full disk: clear errors where nothing can be kept; topics whose messages need no disk go on; what was acknowledged and
// waits for tokens is kept until there is room again, and then comes.
func TestAFullDisk(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=256k"); err != nil {
		// Not root, or in a container without mounts; filling the machine's own disk would be no test.
		t.Skip("a small file system cannot be mounted here:", err)
	}
	defer syscall.Unmount(data, syscall.MNT_DETACH)
	command, address, http := child(t, data, "mem_queue: 10\ntopics: {slow: {rate: 500/s, depth: 1, queue: 40, limit: publishing}}")
	defer func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}()
	config := nsq.NewConfig()
	p := producer(t, address, config)
	defer p.Stop()
	c, got := consume(t, address, "alive", nil)
	defer c.Stop()
	full := ""
	for range 1000 {
		if err := p.Publish("heap", []byte(strings.Repeat("x", 2000))); err != nil {
			full = err.Error()
			break
		}
	}
	if !strings.Contains(full, "E_PUB_FAILED") || !strings.Contains(full, "no space left on device") {
		t.Fatal("no clear error:", full)
	}
	if answer := get(t, http, "/ping"); !strings.Contains(answer, "no space left") {
		t.Error("healthy:", answer)
	}
	for range 50 {
		var err error
		for range 100 { // the connection was closed with the error, as nsqd does, and go-nsq connects again
			if err = p.Publish("alive", []byte("x")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Fatal("another topic was harmed:", err)
		}
		select {
		case <-got:
		case <-time.After(5 * time.Second):
			t.Fatal("another topic's messages do not come")
		}
	}
	// Ten go to memory, some hundred bytes of disk may be left; the rest fills the queue.
	acknowledged, refused := map[string]bool{}, ""
	for n := range 400 {
		body := fmt.Sprintf("%d %s", n, strings.Repeat("y", 900))
		if err := p.Publish("slow", []byte(body)); err != nil {
			refused = err.Error()
			if strings.Contains(refused, "queue is full") {
				break
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		acknowledged[fmt.Sprint(n)] = true
	}
	if !strings.Contains(refused, "E_PUB_FAILED") || !strings.Contains(refused, "queue is full") {
		t.Fatal("the queue did not fill:", refused)
	}
	all := len(acknowledged)
	post(t, http, "/topic/empty?topic=heap", "")
	next, came := consume(t, address, "slow", nil)
	defer next.Stop()
	for len(acknowledged) > 0 {
		select {
		case m := <-came:
			delete(acknowledged, strings.Fields(m.body)[0])
		case <-time.After(5 * time.Second):
			t.Fatal("lost", len(acknowledged), "of", all)
		}
	}
	fmt.Printf("broker: disk full: clear errors, another topic unharmed; %d acknowledged meanwhile all came after\n", all)
}

// A message's stamp is the kernel's: it tells when a message came though the broker was stopped then.
func TestStampsAreTheKernels(t *testing.T) {
	command, address, _ := child(t, t.TempDir(), "topics: {t: {rate: 10k/s, depth: 100, limit: publishing}}")
	defer func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}()
	c, got := consume(t, address, "t", nil)
	defer c.Stop()
	conns := make([]net.Conn, 20)
	for n := range conns {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, v2)
		conns[n] = conn
	}
	time.Sleep(50 * time.Millisecond)
	command.Process.Signal(syscall.SIGSTOP)
	for _, conn := range conns {
		fmt.Fprint(conn, "PUB t\n"+sized(fmt.Sprint(time.Now().UnixNano())))
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	command.Process.Signal(syscall.SIGCONT)
	near := 0
	for range conns {
		m := <-got
		var sent int64
		fmt.Sscan(m.body, &sent)
		if off := m.stamp.Sub(time.Unix(0, sent)); off >= -time.Millisecond && off < 50*time.Millisecond {
			near++
		}
	}
	fmt.Printf("broker: stopped for 300 ms: %d of %d stamps within 50 ms of sending\n", near, len(conns))
	if near < 15 {
		t.Error("not the kernel's stamps")
	}
}

// A queue that stays full stops its producers for a moment, and then refuses; it does not stop other topics' producers, and what was
// accepted all comes.
func TestAFullQueueRefusesAfterAMoment(t *testing.T) {
	b := start(t, "patience: 100ms\ntopics: {narrow: {rate: 5/s, depth: 1, queue: 5, limit: publishing}}")
	defer b.Stop()
	accepted, refused := 0, 0
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, v2)
	slowest := time.Duration(0)
	reader := bufio.NewReader(conn)
	for range 30 {
		began := time.Now()
		fmt.Fprint(conn, "PUB narrow\n"+sized("x"))
		head := make([]byte, 8)
		for n := range head {
			if head[n], err = reader.ReadByte(); err != nil {
				t.Fatal(err)
			}
		}
		text := make([]byte, int(head[3])-4)
		for n := range text {
			text[n], _ = reader.ReadByte()
		}
		slowest = max(slowest, time.Since(began))
		switch string(text) {
		case "OK":
			accepted++
		case "E_PUB_FAILED PUB failed the topic's queue is full":
			refused++
		default:
			t.Fatal(string(text))
		}
	}
	c, got := consume(t, b.Addr().String(), "narrow", nil)
	defer c.Stop()
	for range accepted {
		select {
		case <-got:
		case <-time.After(5 * time.Second):
			t.Fatal("lost")
		}
	}
	narrow := (*b.topics.Load())["narrow"]
	settled(t, "queue", 0, func() int {
		narrow.mutex.Lock()
		defer narrow.mutex.Unlock()
		return int(narrow.used) + len(narrow.places)
	})
	fmt.Printf("broker: a full queue: %d accepted, %d refused, none later than %v\n", accepted, refused, slowest.Round(time.Millisecond))
	if accepted < 6 || refused < 5 || slowest > time.Second {
		t.Error("not as it should be")
	}
}
