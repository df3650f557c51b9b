// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Where the wall clock is read, which any administrator may set, and why that decides nothing. All else is by monotonic time, as
// time.Time's Sub, Before and After are.
var wall = map[string]string{
	"broker/consumer.go": "the time since a message's stamp, which is told",
	"broker/ids.go":      "ids, which grow in any case",
	"broker/stamped.go":  "stamps of messages, where the kernel gives none",
	"broker/steps.go":    "how far it was set, for what of nsqd is by it",
	"broker/topic.go":    "how late a message was read, from 0 to a second",
	"broker/web.go":      "stamps of messages that came by HTTP",
	"clock/clock.go":     "whether to look at the clock that goes on in a sleep",
	"store/store.go":     "the epoch of an empty store",
}

// What the broker, the limiter and the distributor decide is not by the wall clock. A step of it in real brokers is
// tests/messaging-clock.sh's.
func TestTheWallClockDecidesNothing(t *testing.T) {
	reads, found := regexp.MustCompile(`\.Unix(Nano|Micro|Milli)?\(\)|CLOCK_REALTIME\b[^.,]*\)`), map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel("..", path)
		if entry.IsDir() && (name == "bench" || name == "clients" || name == "examples") {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if reads.Match(text) {
			if found[name] = true; wall[name] == "" {
				t.Errorf("%s: %s", name, reads.Find(text))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range wall {
		if !found[name] {
			t.Errorf("%s does not read it", name)
		}
	}
}
