// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scripted is a planner that writes down what it is asked, and never answers whether something fits.
func scripted(t *testing.T) (*Planner, string) {
	t.Helper()
	folder := t.TempDir()
	asked, program := filepath.Join(folder, "asked"), filepath.Join(folder, "giusto")
	text := "#!/bin/sh\nwhile read -r line; do\necho \"$line\" >>" + asked + "\n" +
		"case $line in *'\"do\":\"fits\"'*) exec sleep 1000 ;; esac\necho '{\"giusto\":1,\"thousandths\":7}'\ndone\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	p := New(program)
	t.Cleanup(p.Close)
	return p, asked
}

// Who asks gets an error instead of waiting for ever, once, and what was told before is told to the next child as it was.
func TestAQuestionHasATimeLimit(t *testing.T) {
	p, asked := scripted(t)
	p.limit = 300 * time.Millisecond
	if _, err := p.Node("n", "0-1", "", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	keys := json.RawMessage(`{"promise":"leftovers"}`)
	if err := p.Put("n", "a", keys); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := p.Fits(keys, []string{"n"}, nil)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, errLate) {
			t.Errorf("expected that the time limit is told; it said %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it still waits")
	}
	if err := p.Put("n", "b", keys); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	var do []string
	for line := range strings.Lines(string(text)) {
		var question struct {
			Do, Name string
			Runs     bool
		}
		if err := json.Unmarshal([]byte(line), &question); err != nil {
			t.Fatal(err)
		}
		if question.Runs {
			question.Do = "runs"
		}
		do = append(do, question.Do+question.Name)
	}
	if got, expected := strings.Join(do, " "), "node puta fits node runsa putb"; got != expected {
		t.Errorf("asked: %s; expected %s", got, expected)
	}
}

// A child remembers each promise that it was asked about: after so many another one takes its place, and is told what there is.
func TestAChildIsReplacedWhenItWasToldTooMuch(t *testing.T) {
	p, asked := scripted(t)
	p.most = 3
	if _, err := p.Node("n", "0-1", "", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	pids := map[int]bool{}
	for number := range 10 {
		if err := p.Put("n", "a", json.RawMessage(fmt.Sprintf(`{"at-least":"%d%%"}`, number))); err != nil {
			t.Fatal(err)
		}
		if len(p.told) > p.most {
			t.Errorf("%d are remembered", len(p.told))
		}
		pids[p.Pid()] = true
	}
	text, err := os.ReadFile(asked)
	if again := strings.Count(string(text), `"runs":true`); err != nil || len(pids) < 3 || again != len(pids)-1 {
		t.Errorf("%d children, told again %d times (%v)", len(pids), again, err)
	}
}

// One question about many nodes does not keep the others waiting until it is done with all.
func TestManyNodesAreAskedInTurnsWithOthers(t *testing.T) {
	folder := t.TempDir()
	program, asked := filepath.Join(folder, "giusto"), filepath.Join(folder, "asked")
	text := "#!/bin/sh\nwhile read -r line; do\necho \"$line\" >>" + asked + "\necho '{\"giusto\":1,\"left\":{}}'\ndone\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	p := New(program)
	defer p.Close()
	if _, err := p.Fits(json.RawMessage(`{}`), make([]string, 3*atOnce), nil); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(asked)
	if err != nil || strings.Count(string(lines), "\n") != 3 {
		t.Errorf("%d questions (%v); expected 3", strings.Count(string(lines), "\n"), err)
	}
}
