// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"giusto.dev/kubernetes/planner"
)

// memory is what the next agent has to know, in agent.json beside the plans: as they do, it ends with a boot of the node.
type memory struct {
	// Admitted are the keys by services, in force or not.
	Admitted map[string]json.RawMessage `json:"admitted"`
	// Services are those in force, and Site their site file.
	Services map[string]placed `json:"services"`
	Site     string            `json:"site"`
	// Freed are the cgroups of containers whose processes are not in their cpu cgroup.
	Freed []string `json:"freed"`
}

// recall reads what the last agent has left.
func (a *Agent) recall() error {
	text, err := os.ReadFile(a.Giusto.file("agent.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a.memory); err != nil {
		return fmt.Errorf("%s: %w; take it away, then all pods of this node are admitted anew",
			a.Giusto.file("agent.json"), err)
	}
	a.written = text
	return nil
}

// restore takes up what the last agent has left: what was admitted stays so, until something is decided anew.
func (a *Agent) restore() error {
	if err := a.recall(); err != nil {
		return err
	}
	for name, keys := range a.memory.Admitted {
		err := a.Planner.Runs(node, name, keys)
		var input *planner.Input
		if errors.As(err, &input) {
			slog.Warn("what an agent of another version admitted makes no sense: it is asked for anew",
				"service", name, "why", err)
			delete(a.memory.Admitted, name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// remembered is the service of a pod that was not known before.
func (a *Agent) remembered(name string) *service {
	return &service{name: name, keys: a.memory.Admitted[name], cgroup: a.memory.Services[name].Cgroup}
}

// forget lets go of what was admitted of pods that went, also while no agent was there.
func (a *Agent) forget() error {
	there := map[string]bool{}
	for _, own := range a.services {
		there[own.name] = true
	}
	for name := range a.memory.Admitted {
		if !there[name] {
			if err := a.Planner.Remove(node, name); err != nil {
				return err
			}
			delete(a.memory.Admitted, name)
			a.changes++
		}
	}
	return nil
}

// remember notes what is admitted now.
func (a *Agent) remember() {
	a.memory.Admitted = map[string]json.RawMessage{}
	for _, own := range a.services {
		if own.keys != nil {
			a.memory.Admitted[own.name] = own.keys
		}
	}
}

// save writes down what the next agent has to know.
func (a *Agent) save() error {
	text, err := json.Marshal(&a.memory)
	if err != nil || bytes.Equal(text, a.written) {
		return err
	}
	if err := os.MkdirAll(a.Giusto.Folder, 0o700); err != nil {
		return err
	}
	if err := write(a.Giusto.file("agent.json"), text); err != nil {
		return err
	}
	a.written = text
	return nil
}

// write writes a file, all of it or nothing.
func write(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
