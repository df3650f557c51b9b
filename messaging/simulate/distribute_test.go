// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

// scenario is a topic and brokers at random, played in virtual time.
type scenario struct {
	kind      distribute.Kind
	all       []distribute.Publisher
	brokers   []distribute.Broker
	truth     map[string]Broker
	traffic   Traffic
	bucket    wire.Share
	objective float64
	seed      uint64
}

func chance(random *rand.Rand, seed uint64) scenario {
	groups := []int{0, 0, 3, 5, 10}
	s := scenario{kind: distribute.Kind(random.IntN(4)), seed: seed, objective: 1e-3 * float64(1+random.IntN(5)), truth: map[string]Broker{},
		all:     publishers(20+random.IntN(80), groups[random.IntN(len(groups))], 5+float64(random.IntN(20))),
		traffic: Traffic{Batch: 1 + random.IntN(5), Periodic: random.IntN(2) == 0}}
	rate := 0.0
	for _, p := range s.all {
		rate += p.Rate
	}
	depth := Depth(s.sends(s.all), s.traffic.Batch, 1.1*rate, .99) + uint64(random.IntN(20))
	s.bucket = wire.Share{Rate: uint64(1.1 * rate * wire.Unit), Depth: depth * wire.Unit}
	for n := range 1 + random.IntN(9) {
		id := string(rune('a' + n))
		s.truth[id] = Broker{Cores: 1 + random.IntN(2), Message: 1e3 * float64(5+random.IntN(100)), Wake: 1e3 * float64(random.IntN(100)), Base: 1e5, Jitter: 3e4}
		s.brokers = append(s.brokers, distribute.Broker{ID: id, Capacity: rate * (.2 + random.Float64()*2), Existing: rate * .1 * random.Float64()})
	}
	return s
}

func (s scenario) sends(some []distribute.Publisher) []uint64 {
	return s.traffic.Sends(some, 4*time.Second, s.seed)
}

func (s scenario) measure(t *testing.T, plan []string) map[string]float64 {
	on, tails := map[string][]distribute.Publisher{}, map[string]float64{}
	for n, id := range plan {
		on[id] = append(on[id], s.all[n])
	}
	for _, b := range s.brokers {
		if len(on[b.ID]) == 0 {
			continue
		}
		share := Part(s.bucket, float64(len(on[b.ID]))/float64(len(s.all)))
		if share.Depth < wire.Unit {
			tails[b.ID] = 1e9
			continue
		}
		found, err := s.truth[b.ID].Play(s.sends(on[b.ID]), s.traffic.Batch, &share, Others{b.Existing, 10}, s.seed)
		if err != nil {
			t.Fatal(err)
		}
		tails[b.ID] = found.Percentile(.99).Seconds()
	}
	return tails
}

// LoadDist ends, within so many rounds as searches can take; if it is done, every publisher is at a broker and the
// objective is kept in a second simulation; if not, it says how much is missing. With fast brokers that have room for all,
// no publisher is left.
func TestLoadDistEndsAndKeepsTheObjective(t *testing.T) {
	runs := uint64(3000)
	if testing.Short() {
		runs = 200
	}
	done, short, searched, steps, over := 0, 0, 0, 0, 0
	for run := range runs {
		random := rand.New(rand.NewPCG(run, 13))
		s := chance(random, run)
		session := distribute.New(s.kind, s.all, s.brokers, run)
		if random.IntN(2) == 0 {
			session.Guess(func(b distribute.Broker, some []distribute.Publisher, part float64) float64 {
				return float64(len(some)) / float64(len(s.all)) * random.Float64() * 4 * s.objective
			}, s.objective)
		}
		if s.overloaded(t) {
			over++
		}
		rounds, err := 0, error(nil)
		for !session.Settled() || !session.Done() {
			if session.Settled() {
				if err = session.Assign(); err != nil {
					break
				}
			}
			s.within(t, run, session.Plan())
			if len(session.Rounds()) > 0 && session.Rounds()[len(session.Rounds())-1] > 0 {
				steps++
			}
			session.Measured(s.measure(t, session.Plan()), s.objective)
			if rounds++; rounds > 400 {
				t.Fatalf("run %d: no end", run)
			}
		}
		missing := &distribute.Short{}
		switch {
		case err == nil:
			done++
			if len(session.Rounds()) > 1 {
				searched++
			}
			for n, id := range session.Plan() {
				if id == "" {
					t.Fatalf("run %d: publisher %d has no broker", run, n)
				}
			}
			for id, tail := range s.measure(t, session.Plan()) {
				if tail > s.objective && s.kind != distribute.LB {
					t.Errorf("run %d: broker %s has %v, promised %v", run, id, tail, s.objective)
				}
			}
		case errors.As(err, &missing) && missing.Missing > 0:
			short++
			if s.ample(t) {
				t.Errorf("run %d: %v, though one broker can take all", run, err)
			}
		default:
			t.Fatalf("run %d: %v", run, err)
		}
	}
	fmt.Printf("simulate: %d done, %d of them after a search; %d short; %d steps of searches; %d worlds with every broker slower than it says\n", done, searched, short, steps, over)
	if done < int(runs)/10 || short < int(runs)/20 || searched < int(runs)/50 || steps < int(runs)/4 || over < int(runs)/50 {
		t.Error("the interesting cases did not come up")
	}
}

// within says that a plan, also one that is only to be measured, gives no broker more than it says that it can take.
func (s scenario) within(t *testing.T, run uint64, plan []string) {
	t.Helper()
	if s.kind == distribute.LB { // it looks at nothing
		return
	}
	on := map[string]float64{}
	for n, id := range plan {
		on[id] += s.all[n].Rate
	}
	for _, b := range s.brokers {
		if room := b.Capacity - b.Existing; on[b.ID] > room*(1+1e-9) {
			t.Fatalf("run %d, %v: %s is to have %.1f messages a second, and says that it can take %.1f", run, s.kind, b.ID, on[b.ID], room)
		}
	}
}

// overloaded says whether no broker keeps the objective with what it says that it can take.
func (s scenario) overloaded(t *testing.T) bool {
	for _, b := range s.brokers {
		plan, room := make([]string, len(s.all)), b.Capacity-b.Existing
		for n, p := range s.all {
			if room -= p.Rate; room >= 0 {
				plan[n] = b.ID
			}
		}
		if s.measure(t, plan)[b.ID] <= s.objective {
			return false
		}
	}
	return true
}

// ample says whether each broker alone has room for the whole topic, and keeps the objective with it.
func (s scenario) ample(t *testing.T) bool {
	rate := 0.0
	for _, p := range s.all {
		rate += p.Rate
	}
	for _, b := range s.brokers {
		plan := make([]string, len(s.all))
		for n := range plan {
			plan[n] = b.ID
		}
		if b.Capacity-b.Existing < rate || s.measure(t, plan)[b.ID] > s.objective {
			return false
		}
	}
	return true
}
