// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Giusto is the `giusto run` of this node. It is started so that it outlives this process and its container: the next
// agent finds it by its control socket (formats/control.md).
type Giusto struct {
	// Program is giusto; Self this program, which starts it outside of all cgroups of the container.
	Program, Self string
	// Folder has site, plans and log; State is giusto's own (GIUSTO_STATE).
	Folder, State string
	// Backend is the only one that may be used, or none.
	Backend string

	version string
}

// Status is of `giusto status --json` what an agent reads.
type Status struct {
	Version  string          `json:"version"`
	Pid      int             `json:"pid"`
	State    string          `json:"state"`
	Services []ServiceStatus `json:"services"`
	Warnings []string        `json:"warnings"`
}

// ServiceStatus is one of its services.
type ServiceStatus struct {
	Name    string  `json:"name"`
	Core    *int32  `json:"core"`
	Backend string  `json:"backend"`
	Budget  *int64  `json:"budget_ns"`
	Period  *int64  `json:"period_ns"`
	Threads int     `json:"threads"`
	State   string  `json:"state"`
	Recent  float64 `json:"supplied_recent"`
	Demand  *struct {
		Drifted *int64 `json:"drifted_since_ns"`
	} `json:"demand"`
	Supply *struct {
		Past []struct {
			Periods int64  `json:"periods"`
			Missed  int64  `json:"missed"`
			Verdict string `json:"verdict"`
		} `json:"past"`
	} `json:"supply"`
	Responses *struct {
		Past []struct {
			Requests int64  `json:"requests"`
			P99      *int64 `json:"p99_ns"`
		} `json:"past"`
		Promised []struct {
			Percentile float64 `json:"percentile"`
			Within     int64   `json:"within_ns"`
			Past       []struct {
				Now     *int64 `json:"now_ns"`
				Verdict string `json:"verdict"`
			} `json:"past"`
		} `json:"promised"`
	} `json:"responses"`
}

const (
	// patience is how long a step of giusto may take: it waits for services for 10 s at most.
	patience = 30 * time.Second
	// soon is how long it may take to say how it stands, for which it never waits.
	soon = 3 * time.Second
)

// ErrNotRunning: there is no giusto run on this node.
var ErrNotRunning = errors.New("giusto run does not run")

// Ask asks the control socket.
func (g *Giusto) Ask(question map[string]any, answer any) error {
	connection, err := net.DialTimeout("unix", filepath.Join(g.State, "control"), 2*time.Second)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrNotRunning, err)
	}
	defer connection.Close()
	within := patience
	if question["do"] == "status" {
		within = soon
	}
	_ = connection.SetDeadline(time.Now().Add(within))
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := connection.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("giusto run does not answer: %w", err)
	}
	line, err = bufio.NewReader(connection).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("giusto run does not answer: %w", err)
	}
	var refused struct {
		Error *struct {
			Reason string `json:"reason"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &refused); err != nil {
		return fmt.Errorf("giusto's answer: %w", err)
	}
	if refused.Error != nil {
		return errors.New(refused.Error.Reason)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(line, answer)
}

// Status asks how it stands. Errors: ErrNotRunning.
func (g *Giusto) Status() (*Status, error) {
	var answer struct {
		Status Status `json:"status"`
	}
	if err := g.Ask(map[string]any{"do": "status"}, &answer); err != nil {
		return nil, err
	}
	return &answer.Status, nil
}

func (g *Giusto) file(name string) string { return filepath.Join(g.Folder, name) }

// Enforce puts a site in force: services stay on their cores where they can. Errors: nothing has changed.
func (g *Giusto) Enforce(ctx context.Context, site []byte) error {
	if err := os.MkdirAll(g.Folder, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(g.file("site.yaml"), site, 0o600); err != nil {
		return err
	}
	status, err := g.Status()
	runs := err == nil
	args := []string{"plan", g.file("site.yaml"), "--out", g.file("next.json")}
	if g.Backend != "" {
		args = append(args, "--backend", g.Backend)
	}
	if _, err := os.Stat(g.file("plan.json")); err == nil && runs {
		args = append(args, "--current", g.file("plan.json"))
	}
	if err := g.run(ctx, args...); err != nil {
		return err
	}
	if runs && status.State == "stopping" {
		return errors.New("giusto run is about to end")
	}
	if runs {
		err = g.Ask(map[string]any{"do": "reload", "site": g.file("next.json")}, nil)
	} else {
		err = g.start(ctx)
	}
	if err != nil {
		return err
	}
	// What is in force is kept under a name of its own: the next plan is written over the other.
	text, err := os.ReadFile(g.file("next.json"))
	if err != nil {
		return err
	}
	return write(g.file("plan.json"), text)
}

// Version is that of the program, which a giusto run that an agent before started may not have.
func (g *Giusto) Version(ctx context.Context) (string, error) {
	if g.version != "" {
		return g.version, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, err := exec.CommandContext(ctx, g.Program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("giusto --version: %w", err)
	}
	words := strings.Fields(string(said))
	if len(words) == 0 {
		return "", errors.New("giusto --version says nothing")
	}
	g.version = words[len(words)-1]
	return g.version, nil
}

// run runs giusto to its end. Errors: what it said.
func (g *Giusto) run(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	command := exec.CommandContext(ctx, g.Program, args...)
	command.Env = append(os.Environ(), "GIUSTO_STATE="+g.State)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("giusto %s: %s", args[0], last(said.String(), err))
	}
	return nil
}

// last is what a program said at its end.
func last(said string, err error) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for at := len(lines) - 1; at >= 0; at-- {
		if line, found := strings.CutPrefix(lines[at], "giusto: "); found {
			return line
		}
	}
	if text := lines[len(lines)-1]; text != "" {
		return text
	}
	return err.Error()
}

// start starts giusto run, and waits until it enforces. It is in a session of its own, and in no cgroup of this process's.
func (g *Giusto) start(ctx context.Context) error {
	log, err := os.OpenFile(g.file("giusto.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(g.Self, "launch", g.Program, "run", g.file("next.json"))
	command.Env = append(os.Environ(), "GIUSTO_STATE="+g.State)
	command.Dir = g.Folder
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if status, err := g.Status(); err == nil && status.State != "starting" {
			return nil
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(g.file("giusto.log"))
			return fmt.Errorf("giusto run: %s", last(string(text), err))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("giusto run does not enforce its plan yet")
}

// Stop ends it, which leaves the host as it was, and waits for that.
func (g *Giusto) Stop(ctx context.Context) error {
	status, err := g.Status()
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := g.Ask(map[string]any{"do": "stop"}, nil); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if syscall.Kill(status.Pid, 0) != nil {
			_ = os.Remove(g.file("plan.json"))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("giusto run, process %d, does not end", status.Pid)
}
