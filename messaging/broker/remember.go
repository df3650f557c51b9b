// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// What is in the buckets of channels outlives an orderly end. The record is taken away before any token of it is
// spent: a broker that is killed begins with empty buckets. Power that fails might bring the record back, so it
// counts for one boot of the machine.

type tokens struct {
	Boot string `json:"boot"`
	// Tokens by topic:channel, in 2^-20.
	Tokens map[string]uint64 `json:"tokens"`
}

const recordName = "giusto-broker.tokens"

func boot() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // unknown: nothing is recalled
	return strings.TrimSpace(string(text))
}

// recall takes the record away, and gives what it says.
func recall(data string) map[string]uint64 {
	path := filepath.Join(data, recordName)
	text, err := os.ReadFile(path)
	var r tokens
	if err != nil || os.Remove(path) != nil || json.Unmarshal(text, &r) != nil || r.Boot == "" || r.Boot != boot() || r.Tokens == nil {
		return map[string]uint64{}
	}
	return r.Tokens
}

// remember writes what is in the buckets. No message enters a socket any more.
func (b *Broker) remember(data string) error {
	r := tokens{boot(), map[string]uint64{}}
	for _, c := range b.all() {
		c.mutex.Lock()
		if !c.outlet.Open && c.lease == 0 {
			r.Tokens[c.topic+":"+c.name] = c.outlet.Level(c.now())
		}
		c.mutex.Unlock()
	}
	if len(r.Tokens) == 0 {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(data, recordName)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
