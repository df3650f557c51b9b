// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// kinds are what must have occurred in the sample.
var kinds = []string{"gap that is promised",
	"another bucket", "another lease", "another leads behind a broker's back", "asleep", "asleep with a message on its way",
	"broker killed", "broker without its past",
	"cut both ways", "delivered", "not let in any more", "orders wait for what enters", "cut for longer than it takes to be forgotten", "cut one way", "distributor killed", "drained, or not any more", "far smaller bucket",
	"fenced", "late", "late orders", "leaders", "limits taken away", "long", "lost", "moves", "only what changed",
	"passed without limit", "publishers beyond the bucket",
	"put again", "put refused", "releases of a smaller bucket", "removed", "report refused", "save failed", "save late", "save slow", "second topic",
	"shares changed", "shares from nothing", "spare broker at a takeover", "two brokers of a name"}

// play runs a world through its troubles and a while after, and says what was not as it must be.
func (w *world) play() (wrong []string) {
	say := func(form string, words ...any) { wrong = append(wrong, fmt.Sprintf(form, words...)) }
	for range 1 + w.random.IntN(8) {
		w.after(w.between(0, faults), w.trouble)
	}
	w.run(faults)
	w.faulty = false
	w.run(w.end)
	for _, s := range w.senders {
		s.stopped = true
	}
	w.run(w.end + 3*time.Second)

	for _, t := range w.topics {
		if text := t.law(); text != "" {
			wrong = append(wrong, text)
		}
	}
	if n := w.counts["stale orders"]; n > 0 {
		say("%d times a broker got orders older than those that it had", n)
	}
	if n := w.counts["changes of other orders"]; n > 0 {
		say("%d times a broker was told what changed in orders that it did not have", n)
	}
	if w.counts["unknown leases"] > 0 {
		say("a broker had orders in force that the leader did not know of")
	}
	d := w.leading()
	if d == nil {
		say("no distributor leads")
		return wrong
	}
	for _, t := range w.topics {
		if !t.greedy && d.control.topics[t.name] != nil {
			w.starved(d, t, say)
		}
	}
	for _, s := range w.senders {
		if s.managed {
			w.settled(d, s, say)
		}
	}
	return wrong
}

// starved says what waits of a topic whose publishers keep to its bucket.
func (w *world) starved(d *distributor, t *story, say func(string, ...any)) {
	for _, b := range w.brokers {
		if l := b.lines[t]; l.kept() > 0 {
			share, _ := d.control.topics[t.name].book.Current(key(b.id, b.incarnation()))
			say("%s: %s starves %d messages, with a share of %.2f/s and %.2f", t.name, b.name, l.kept(), float64(share.Rate)/wire.Unit, float64(share.Depth)/wire.Unit)
		}
	}
	late := 0
	for _, p := range t.waits {
		if p.sent > w.end-2*time.Second && p.passed-p.sent > 3*time.Second && !t.busy(p, d.control.topics[t.name].spec.Rate) {
			late++
		}
	}
	if late > 0 {
		say("%s: %d messages waited for more than three seconds long after all was well, and the bucket was not in use", t.name, late)
	}
}

// settled says what is wrong with a publisher's place, and whether it goes to and fro: a session in which no publisher
// comes or goes makes it move a few times, and when it finds no plan the next begins after ten rounds.
func (w *world) settled(d *distributor, s *sender, say func(string, ...any)) {
	t := d.control.topics[s.topic.name]
	if t == nil {
		return // it was removed
	}
	p := t.publishers[s.id]
	if p == nil || s.at == nil {
		say("%s is nowhere", s.name)
		return
	}
	moving := d.control.now-p.wished <= prepare+2*move
	if moving && s.at.id != p.at && s.at.id != p.told || !moving && (s.at.id != p.at || p.told != p.at || p.to != p.told) {
		say("%s is at %s, and the distributor says at %s, told %s, to %s since %v", s.name, s.at.name, p.at, p.told, p.to, d.control.now-p.wished)
	}
	late := 0
	for _, at := range s.moves {
		if at > faults+settling {
			late++
		}
	}
	if late > 16 {
		say("%s moved %d times after all was well", s.name, late)
	}
}

// Over random runs of the distributor, the shares' adaptor, brokers and their network: what all brokers release in any [s, t] is at most
// b + r(t − s), of the bucket that is in effect, whatever was in effect before; a topic that keeps to its bucket does not starve once the
// faults are over; every migration ends.
// GIUSTO_RUNS says how many runs, GIUSTO_SEED which is the first.
func TestNoFaultBreaksTheLaw(t *testing.T) {
	runs, first := 100_000, 1
	if testing.Short() {
		runs = 1000
	}
	if n, err := strconv.Atoi(os.Getenv("GIUSTO_RUNS")); err == nil {
		runs = n
	}
	if n, err := strconv.Atoi(os.Getenv("GIUSTO_SEED")); err == nil {
		first = n
	}
	counts, failed, released := map[string]int{}, 0, 0
	var mutex sync.Mutex
	var workers sync.WaitGroup
	next := first
	for range runtime.NumCPU() {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				mutex.Lock()
				seed := next
				next++
				stop := seed >= first+runs || failed >= 5
				mutex.Unlock()
				if stop {
					return
				}
				w := newWorld(uint64(seed))
				wrong := w.play()
				mutex.Lock()
				for name, count := range w.counts {
					counts[name] += count
				}
				for _, t := range w.topics {
					released += len(t.released)
				}
				for _, text := range wrong {
					t.Errorf("seed %d: %s", seed, text)
				}
				failed += min(1, len(wrong))
				mutex.Unlock()
			}
		}()
	}
	workers.Wait()
	fmt.Printf("distributor: %d random runs, %d releases\n", runs, released)
	for _, name := range kinds {
		fmt.Printf("distributor:   %s %d\n", name, counts[name])
		if runs >= 1000 && counts[name] < runs/100 {
			t.Errorf("%s occurred only %d times", name, counts[name])
		}
	}
}
