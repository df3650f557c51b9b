// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// depth of a topic, as nsqadmin reads it; -1: it is not there.
func depth(t *testing.T, http, topic string) int {
	t.Helper()
	var stats struct {
		Topics []struct {
			Name     string `json:"topic_name"`
			Depth    int    `json:"depth"`
			Channels []struct {
				Depth int `json:"depth"`
			} `json:"channels"`
		} `json:"topics"`
	}
	answer := get(t, http, "/stats?format=json&topic="+topic)
	if err := json.Unmarshal([]byte(answer), &stats); err != nil {
		t.Fatal(err, answer)
	}
	for _, one := range stats.Topics {
		if one.Name == topic {
			sum := one.Depth
			for _, c := range one.Channels {
				sum += c.Depth
			}
			return sum
		}
	}
	return -1
}

// What waits for tokens is in the depths that nsqadmin shows, and goes when the topic is emptied or deleted, wherever
// its limit is.
// textDepth is the same as /stats tells people.
func textDepth(t *testing.T, address, topic string) (depth int) {
	t.Helper()
	text := get(t, address, "/stats?topic="+topic)
	lines := regexp.MustCompile(`\[(\S+) *\] depth: (\d+) +be-depth: `).FindAllStringSubmatch(text, -1)
	if len(lines) != 2 || lines[0][1] != topic || lines[1][1] != "test" {
		t.Error(text)
	}
	for _, line := range lines {
		n, _ := strconv.Atoi(line[2])
		depth += n
	}
	return depth
}

func TestOperatorsSeeAndThrowAwayWhatWaits(t *testing.T) {
	for _, limit := range []string{"publishing", "delivery"} {
		b := start(t, "topics: {a: {rate: 2/s, depth: 5, limit: "+limit+"}}")
		address, http := b.Addr().String(), b.HTTPAddr().String()
		for _, way := range []string{"/topic/empty", "/topic/delete"} {
			r := record(t, func() string { return address }, "a", "test", 1, 10)
			before := r.count()
			supply(t, address, "a", "x", 60)
			seen := depth(t, http, "a")
			if came := r.count() - before; seen < 59-came-5 || seen > 60 {
				t.Errorf("%s: depth %d of 60, %d came", limit, seen, came)
			}
			if limit == "delivery" && way == "/topic/empty" {
				way = "/channel/empty" // as with nsqd: a channel's messages are the channel's
			}
			if text, now := textDepth(t, http, "a"), depth(t, http, "a"); text < now || text > seen {
				t.Errorf("%s: depth %d in text, %d before and %d after in JSON", limit, text, seen, now)
			}
			if answer := post(t, http, way+"?topic=a&channel=test", ""); answer != "200 " {
				t.Error(answer)
			}
			time.Sleep(50 * time.Millisecond)
			before = r.count()
			time.Sleep(1200 * time.Millisecond)
			if came := r.count() - before; came > 0 {
				t.Errorf("%s: %d came after %s", limit, came, way)
			}
			if left := depth(t, http, "a"); left > 0 {
				t.Errorf("%s: depth %d after %s", limit, left, way)
			}
			r.stop()
		}
		// It goes on.
		r := record(t, func() string { return address }, "a", "test", 1, 10)
		supply(t, address, "a", "y", 2)
		settled(t, "messages lacking", 0, func() int { return 2 - r.count() })
		r.stop()
		b.Stop()
	}
}
