// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"net"

	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

// Settings is the file of a limiter, with defaults filled in. README.md says what each key means.
type Settings struct {
	GRPC        string            `yaml:"grpc"`
	HTTP        string            `yaml:"http"`
	Distributor []string          `yaml:"distributor"`
	Name        string            `yaml:"name"`
	Data        string            `yaml:"data"`
	Domains     map[string][]Rule `yaml:"domains"`
}

// Rule says which bucket requests pass that a proxy describes so.
type Rule struct {
	// When has the entries of the descriptor, all and no others.
	When   map[string]string `yaml:"when"`
	Bucket string            `yaml:"bucket"`
}

// Read reads a file.
func Read(path string) (Settings, error) { return settings.ReadFile(path, Parse) }

// Parse reads a file's text.
func Parse(text []byte) (Settings, error) {
	s := Settings{GRPC: "127.0.0.1:4180", HTTP: "127.0.0.1:4181", Data: "giusto-limit.data"}
	if err := settings.Decode(text, &s, Rule{}); err != nil {
		return s, err
	}
	return s, s.check()
}

func (s *Settings) check() error {
	for key, address := range map[string]string{"grpc": s.GRPC, "http": s.HTTP} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s: %q is not HOST:PORT", key, address)
		}
	}
	for _, address := range s.Distributor {
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" {
			return fmt.Errorf("distributor: %q is not HOST:PORT", address)
		}
	}
	switch {
	case len(s.Distributor) == 0:
		return errors.New("distributor: it has none; expected a list of HOST:PORT")
	case !wire.ValidBroker(s.Name):
		return fmt.Errorf("name: %q is not a limiter's name: 1 to 255 of . a-z A-Z 0-9 _ - : [ ], another for each", s.Name)
	case s.Data == "":
		return errors.New("data: it has none; expected a directory")
	}
	for domain, rules := range s.Domains {
		for n, rule := range rules {
			switch {
			case len(rule.When) == 0:
				return fmt.Errorf("domains: %s: rule %d: when: it has no entries; expected such as {generic_key: orders}", domain, n+1)
			case !settings.ValidName(rule.Bucket):
				return fmt.Errorf("domains: %s: rule %d: bucket: %q is not a bucket's name: 1 to 64 of . a-z A-Z 0-9 _ -", domain, n+1, rule.Bucket)
			}
		}
	}
	return nil
}

// bucket is the bucket of what a proxy describes so; false: no rule says one.
func (s *Settings) bucket(domain string, entries map[string]string) (string, bool) {
	for _, rule := range s.Domains[domain] {
		same := len(rule.When) == len(entries)
		for key, value := range rule.When {
			is, has := entries[key]
			same = same && has && is == value
		}
		if same {
			return rule.Bucket, true
		}
	}
	return "", false
}
