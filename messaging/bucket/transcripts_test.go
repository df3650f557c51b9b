// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Where the transcripts of the C core are, and who writes those of the law.
const policy = "../../policy"

var refusals = map[error]string{ErrRate: "bad_rate", ErrBurst: "bad_burst", ErrFill: "bad_fill", ErrTime: "bad_time",
	ErrTooMany: "too_many", ErrNever: "never"}

// player plays lines of policy/README.md's grammar, from a bucket of all zeros on.
type player struct {
	bucket Bucket
	calls  int
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// tokens reads N or N+U: N tokens and U 2^-20ths of one.
func tokens(text string) uint64 {
	whole, part, more := strings.Cut(text, "+")
	if !more {
		part = "0"
	}
	return number(whole)*Token + number(part)
}

func shown(level uint64) string {
	if part := level % Token; part > 0 {
		return fmt.Sprintf("%d+%d", level/Token, part)
	}
	return fmt.Sprint(level / Token)
}

// make calls what the words say and tells what came of it.
func (p *player) make(words []string) string {
	var now uint64
	if words[0] == "at" {
		now, words = number(words[1]), words[2:]
	}
	value := func(key string) string {
		for _, word := range words {
			if found, yes := strings.CutPrefix(word, key+"="); yes {
				return found
			}
		}
		panic("no " + key)
	}
	p.calls++
	var err error
	switch words[0] {
	case "take":
		var release uint64
		if release, err = p.bucket.Take(number(words[1]), now); err == nil {
			return fmt.Sprintf("release=%d", release)
		}
	case "admit":
		if p.bucket.Admit(number(words[1]), now) {
			return "yes"
		}
		return "no"
	default:
		num, den, _ := strings.Cut(value("rate"), "/")
		rate, burst := Rate{number(num), number(den)}, tokens(value("burst"))
		if words[0] == "set" {
			err = p.bucket.Set(rate, burst, now)
		} else {
			var fresh Bucket
			if fresh, err = New(rate, burst, tokens(value("fill")), now); err == nil {
				p.bucket = fresh
			}
		}
	}
	if err != nil {
		return "refused=" + refusals[err]
	}
	return "ok"
}

func (p *player) state(key string) string {
	switch key {
	case "at":
		return fmt.Sprint(p.bucket.at)
	case "fill":
		return shown(p.bucket.level)
	case "rest":
		return fmt.Sprint(p.bucket.rest)
	}
	panic(key)
}

func (p *player) play(t *testing.T, name, transcript string) {
	for at, line := range strings.Split(transcript, "\n") {
		line, _, _ = strings.Cut(line, "#")
		call, expected, _ := strings.Cut(line, "->")
		words, wanted := strings.Fields(call), strings.Fields(expected)
		if len(words) == 0 {
			continue
		}
		result := p.make(words)
		for _, word := range wanted {
			got := result
			if key, _, state := strings.Cut(word, "="); state && (key == "at" || key == "fill" || key == "rest") {
				got = key + "=" + p.state(key)
			}
			if got != word {
				t.Fatalf("%s:%d: got %s, expected %s: %s", name, at+1, got, word, line)
			}
		}
	}
}

// The same transcripts as the C core, native and in the kernel (policy/check-bucket.sh), give the same here.
func TestTheTranscriptsOfTheCore(t *testing.T) {
	files, err := filepath.Glob(policy + "/transcripts/bucket/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatal("no transcripts", files, err)
	}
	calls := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := player{}
		p.play(t, file, string(text))
		calls += p.calls
	}
	parts := [][]string{{"law", "2026", "2000"}, {"drift", "1000000"}}
	if testing.Short() {
		parts = [][]string{{"law", "2026", "600"}, {"drift", "100000"}}
	}
	for _, part := range parts {
		text, err := exec.Command("python3", append([]string{policy + "/tests/bucket.py"}, part...)...).Output()
		if err != nil {
			t.Fatal("bucket.py", part, err)
		}
		p := player{}
		p.play(t, part[0], string(text))
		calls += p.calls
	}
	fmt.Printf("bucket: %d transcripts, %d calls as expected\n", len(files)+2, calls)
}
