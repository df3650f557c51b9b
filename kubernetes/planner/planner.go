// SPDX-License-Identifier: Apache-2.0

// Package planner asks giusto's planner, a child process (`giusto place`), whether services fit on nodes.
//
// It decides nothing: what a node is and has goes in, a line of JSON each, and the answer comes out (formats/place.md). What was
// told is remembered, so that a child that died is started again and told the same before it is asked anything.
package planner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Refused is what the planner refuses, as formats/refusal.schema.json says; of it what is told to people.
type Refused struct {
	Exit    int    `json:"exit"`
	Text    string `json:"text"`
	Cause   string `json:"cause"`
	Nearest []struct {
		Change string `json:"change"`
	} `json:"nearest"`
}

func (r *Refused) Error() string { return r.Text }

// Input is a question that makes no sense, such as a promise that the planner cannot read.
type Input struct{ Reason string }

func (i *Input) Error() string { return i.Reason }

// Fit tells which nodes take a service, with what is then left of each in thousandths of a core, and why the others do not.
type Fit struct {
	Left    map[string]int64  `json:"left"`
	Refused map[string]string `json:"refused"`
}

// Planned is a service in a plan of a node.
type Planned struct {
	Name   string `json:"name"`
	Core   int32  `json:"core"`
	Server struct {
		Budget int64 `json:"budget_ns"`
		Period int64 `json:"period_ns"`
	} `json:"server"`
}

type service struct {
	name string
	keys json.RawMessage
}

type node struct {
	told     map[string]any
	services []service // in the order in which they were taken
}

const (
	// limit is how long a question may take, a little less than kube-scheduler waits for a filter (httpTimeout, 10 s).
	limit = 8 * time.Second
	// search is how long it may take to find out what would fit.
	search = 60 * time.Second
	// atOnce is how many nodes are asked about in one question: others get their turns between them.
	atOnce = 64
	// most is how many different promises and machines a child is told of: it remembers all, and another one takes its place.
	most = 10_000
)

// Planner is the child, and what it was told. Its methods may be called at the same time; one question is answered at a time.
type Planner struct {
	program string
	aside   bool // in time that others leave
	limit   time.Duration
	most    int

	lock  sync.Mutex
	nodes map[string]*node
	told  map[string]struct{} // promises and facts, since the child was started
	child *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	ended error
}

// New is a planner that runs program, which is giusto. The child starts with the first question.
func New(program string) *Planner {
	return &Planner{program: program, limit: limit, most: most, nodes: map[string]*node{}}
}

// Close ends the child.
func (p *Planner) Close() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.ended = errors.New("the planner is closed")
	p.end()
}

// Pid is that of the child; 0: it does not run.
func (p *Planner) Pid() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.child == nil {
		return 0
	}
	return p.child.Process.Pid
}

func (p *Planner) end() {
	if p.child != nil {
		p.in.Close()
		p.child.Process.Kill()
		p.child.Wait()
		p.child = nil
	}
}

// start starts the child, if it does not run, and tells it all that was told before.
func (p *Planner) start() error {
	if p.ended != nil || p.child != nil {
		return p.ended
	}
	child := exec.Command(p.program, "place")
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return fmt.Errorf("cannot start the planner: %w", err)
	}
	if p.aside {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, child.Process.Pid, 19)
	}
	p.child, p.in, p.out = child, in, bufio.NewReaderSize(out, 1<<20)
	p.told = map[string]struct{}{}
	for name, node := range p.nodes {
		if _, err := p.once(node.told); err != nil {
			return err
		}
		for _, one := range node.services {
			if _, err := p.once(runs(name, one.name, one.keys)); err != nil {
				return err
			}
		}
	}
	return nil
}

func put(node, name string, keys json.RawMessage) map[string]any {
	return map[string]any{"do": "put", "node": node, "name": name, "keys": keys}
}

// runs is put for what was admitted before: it counts, whatever became of the node since then.
func runs(node, name string, keys json.RawMessage) map[string]any {
	question := put(node, name, keys)
	question["runs"] = true
	return question
}

// errLate is of a question that took longer than its limit. The child is ended: it may never answer.
var errLate = errors.New("the planner did not answer in time")

// once asks the child that runs.
func (p *Planner) once(question any) ([]byte, error) {
	line, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	child := p.child.Process
	late := time.AfterFunc(p.limit, func() { _ = child.Kill() })
	if _, err = p.in.Write(append(line, '\n')); err == nil {
		line, err = p.out.ReadBytes('\n')
	}
	inTime := late.Stop()
	switch {
	case err == nil && inTime:
		return line, nil
	case !inTime:
		err = fmt.Errorf("%w (%v)", errLate, p.limit)
	default:
		err = fmt.Errorf("the planner has ended: %w", err)
	}
	p.end()
	return nil, err
}

// tells notes what the next question tells the child. Where it was told too much, another one takes its place.
func (p *Planner) tells(text json.RawMessage) {
	if _, known := p.told[string(text)]; known || p.child == nil {
		return
	}
	if len(p.told) >= p.most {
		p.end()
		return
	}
	p.told[string(text)] = struct{}{}
}

