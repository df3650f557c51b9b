// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"giusto.dev/messaging/gate"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/wire"
)

const faults, calm = 5 * time.Second, 17 * time.Second

// newWorld draws machines, publishers and a topic that its publishers keep to.
func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 13)), cut: map[[2]string]bool{}, counts: map[string]int{}, faulty: true}
	w.lease = w.between(1500*time.Millisecond, 3*time.Second)
	w.store = &shelf{node: w.node("store"), records: map[string][]byte{}}
	w.store.drift = 0
	w.store.tick()
	for n := range 1 + w.random.IntN(3) {
		d := &distributor{node: w.node(fmt.Sprint("d", n))}
		w.leaders = append(w.leaders, d)
		d.later(w.between(0, 100*time.Millisecond), d.tick)
	}
	for n := range 1 + w.random.IntN(4) {
		b := &station{node: w.node(fmt.Sprint("b", n)), holder: &holder.Holder{}, gate: &gate.Gate[time.Duration]{}}
		w.brokers = append(w.brokers, b)
		b.later(w.between(0, 300*time.Millisecond), b.start)
	}
	total := 0.0
	for n := range 1 + w.random.IntN(8) {
		s := &sender{node: w.node(fmt.Sprint("s", n)), id: fmt.Sprint("p", n), group: fmt.Sprint(n % 3), rate: 2 + 8*w.random.Float64(), managed: true}
		if w.random.IntN(10) == 0 {
			s.managed, s.at = false, w.brokers[w.random.IntN(len(w.brokers))]
		}
		total += s.rate
		w.senders = append(w.senders, s)
		s.later(w.between(0, time.Second), s.start)
	}
	// Depth for a burst, and a token for each broker.
	depth := float64(len(w.brokers)) + 3 + 10*w.random.Float64()
	headroom := 1.7 + w.random.Float64()
	if w.greedy = w.random.IntN(2) == 0; w.greedy {
		headroom = 0.3 + 0.3*w.random.Float64()
		w.counts["publishers beyond the bucket"]++
	}
	w.topic = wire.Topic{Name: "t", Share: wire.Share{Rate: uint64(total * headroom * wire.Unit), Depth: uint64(depth * wire.Unit)},
		Percentile: 0.9, Objective: w.between(5*time.Millisecond, 500*time.Millisecond), Each: 5}
	return w
}

// trouble makes one thing go wrong, for a while.
func (w *world) trouble() {
	nodes := []*node{&w.store.node}
	for _, d := range w.leaders {
		nodes = append(nodes, &d.node)
	}
	for _, b := range w.brokers {
		nodes = append(nodes, &b.node)
	}
	for _, s := range w.senders {
		nodes = append(nodes, &s.node)
	}
	one, other := nodes[w.random.IntN(len(nodes))], nodes[w.random.IntN(len(nodes))]
	length := w.between(50*time.Millisecond, 2500*time.Millisecond)
	if w.random.IntN(4) == 0 {
		length += w.lease
	}
	switch w.random.IntN(6) {
	case 0:
		w.counts["broker killed"]++
		b := w.brokers[w.random.IntN(len(w.brokers))]
		w.kill(&b.node, length, func() {
			b.replaces = fmt.Sprint(b.life - 1)
			if w.random.IntN(3) == 0 {
				b.replaces = "" // another machine: nobody can say that the old one is dead
				w.counts["broker without its past"]++
			}
			b.start()
		})
	case 1:
		w.counts["distributor killed"]++
		d := w.leaders[w.random.IntN(len(w.leaders))]
		w.kill(&d.node, length, func() {
			d.control, d.valid, d.waiting = nil, 0, nil
			d.tick()
		})
	case 2:
		w.counts["asleep"]++
		one.asleep = max(one.asleep, w.now+length)
	case 3:
		w.counts["cut one way"]++
		w.part(one, other, length)
	case 4:
		w.counts["cut both ways"]++
		w.part(one, other, length)
		w.part(other, one, length)
	case 5:
		if d := w.leading(); d != nil && d.control.topics["t"] != nil {
			w.counts["another bucket"]++
			spec := w.topic
			spec.Rate -= uint64(w.random.Int64N(int64(spec.Rate / 10)))
			spec.Depth -= uint64(w.random.Int64N(int64(spec.Depth / 10)))
			d.control.Put(d.clock(), spec)
			d.answer()
		}
	}
}

