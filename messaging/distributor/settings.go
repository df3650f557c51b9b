// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"giusto.dev/messaging/control"
	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/predict"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/store"
	"giusto.dev/messaging/wire"
	"go.yaml.in/yaml/v3"
)

// Settings is the file of a distributor, with defaults filled in. README.md says what each key means.
type Settings struct {
	Listen   string            `yaml:"listen"`
	Announce string            `yaml:"announce"`
	Store    Place             `yaml:"store"`
	Lease    settings.Duration `yaml:"lease"`
	Silent   settings.Duration `yaml:"silent"`
	Gone     settings.Duration `yaml:"gone"`
	Gather   settings.Duration `yaml:"gather"`
	Round    settings.Duration `yaml:"round"`
	Calm     settings.Duration `yaml:"calm"`
	Prepare  settings.Duration `yaml:"prepare"`
	Move     settings.Duration `yaml:"move"`
	Capacity settings.Rate     `yaml:"capacity"`
	Kind     distribute.Kind   `yaml:"kind"`
	Model    string            `yaml:"model"`
}

// Place is where state is kept: the word memory, {file: DIR}, or {zookeeper: [HOST:PORT, ...], term: 2s}.
type Place struct {
	Memory    bool              `yaml:"-"`
	File      string            `yaml:"file"`
	ZooKeeper []string          `yaml:"zookeeper"`
	Term      settings.Duration `yaml:"term"`
}

// UnmarshalYAML reads one of the three.
func (p *Place) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*p = Place{Memory: true}
		if node.Value != "memory" {
			return fmt.Errorf("line %d: store: %q is neither memory, {file: DIR} nor {zookeeper: [HOST:PORT, ...]}", node.Line, node.Value)
		}
		return nil
	}
	type plain Place // without this function
	read := plain{}
	text, err := yaml.Marshal(node)
	if err == nil {
		err = settings.Decode(text, &read)
	}
	if err != nil {
		return fmt.Errorf("line %d: store: %s", node.Line, strings.TrimPrefix(err.Error(), "line 1: "))
	}
	*p = Place(read)
	return nil
}

// Defaults is what holds for keys that the file does not have.
func Defaults() Settings {
	c := control.Defaults()
	s := Settings{Listen: "127.0.0.1:4170", Store: Place{File: "giusto-distributor.data"}, Lease: settings.Duration(c.Lease),
		Silent: settings.Duration(c.Silent), Gone: settings.Duration(c.Gone), Gather: settings.Duration(c.Gather), Round: settings.Duration(c.Round),
		Calm: settings.Duration(c.Calm), Prepare: settings.Duration(c.Prepare), Move: settings.Duration(c.Move), Kind: c.Kind}
	s.Capacity.Num, s.Capacity.Den = uint64(c.Capacity), 1
	return s
}

// Read reads a file.
func Read(path string) (Settings, error) { return settings.ReadFile(path, Parse) }

// Parse reads a file's text.
func Parse(text []byte) (Settings, error) {
	s := Defaults()
	if err := settings.Decode(text, &s, Place{}); err != nil {
		return s, err
	}
	return s, s.check()
}

func (s *Settings) check() error {
	for _, given := range []struct{ key, address string }{{"listen", s.Listen}, {"announce", s.Announce}} {
		if _, _, err := net.SplitHostPort(given.address); err != nil && (given.address != "" || given.key == "listen") {
			return fmt.Errorf("%s: %q is not HOST:PORT", given.key, given.address)
		}
	}
	if host, _, _ := net.SplitHostPort(s.Listen); s.Announce == "" && unspecified(host) {
		return fmt.Errorf("announce: it must be given where listen (%q) is every address: no client could be redirected here by it",
			s.Listen)
	}
	if host, _, _ := net.SplitHostPort(s.Announce); s.Announce != "" && unspecified(host) {
		return fmt.Errorf("announce: %q is every address; expected HOST:PORT at which others reach this one", s.Announce)
	}
	for _, server := range s.Store.ZooKeeper {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return fmt.Errorf("store: zookeeper: %q is not HOST:PORT", server)
		}
	}
	if _, known := predict.Brokers[s.Model]; s.Model != "" && !known {
		return fmt.Errorf("model: %q is none of %s", s.Model, strings.Join(slices.Sorted(maps.Keys(predict.Brokers)), ", "))
	}
	kinds := 0
	for _, given := range []bool{s.Store.Memory, s.Store.File != "", len(s.Store.ZooKeeper) > 0} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("store: expected one of memory, {file: DIR} and {zookeeper: [HOST:PORT, ...]}")
	}
	if s.Store.Term != 0 && len(s.Store.ZooKeeper) == 0 {
		return errors.New("store: term: only zookeeper has one")
	}
	for _, bound := range []struct {
		key         string
		value       settings.Duration
		least, most time.Duration
	}{
		{"lease", s.Lease, 3 * time.Second, 24 * time.Hour},
		{"silent", s.Silent, 2 * time.Second, time.Hour},
		{"gone", s.Gone, 40 * time.Second, 24 * time.Hour},
		{"gather", s.Gather, 0, time.Hour},
		{"round", s.Round, time.Second, time.Hour},
		{"calm", s.Calm, 0, time.Hour},
		{"prepare", s.Prepare, time.Second, time.Hour},
		{"move", s.Move, time.Second, time.Hour},
		{"store: term", s.Store.Term, 500 * time.Millisecond, time.Minute},
	} {
		if bound.key == "store: term" && bound.value == 0 {
			continue
		}
		if value := time.Duration(bound.value); value < bound.least || value > bound.most {
			return fmt.Errorf("%s: %v is not in %v to %v", bound.key, value, bound.least, bound.most)
		}
	}
	if s.Lease <= s.Silent {
		return fmt.Errorf("lease: %v must be longer than silent, %v: a broker would hold its topics before it is missed", time.Duration(s.Lease), time.Duration(s.Silent))
	}
	return nil
}

// unspecified says whether a host is every address of a machine.
func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// control is what the core needs of it.
func (s *Settings) control() control.Settings {
	c := control.Defaults()
	c.Lease, c.Silent, c.Gone, c.Gather = time.Duration(s.Lease), time.Duration(s.Silent), time.Duration(s.Gone), time.Duration(s.Gather)
	c.Round, c.Calm, c.Prepare, c.Move = time.Duration(s.Round), time.Duration(s.Calm), time.Duration(s.Prepare), time.Duration(s.Move)
	c.Kind = s.Kind
	if broker, known := predict.Brokers[s.Model]; known {
		c.Model = func(topic wire.Topic, publishers []distribute.Publisher) distribute.Predict {
			return predict.Model(broker, topic, publishers)
		}
	}
	c.Capacity = float64(s.Capacity.Num) / float64(s.Capacity.Den)
	return c
}

// open opens the store.
func (s *Settings) open(log func(string, ...any)) (store.Store, error) {
	switch {
	case s.Store.Memory:
		return store.NewMemory(), nil
	case s.Store.File != "":
		return store.NewFile(s.Store.File)
	}
	return store.NewZooKeeper(s.Store.ZooKeeper, time.Duration(s.Store.Term), log)
}
