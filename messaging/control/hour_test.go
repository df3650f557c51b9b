// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// An hour in which nothing stands still: every six minutes a broker is cut off for two, every ten one is drained for
// three, every ten seconds one in a thousand publishers leaves and one comes back, and the tail of one topic in twenty
// is just above its objective, wherever its publishers are: of half of them always, of the others by half minutes at
// random. Of the other topics a publisher moves when its broker is cut off or drained, and seldom else; those of the
// restless ones are tried again, mostly since brokers come and go. All brokers together have 60 % of what they can take,
// and none is told more than that, but for one publisher that waits for room. GIUSTO_BROKERS=100 GIUSTO_TOPICS=10000
// is 100,000 publishers, and takes half an hour.
func TestMovesOfAnHourAreFew(t *testing.T) {
	number := func(name string, usual int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return usual
	}
	w := newCrowd(t, number("GIUSTO_BROKERS", 8), number("GIUSTO_TOPICS", 60))
	if os.Getenv("GIUSTO_SOAK") == "1" && os.Getenv("GIUSTO_TOPICS") == "" {
		w.brokers, w.topics = 10, 1000
	}
	w.capacity = float64(w.topics*w.each*10) / 0.6 / float64(w.brokers)
	random := rand.New(rand.NewPCG(29, 1))
	restless := func(topic int) bool { return topic%20 == 7 }
	hopeless := func(topic int) bool { return topic%40 == 7 }
	bad := map[int]bool{} // in this half minute
	fine, below, above := bins(t, 10*time.Millisecond), bins(t, 900*time.Millisecond), bins(t, 1100*time.Millisecond)
	w.delivery = func(name string) wire.Histogram {
		n, _ := strconv.Atoi(name[1:])
		switch {
		case !restless(n):
			return fine
		case bad[n]:
			return above
		}
		return below
	}
	w.c = New(Defaults(), 0, 1, nil)
	w.reports()
	w.put()
	w.reports()
	w.run(240) // they are planned, and measured
	w.moves, w.moved = 0, map[int]int{}
	told, events := 0, 0 // publishers of brokers that were cut off or drained
	at := func(id string) (count int) {
		for _, one := range w.at {
			if one == id {
				count++
			}
		}
		return count
	}
	for second := range 3600 {
		one := fmt.Sprint("b", random.IntN(w.brokers))
		switch {
		case second%360 == 0:
			w.lost[one] = true
			told, events = told+at(one), events+1
		case second%360 == 120:
			clear(w.lost)
		case second%600 == 200:
			w.c.Drain(w.now, one, true)
			told, events = told+at(one), events+1
		case second%600 == 380:
			for id := range w.c.drained {
				w.c.Drain(w.now, id, false)
			}
		}
		if second%30 == 0 {
			for n := range w.topics {
				bad[n] = hopeless(n) || restless(n) && random.IntN(2) == 0
			}
		}
		if second%10 == 0 {
			for who := range w.away {
				delete(w.away, who)
			}
			for range max(1, w.topics*w.each/1000) {
				who := [2]int{random.IntN(w.topics), random.IntN(w.each)}
				if id := w.at[who]; id != "" {
					w.load[id][fmt.Sprint("t", who[0])] -= 10
					delete(w.at, who)
				}
				w.away[who] = true
			}
		}
		w.run(1)
		if most := w.fullest(); most > 1+10.1/w.capacity { // one that waits for room that others are to make goes before them
			t.Fatalf("%v: a broker has %.4f of its capacity", w.now, most)
		}
	}
	calm, hurried, most := 0, 0, 0
	for n, moves := range w.moved {
		if restless(n) {
			hurried += moves
			if hopeless(n) {
				most += moves
			}
		} else {
			calm += moves
		}
	}
	few, all := w.topics/20*w.each, w.topics*w.each
	fmt.Printf("control: an hour of %d brokers, %d topics, %d publishers: %d brokers cut off or drained with %d publishers; ",
		w.brokers, w.topics, all, events, told)
	fmt.Printf("%d moves of topics within their objective (%.2f of those), %d of the %d publishers of restless topics (%.1f each), ",
		calm, float64(calm)/float64(max(told, 1)), hurried, few, float64(hurried)/float64(max(few, 1)))
	fmt.Printf("%d of those that no plan helps\n", most)
	if calm > 2*told || hurried > 60*few {
		t.Errorf("more than two moves for a publisher of a broker that was cut off or drained, or than 60 of one of a restless topic")
	}
}

// bins is a hundred messages, half of which took so long.
func bins(t *testing.T, tail time.Duration) wire.Histogram {
	h := wire.Histogram{}
	for bin := range 1500 {
		if h = (wire.Histogram{0: 50, bin: 50}); h.Percentile(.99) >= tail {
			return h
		}
	}
	t.Fatal(tail)
	return nil
}