func (w *world) kill(n *node, length time.Duration, start func()) {
	if n.dead {
		return
	}
	n.dead = true
	w.after(length, func() {
		n.dead, n.asleep = false, 0
		n.life++
		start()
	})
}

func (w *world) part(from, to *node, length time.Duration) {
	ends := [2]string{from.name, to.name}
	w.cut[ends] = true
	w.after(length, func() { delete(w.cut, ends) })
}

func (w *world) leading() *distributor {
	for _, d := range w.leaders {
		if !d.dead && d.control != nil && d.leads() {
			return d
		}
	}
	return nil
}

// play runs a world through its troubles and a while after, and says what was not as it must be.
func (w *world) play() (wrong []string) {
	say := func(form string, words ...any) { wrong = append(wrong, fmt.Sprintf(form, words...)) }
	for range 1 + w.random.IntN(8) {
		w.after(w.between(0, faults), w.trouble)
	}
	w.run(faults)
	w.faulty = false
	w.run(faults + calm)
	for _, s := range w.senders {
		s.stopped = true
	}
	w.run(faults + calm + 3*time.Second)

	// The law, by the rate of the fastest clock.
	slices.Sort(w.passed)
	level, last, depth := float64(w.topic.Depth)/wire.Unit, time.Duration(0), float64(w.topic.Depth)/wire.Unit
	for n, at := range w.passed {
		level = min(depth, level+(at-last).Seconds()*float64(w.topic.Rate)/wire.Unit*1.0041) - 1
		if last = at; level < -1e-4 {
			say("release %d at %v is %.3f tokens beyond the bucket of %.2f/s and %.2f", n, at, -level, float64(w.topic.Rate)/wire.Unit, depth)
			break
		}
	}
	d := w.leading()
	if d == nil {
		say("nobody leads")
		return wrong
	}
	for _, b := range w.brokers {
		if w.greedy {
			break
		}
		if kept := b.gate.Kept(); kept > 0 {
			share, _ := d.control.topics["t"].book.Current(d.control.brokers[b.name].holder())
			say("%s starves %d messages, with a share of %.2f/s and %.2f", b.name, kept, float64(share.Rate)/wire.Unit, float64(share.Depth)/wire.Unit)
		}
	}
	late := 0
	for _, p := range w.waits {
		if !w.greedy && p.sent > faults+calm-2*time.Second && p.passed-p.sent > 3*time.Second {
			late++
		}
	}
	if late > 0 {
		say("%d messages waited for more than three seconds long after all was well", late)
	}
	for _, s := range w.senders {
		if !s.managed {
			continue
		}
		p := d.control.topics["t"].publishers[s.id]
		if p == nil || s.at == nil {
			say("%s is nowhere", s.id)
		} else if p.at != s.at.name || d.control.now-p.wished > w.settings().Prepare+2*w.settings().Move && (p.told != p.at || p.to != p.told) {
			say("%s is at %s, and the distributor says at %s, told %s, to %s since %v", s.id, s.at.name, p.at, p.told, p.to, d.control.now-p.wished)
		}
	}
	return wrong
}

// Over random runs of the distributor, the shares' adaptor, brokers and their network: what all brokers release in any [s, t] is at most
// b + r(t − s); a topic that keeps to its bucket does not starve once the faults are over; every migration ends.
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
				released += len(w.passed)
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
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("distributor:   %s %d\n", name, counts[name])
		if counts[name] < runs/100 {
			t.Errorf("%s occurred only %d times", name, counts[name])
		}
	}
}