// ask asks, and once more where the child has ended meanwhile. What it refuses is an error.
func (p *Planner) ask(question, answer any) error {
	var line []byte
	for range 2 {
		err := p.start()
		if err == nil {
			line, err = p.once(question)
		}
		if err == nil {
			break
		}
		if p.ended != nil || p.child != nil || errors.Is(err, errLate) {
			return err
		}
		line = nil
	}
	if line == nil {
		return errors.New("the planner does not answer")
	}
	var no struct {
		Error *struct {
			Reason string `json:"reason"`
		} `json:"error"`
		Refused json.RawMessage `json:"refused"`
	}
	if err := json.Unmarshal(line, &no); err != nil {
		return fmt.Errorf("the planner's answer is no JSON: %w", err)
	}
	if no.Error != nil {
		return &Input{no.Error.Reason}
	}
	if len(no.Refused) > 0 {
		var refused Refused
		if json.Unmarshal(no.Refused, &refused) == nil && refused.Text != "" {
			return &refused
		}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(line, answer)
}

// Facts probes the machine that this runs on; backend: the only one that may be used, or none.
func (p *Planner) Facts(backend string) (json.RawMessage, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	question := map[string]any{"do": "facts"}
	if backend != "" {
		question["backend"] = backend
	}
	var answer struct {
		Facts json.RawMessage `json:"facts"`
	}
	err := p.ask(question, &answer)
	return answer.Facts, err
}

// Node tells what a node is, and returns what reservations may take of it in thousandths of a core. Its services stay.
func (p *Planner) Node(name, cores, keepFree string, facts json.RawMessage) (int64, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	told := map[string]any{"do": "node", "node": name, "cores": cores, "facts": facts}
	if keepFree != "" {
		told["keep-free"] = keepFree
	}
	var answer struct {
		Thousandths int64 `json:"thousandths"`
	}
	p.tells(facts)
	if err := p.ask(told, &answer); err != nil {
		return 0, err
	}
	if p.nodes[name] == nil {
		p.nodes[name] = &node{}
	}
	p.nodes[name].told = told
	return answer.Thousandths, nil
}

// Gone forgets a node.
func (p *Planner) Gone(name string) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.nodes, name)
	return p.ask(map[string]any{"do": "gone", "node": name}, nil)
}

// Put admits a service on a node, or another one of its name in its place. A Refused or Input changes nothing.
func (p *Planner) Put(nodeName, name string, keys json.RawMessage) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.put(put(nodeName, name, keys), nodeName, service{name, keys})
}

// Runs tells that a service runs on a node: it counts, whether it would be admitted now or not.
func (p *Planner) Runs(nodeName, name string, keys json.RawMessage) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.put(runs(nodeName, name, keys), nodeName, service{name, keys})
}

func (p *Planner) put(question map[string]any, nodeName string, one service) error {
	p.tells(one.keys)
	if err := p.ask(question, nil); err != nil {
		return err
	}
	own := p.nodes[nodeName]
	own.services = append(without(own.services, one.name), one)
	return nil
}

func without(services []service, name string) []service {
	return slices.DeleteFunc(services, func(one service) bool { return one.name == name })
}

// Remove takes a service off a node.
func (p *Planner) Remove(nodeName, name string) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if own := p.nodes[nodeName]; own != nil {
		own.services = without(own.services, name)
	}
	return p.ask(map[string]any{"do": "remove", "node": nodeName, "name": name}, nil)
}

// Fits asks which nodes would take a service, those called in without not counted.
func (p *Planner) Fits(keys json.RawMessage, nodes, without []string) (Fit, error) {
	all := Fit{Left: map[string]int64{}, Refused: map[string]string{}}
	for some := range slices.Chunk(nodes, atOnce) {
		question := map[string]any{"do": "fits", "keys": keys, "nodes": some}
		if len(without) > 0 {
			question["without"] = without
		}
		var fit Fit
		p.lock.Lock()
		p.tells(keys)
		err := p.ask(question, &fit)
		p.lock.Unlock()
		if err != nil {
			return all, err
		}
		maps.Copy(all.Left, fit.Left)
		maps.Copy(all.Refused, fit.Refused)
	}
	return all, nil
}

// Why says in full why a node does not take a service, and what would fit; nil: it does. That takes many plans, so another child
// is asked, and who asks this one does not wait.
func (p *Planner) Why(name, service string, keys json.RawMessage) error {
	p.lock.Lock()
	apart := New(p.program)
	apart.aside, apart.limit = true, search
	if own := p.nodes[name]; own != nil {
		apart.nodes[name] = &node{own.told, slices.Clone(own.services)}
	}
	p.lock.Unlock()
	defer apart.Close()
	return apart.ask(map[string]any{"do": "why", "node": name, "name": service, "keys": keys}, nil)
}

// Needs is what a service reserves on a machine that has nothing else to do, in thousandths of a core.
func (p *Planner) Needs(name string, keys json.RawMessage) (int64, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	var answer struct {
		Thousandths int64 `json:"thousandths"`
	}
	err := p.ask(map[string]any{"do": "needs", "name": name, "keys": keys}, &answer)
	return answer.Thousandths, err
}

// Plan is what is planned of a node's services.
func (p *Planner) Plan(node string) ([]Planned, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	var answer struct {
		Services []Planned `json:"services"`
	}
	err := p.ask(map[string]any{"do": "plan", "node": node}, &answer)
	return answer.Services, err
}
