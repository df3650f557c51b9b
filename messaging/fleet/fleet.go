// SPDX-License-Identifier: Apache-2.0

// Package fleet runs brokers, distributors and publishers as processes of this machine, for tests and studies that need
// real ones. They end with the process that started them.
package fleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"giusto.dev/messaging/control"
)

// Process is one that was started from a program and a file, and can be started again.
type Process struct {
	path      string
	arguments []string
	command   *exec.Cmd
	ended     chan struct{}
	line      func(string)
}

// Launch starts a program. What it prints goes to line, by lines.
func Launch(line func(string), path string, arguments ...string) (*Process, error) {
	p := &Process{path: path, arguments: arguments, line: line}
	return p, p.Start()
}

// Start starts it, or starts it again.
func (p *Process) Start() error {
	command := exec.Command(p.path, p.arguments...)
	out, err := begin(command)
	if err != nil {
		return err
	}
	p.command, p.ended = command, make(chan struct{})
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.line(lines.Text())
		}
		command.Wait()
	}()
	return nil
}

// Signal sends one.
func (p *Process) Signal(signal os.Signal) { p.command.Process.Signal(signal) }

// Children are the processes that it has started.
func (p *Process) Children() (ids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.command.Process.Pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			if id, err := strconv.Atoi(word); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Kill kills it, and waits.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// End asks it to end, and waits.
func (p *Process) End() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(40 * time.Second):
		p.Kill()
	}
}

// Fleet is brokers and distributors. Their ports stay the same when they start again.
type Fleet struct {
	Brokers, Distributors []*Process
	// V2 and HTTP addresses of brokers, and the distributors' addresses.
	V2, HTTP, Addresses []string
}

// Programs is where giusto-broker and giusto-distributor are.
type Programs string

// Build builds them, and what else is named, into a directory.
func Build(directory string, packages ...string) (Programs, error) {
	command := exec.Command("go", append([]string{"build", "-o", directory + "/"}, packages...)...)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v: %s", err, out)
	}
	return Programs(directory), nil
}

// Path of one of them.
func (p Programs) Path(name string) string { return filepath.Join(string(p), name) }

// ports that are free now.
func ports(count int) ([]string, error) {
	var addresses []string
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open, addresses = append(open, l), append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// New starts a fleet below a directory. The texts are more of the brokers' and the distributors' files; %d in them is the number of one.
func New(programs Programs, directory string, brokers, distributors int, ofBroker, ofDistributor string) (*Fleet, error) {
	free, err := ports(2*brokers + distributors)
	if err != nil {
		return nil, err
	}
	f := &Fleet{V2: free[:brokers], HTTP: free[brokers : 2*brokers], Addresses: free[2*brokers:]}
	quiet := func(string) {}
	start := func(kind string, n int, text string) (*Process, error) {
		file := filepath.Join(directory, fmt.Sprintf("%s-%d.yaml", kind, n))
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "%d", fmt.Sprint(n))), 0o600); err != nil {
			return nil, err
		}
		return Launch(quiet, programs.Path("giusto-"+kind), file)
	}
	for n, address := range f.Addresses {
		p, err := start("distributor", n, fmt.Sprintf("listen: %s\n%s", address, ofDistributor))
		if err != nil {
			f.End()
			return nil, err
		}
		f.Distributors = append(f.Distributors, p)
	}
	for n := range brokers {
		text := fmt.Sprintf("listen: %s\nhttp: %s\nnode: %d\nname: b%d\ndata: %s\ndistributor: [%s]\n%s", f.V2[n], f.HTTP[n], n, n,
			filepath.Join(directory, fmt.Sprintf("broker-%d.data", n)), strings.Join(f.Addresses, ", "), ofBroker)
		p, err := start("broker", n, text)
		if err != nil {
			f.End()
			return nil, err
		}
		f.Brokers = append(f.Brokers, p)
	}
	return f, nil
}

// End ends all of it.
func (f *Fleet) End() {
	for _, p := range append(append([]*Process{}, f.Brokers...), f.Distributors...) {
		p.End()
	}
}

var asking = &http.Client{Timeout: 2 * time.Second}

// Ask sends a request to the leader, and tries again until it is answered or the time is over.
func (f *Fleet) Ask(method, path string, body string, into any, within time.Duration) error {
	var last error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, address := range f.Addresses {
			request, err := http.NewRequest(method, "http://"+address+path, bytes.NewReader([]byte(body)))
			if err != nil {
				return err
			}
			response, err := asking.Do(request)
			if err != nil {
				last = err
				continue
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusOK {
				last = fmt.Errorf("%s %s: %s: %s %v", method, path, response.Status, text, err)
				continue
			}
			if into == nil {
				return nil
			}
			return json.Unmarshal(text, into)
		}
	}
	return last
}

// Topic is what the leader says of one.
func (f *Fleet) Topic(name string) (status control.TopicStatus, err error) {
	err = f.Ask("GET", "/topics/"+name, "", &status, 20*time.Second)
	return status, err
}

// Leader is the number of the distributor that leads, once one does.
func (f *Fleet) Leader(within time.Duration) (int, error) {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for n, address := range f.Addresses {
			response, err := asking.Get("http://" + address + "/status")
			if err != nil {
				continue
			}
			var status struct{ Leads bool }
			err = json.NewDecoder(response.Body).Decode(&status)
			response.Body.Close()
			if err == nil && status.Leads {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("no distributor leads after %v", within)
}
