// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"giusto.dev/messaging/fleet"
	"giusto.dev/messaging/wire"
)

// TestMain makes this program a distributor where a test wants one that it can kill.
func TestMain(m *testing.M) {
	fleet.Main(m.Run, func(file string) (string, func(), error) {
		s, err := Read(file)
		if err != nil {
			return "", nil, err
		}
		d, err := Start(s, func(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) })
		if err != nil {
			return "", nil, err
		}
		go func() { panic(<-d.Failed()) }()
		return "ready", d.Stop, nil
	})
}

// start runs one in this process.
func start(t *testing.T, text string) *Distributor {
	t.Helper()
	s, err := Parse([]byte("listen: 127.0.0.1:0\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Start(s, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// daemon is one in a process of its own.
type daemon struct {
	address, file string
	command       *exec.Cmd
}

func newDaemon(t *testing.T, text string) *daemon {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{address: l.Addr().String(), file: filepath.Join(t.TempDir(), "distributor.yaml")}
	l.Close()
	if err := os.WriteFile(d.file, []byte(fmt.Sprintf("listen: %s\n%s", d.address, text)), 0o600); err != nil {
		t.Fatal(err)
	}
	d.begin(t)
	t.Cleanup(func() { d.signal(syscall.SIGCONT); d.kill() })
	return d
}

func (d *daemon) begin(t *testing.T) {
	t.Helper()
	d.command = fleet.Self(d.file)
	if !testing.Verbose() {
		d.command.Stderr = io.Discard
	}
	if line, err := fleet.Ready(d.command); err != nil {
		t.Fatal("no distributor: ", line, err)
	}
}

func (d *daemon) signal(s syscall.Signal) { d.command.Process.Signal(s) }

func (d *daemon) kill() {
	d.command.Process.Kill()
	d.command.Wait()
}

// leads says whether a distributor leads.
func leads(address string) bool {
	var status struct{ Leads bool }
	client := http.Client{Timeout: 300 * time.Millisecond}
	answer, err := client.Get("http://" + address + "/status")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(&status) == nil && status.Leads
}

func settled(t *testing.T, what string, of func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !of(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in a minute not: ", what)
		}
	}
}

// call makes an HTTP request, follows redirects, and gives status and text.
func call(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// report is a broker's.
func report(client *http.Client, address string, r wire.Report) (o wire.Orders, err error) {
	text, _ := json.Marshal(r)
	answer, err := client.Post("http://"+address+"/report", "application/json", bytes.NewReader(text))
	if err != nil {
		return o, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return o, fmt.Errorf("%s: %s", answer.Status, text)
	}
	return o, json.NewDecoder(answer.Body).Decode(&o)
}

func decode(answer *http.Response, into any) error { return json.NewDecoder(answer.Body).Decode(into) }
