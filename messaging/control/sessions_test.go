// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"giusto.dev/messaging/distribute"
)

// Each session of a topic is a search: rounds of measurements, and moves. What becomes of a broker begins one in the
// topics that are there, or that could not be kept without it, and in no other.
func TestOnlyTopicsConcernedAreSearchedForAnew(t *testing.T) {
	w := newCrowd(t, 5, 60)
	w.capacity = float64(w.topics*w.each*10) / 0.6 / float64(w.brokers)
	settings := Defaults()
	settings.Round, settings.Calm, settings.Prepare = 3*time.Second, 0, 10*time.Second
	sessions, last := map[string]int{}, map[string]*distribute.Session{}
	run := func(seconds int) { // a session takes a round at least
		for range seconds {
			w.run(1)
			for name, topic := range w.c.topics {
				if topic.session != nil && topic.session != last[name] {
					sessions[name]++
				}
				last[name] = topic.session
			}
		}
	}
	w.c = New(settings, 0, 1, nil)
	w.reports()
	w.put()
	w.reports()
	run(30)
	w.flow("planned")
	one := func() string {
		for _, id := range w.at {
			return id
		}
		return ""
	}
	there := func(id string) []string {
		found := map[string]bool{}
		for who, at := range w.at {
			if at == id {
				found[fmt.Sprint("t", who[0])] = true
			}
		}
		return slices.Sorted(maps.Keys(found))
	}
	for _, event := range []struct {
		name      string
		concerned func(id string) []string
		do        func(id string)
	}{
		{"is drained", there, func(id string) { w.c.Drain(w.now, id, true) }},
		{"is drained no more", nil, func(string) {
			for id := range w.c.drained {
				w.c.Drain(w.now, id, false)
			}
		}},
		{"is silent", there, func(id string) { w.lost[id] = true }},
		{"is back", nil, func(string) { clear(w.lost) }},
		{"is dead", there, func(id string) {
			w.lost[id] = true
			w.c.Dead(w.now, id)
		}},
		{"is a new one", nil, func(string) {
			w.brokers++
			w.report(fmt.Sprint("b", w.brokers-1))
		}},
		{"has a topic less", nil, func(string) {
			w.c.Remove(w.now, "t59")
			w.topics--
			for who := range w.at {
				if who[0] == 59 {
					delete(w.at, who)
				}
			}
			for _, load := range w.load {
				delete(load, "t59")
			}
		}},
	} {
		id, concerned := one(), []string{}
		if event.concerned != nil {
			concerned = event.concerned(id)
		}
		clear(sessions)
		event.do(id)
		run(30)
		begun := slices.Sorted(maps.Keys(sessions))
		total := 0
		for _, count := range sessions {
			total += count
		}
		fmt.Printf("control: a broker %s: %d topics concerned, %d sessions in %d of %d topics\n", event.name, len(concerned), total,
			len(begun), w.topics)
		if !slices.Equal(begun, concerned) || total > 2*len(concerned) {
			t.Errorf("a broker %s: %d sessions, in %v, expected in %v", event.name, total, begun, concerned)
		}
		if event.concerned != nil && len(there(id)) > 0 {
			t.Errorf("a broker %s, and these topics are still there: %v", event.name, there(id))
		}
		w.flow(event.name) // the sessions together put no broker above its capacity
	}
}
