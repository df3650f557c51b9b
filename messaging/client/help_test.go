// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/broker"
	"giusto.dev/messaging/fleet"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

// TestMain makes this program a broker where a test wants one that it can kill.
func TestMain(m *testing.M) {
	fleet.Main(m.Run, func(file string) (string, func(), error) {
		s, err := settings.Read(file)
		if err != nil {
			return "", nil, err
		}
		b, err := broker.Start(s, func(string, ...any) {})
		if err != nil {
			return "", nil, err
		}
		return "ready", b.Stop, nil
	})
}

// daemon is a broker in a process of its own, that comes back at the same address.
type daemon struct {
	name, address, file string
	command             *exec.Cmd
}

func start(t *testing.T, name, topics string) *daemon {
	t.Helper()
	ports := [2]string{}
	for n := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[n] = l.Addr().String()
		defer l.Close()
	}
	d := &daemon{name: name, address: ports[0], file: filepath.Join(t.TempDir(), "broker.yaml")}
	text := fmt.Sprintf("listen: %s\nhttp: %s\nnode: 1\ndata: %s\n%s", ports[0], ports[1], t.TempDir(), topics)
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	return d
}

func (d *daemon) begin(t *testing.T) {
	t.Helper()
	d.command = fleet.Self(d.file)
	if line, err := fleet.Ready(d.command); err != nil {
		t.Fatal("no broker: ", line, err)
	}
}

func (d *daemon) kill() {
	if d.command != nil {
		d.command.Process.Kill()
		d.command.Wait()
	}
}

func (d *daemon) signal(s syscall.Signal) { d.command.Process.Signal(s) }

// distributor is a fake one: it says what the test says.
type distributor struct {
	address string
	server  *http.Server

	mutex   sync.Mutex
	changed *sync.Cond
	told    wire.Assignment
	asks    []wire.Ask
}

func newDistributor(t *testing.T) *distributor {
	d := &distributor{}
	d.changed = sync.NewCond(&d.mutex)
	d.begin(t, "127.0.0.1:0")
	t.Cleanup(func() { d.server.Close(); d.tell("", "") })
	return d
}

func (d *distributor) begin(t *testing.T, address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	d.address = l.Addr().String()
	d.server = &http.Server{Handler: d}
	go d.server.Serve(l)
}

func (d *distributor) tell(broker, v2 string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.told = wire.Assignment{Broker: broker, V2: v2, Version: d.told.Version + 1}
	d.changed.Broadcast()
}

func (d *distributor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask, err := wire.ParseAsk(r.URL.Query())
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.asks = append(d.asks, ask)
	end := time.Now().Add(min(ask.Wait, 2*time.Second))
	timer := time.AfterFunc(time.Until(end), func() { d.mutex.Lock(); d.changed.Broadcast(); d.mutex.Unlock() })
	defer timer.Stop()
	for err == nil && time.Now().Before(end) && ask.Seen == d.told.Version {
		d.changed.Wait()
	}
	if err != nil || d.told.Broker == "" {
		http.Error(w, fmt.Sprint("nothing to tell ", err), http.StatusServiceUnavailable)
		return
	}
	json.NewEncoder(w).Encode(d.told)
}

// last is the last question.
func (d *distributor) last() (ask wire.Ask) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if len(d.asks) > 0 {
		ask = d.asks[len(d.asks)-1]
	}
	return ask
}

func client(t *testing.T, d *distributor, change func(*Options)) *Client {
	t.Helper()
	o := Options{Distributors: []string{d.address}, Topic: "kept", Publisher: "p1", Group: "g 1", Patience: time.Second, Log: t.Logf}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func settled(t *testing.T, what string, of func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !of(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in half a minute not: ", what)
		}
	}
}

// inbox counts bodies that came, from any broker.
type inbox struct {
	mutex sync.Mutex
	came  map[string]int
}

func newInbox() *inbox { return &inbox{came: map[string]int{}} }

func (i *inbox) HandleMessage(m *nsq.Message) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.came[string(m.Body)]++
	return nil
}

// consume takes all that a broker has, and goes on.
func (i *inbox) consume(t *testing.T, address string) *nsq.Consumer {
	t.Helper()
	config := nsq.NewConfig()
	config.MaxInFlight = 100
	config.LookupdPollInterval = 100 * time.Millisecond
	c, err := nsq.NewConsumer("kept", "all", config)
	if err == nil {
		c.SetLogger(nowhere, nsq.LogLevelError)
		c.AddHandler(i)
		err = c.ConnectToNSQD(address)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// missing are those of the bodies that did not come, more those that came more than once in all.
func (i *inbox) missing(bodies []string) (missing, more int) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, body := range bodies {
		if i.came[body] == 0 {
			missing++
		}
	}
	for body, n := range i.came {
		if !strings.HasPrefix(body, "#") {
			more += n - 1
		}
	}
	return missing, more
}

func query(text string) url.Values {
	values, _ := url.ParseQuery(text)
	return values
}
