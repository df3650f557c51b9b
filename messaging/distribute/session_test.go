// SPDX-License-Identifier: Apache-2.0

package distribute

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func many(count int, rate float64, group func(int) string) []Publisher {
	publishers := make([]Publisher, count)
	for n := range publishers {
		publishers[n] = Publisher{ID: fmt.Sprint(n), Group: group(n), Rate: rate}
	}
	return publishers
}

func alone(int) string { return "" }

// loads are the messages a second at each broker under a plan.
func loads(publishers []Publisher, plan []string) map[string]float64 {
	sum := map[string]float64{}
	for n, b := range plan {
		sum[b] += publishers[n].Rate
	}
	return sum
}

// Appendix A's example: 25k and 10k of room for 30k. The first pass gives 15k and 10k, the second the 5k that are left.
func TestThePapersExample(t *testing.T) {
	publishers := many(3000, 10, alone)
	s := New(MaxMin, publishers, []Broker{{"small", 10_000, 0}, {"large", 30_000, 5_000}}, 1)
	if err := s.Assign(); err != nil {
		t.Fatal(err)
	}
	if got := loads(publishers, s.Plan()); got["large"] != 20_000 || got["small"] != 10_000 {
		t.Error(got)
	}
}

// Fig. 2.8's brokers and a topic of 80k: Conc makes total loads alike, which leaves the third less of the topic than it has room for.
func TestConcLeavesALittleWhereMaxMinDoesNot(t *testing.T) {
	publishers := many(8000, 10, alone)
	brokers := []Broker{{"1", 62_000, 10_000}, {"2", 62_000, 40_000}, {"3", 62_000, 50_000}, {"4", 62_000, 60_000}}
	for kind, wanted := range map[Kind]map[string]float64{
		Conc:   {"1": 50_000, "2": 20_000, "3": 10_000}, // (80 + 10 + 40 + 50) / 3 = 60k each
		MaxMin: {"1": 46_000, "2": 22_000, "3": 12_000},
		LB:     {"1": 20_000, "2": 20_000, "3": 20_000, "4": 20_000},
	} {
		s := New(kind, publishers, brokers, 1)
		if err := s.Assign(); err != nil {
			t.Fatal(err)
		}
		got := loads(publishers, s.Plan())
		for id, rate := range wanted {
			if math.Abs(got[id]-rate) > 20 {
				t.Errorf("%v: %s has %v, expected %v", kind, id, got[id], rate)
			}
		}
	}
}

// layers are how many of each group a broker has: whole where all have as many.
func layers(publishers []Publisher, plan []string) (of map[string]int, whole bool) {
	has := map[string]map[string]int{}
	groups := map[string]bool{}
	for n, b := range plan {
		if has[b] == nil {
			has[b] = map[string]int{}
		}
		has[b][publishers[n].Group]++
		groups[publishers[n].Group] = true
	}
	of, whole = map[string]int{}, true
	for b, counts := range has {
		for group := range groups {
			whole = whole && counts[group] == counts[publishers[0].Group]
		}
		of[b] = counts[publishers[0].Group]
	}
	return of, whole
}

// Appendix A.1: each broker gets the same part of every group; 25 are split into 8, 8 and 9.
func TestGroupsAreSplitAsTheLoadIs(t *testing.T) {
	publishers := many(1000, 10, func(n int) string { return fmt.Sprint(n / 25) })
	s := New(SRTM, publishers, []Broker{{"a", 4_000, 0}, {"b", 4_000, 0}, {"c", 4_000, 0}}, 3)
	if err := s.Assign(); err != nil {
		t.Fatal(err)
	}
	of, whole := layers(publishers, s.Plan())
	for b, has := range of {
		if !whole || has < 8 || has > 9 {
			t.Errorf("%s has %d, whole: %v", b, has, whole)
		}
	}
}

// Half a broker's 450 would be rounded to five layers of 100 where there is room for four.
func TestNoLayerIsMoreThanThereIsRoomFor(t *testing.T) {
	publishers := many(100, 10, func(n int) string { return fmt.Sprint(n % 10) })
	s := New(SRTM, publishers, []Broker{{"a", 660, 0}, {"b", 450, 0}}, 1)
	if err := s.Assign(); err != nil {
		t.Fatal(err)
	}
	if of, whole := layers(publishers, s.Plan()); !whole || of["a"] != 6 || of["b"] != 4 {
		t.Error(of)
	}
}

// Where groups are of one size and brokers have room, all that is ever measured are whole layers; and where brokers can take so
// many of them, a plan is found.
func TestWholeLayersFindAPlan(t *testing.T) {
	found, searched := 0, 0
	for run := range 800 {
		random := rand.New(rand.NewPCG(17, uint64(run)))
		size, groups := 10+random.IntN(21), 2+random.IntN(40)
		publishers := many(size*groups, 10, func(n int) string { return fmt.Sprint(n % groups) })
		var brokers []Broker
		takes, sum := map[string]float64{}, 0
		for n := range 2 + random.IntN(6) {
			id := fmt.Sprint(n)
			brokers = append(brokers, Broker{id, 1e6 * (1 + random.Float64()), 0})
			takes[id] = float64(size) * (0.2 + random.Float64())
			sum += int(nearly * takes[id]) // from there FIT may end
		}
		s := New(SRTM, publishers, brokers, uint64(run))
		if random.IntN(2) == 0 {
			wrong := 0.7 + 0.6*random.Float64()
			s.Guess(func(b Broker, of []Publisher, _ float64) float64 {
				return wrong * float64(len(of)) / float64(groups) / takes[b.ID]
			}, 1)
		}
		var err error
		for err == nil && !s.Done() {
			for !s.Settled() {
				of, whole := layers(publishers, s.Plan())
				if !whole {
					t.Fatalf("run %d: parts of layers: %v", run, of)
				}
				tails := map[string]float64{}
				for b, has := range of {
					tails[b] = float64(has) / takes[b]
				}
				s.Measured(tails, 1)
				searched++
			}
			if !s.Done() {
				err = s.Assign()
			}
		}
		if err == nil {
			found++
		} else if sum >= size {
			t.Errorf("run %d: %v, though brokers take %d of %d layers", run, err, sum, size)
		}
	}
	if found < 400 || found == 800 || searched < 2000 {
		t.Errorf("not all kinds of topic occurred: %d found in %d rounds", found, searched)
	}
}

// Groups of two, of which no broker can take one each: they are searched one by one.
func TestALayerThatIsMuchOfTheTopicIsSplit(t *testing.T) {
	publishers := many(400, 10, func(n int) string { return fmt.Sprint(n % 200) })
	var brokers []Broker
	for n := range 5 {
		brokers = append(brokers, Broker{fmt.Sprint(n), 1e6, 0})
	}
	s := New(SRTM, publishers, brokers, 1)
	for !s.Done() {
		if err := s.Assign(); err != nil {
			t.Fatal(err)
		}
		for !s.Settled() {
			tails := map[string]float64{}
			for id, rate := range loads(publishers, s.Plan()) {
				tails[id] = rate / 1200
			}
			s.Measured(tails, 1)
		}
	}
}

// Line 9: where there is no room for all, what is missing is said, and nothing is changed.
func TestWhatIsMissingIsSaid(t *testing.T) {
	s := New(SRTM, many(100, 10, alone), []Broker{{"a", 500, 100}, {"b", 300, 0}}, 1)
	var short *Short
	if err := s.Assign(); !errors.As(err, &short) || math.Abs(short.Missing-300) > 1e-6 {
		t.Error(err)
	}
}

// Four of eight brokers have as much of a topic as they say that they can take, and can in truth take 60 %: the
// search puts no broker above what it says, uses all four spare brokers, and finds a plan.
func TestASearchSpreadsWhomItLeavesOut(t *testing.T) {
	publishers := many(400, 10, alone)
	var brokers []Broker
	for n := range 8 {
		brokers = append(brokers, Broker{fmt.Sprint(n), 1000, 0})
	}
	s := New(SRTM, publishers, brokers, 1)
	aside := map[string]bool{}
	for rounds := 0; !s.Settled() || !s.Done(); {
		if s.Settled() {
			if err := s.Assign(); err != nil {
				t.Fatal(err)
			}
		}
		tails := map[string]float64{}
		for id, rate := range loads(publishers, s.Plan()) {
			if tails[id] = rate / 600; rate > 1000 || id == "" {
				t.Fatalf("%q is to have %v messages a second", id, rate)
			}
			aside[id] = true
		}
		s.Measured(tails, 1)
		if rounds++; rounds > 60 {
			t.Fatal("no end")
		}
	}
	if len(aside) != 8 {
		t.Errorf("only %d brokers were used", len(aside))
	}
}

// Random topics on brokers of unknown true capacity: a session ends, assigns every publisher, moves no fixed one, keeps
// every broker within its true capacity, and says Short only where a broker is full.
func TestASessionEnds(t *testing.T) {
	sessions, short, guessed, searched, fixed := 3000, 0, 0, 0, 0
	for run := range sessions {
		random := rand.New(rand.NewPCG(11, uint64(run)))
		brokers := make([]Broker, 1+random.IntN(14))
		truth := map[string]float64{}
		for n := range brokers {
			b := Broker{fmt.Sprint("b", n), 1000 * (1 + random.Float64()), 900 * random.Float64()}
			brokers[n], truth[b.ID] = b, (b.Capacity-b.Existing)*(0.3+random.Float64())
		}
		groups := 1 + random.IntN(20)
		publishers := many(1+random.IntN(300), 1, func(n int) string { return fmt.Sprint(n % groups) })
		for n := range publishers {
			publishers[n].Rate = 1 + 9*random.Float64()
			if random.IntN(100) == 0 {
				publishers[n].Fixed = brokers[random.IntN(len(brokers))].ID
				fixed++
			}
		}
		kind := Kind(random.IntN(4))
		s := New(kind, publishers, brokers, uint64(run))
		measure := func() map[string]float64 {
			tails := map[string]float64{}
			for id, rate := range loads(publishers, s.Plan()) {
				tails[id] = rate / truth[id] // 1 is the objective
			}
			return tails
		}
		if random.IntN(2) == 0 {
			wrong := 0.5 + random.Float64()
			if s.Guess(func(b Broker, _ []Publisher, part float64) float64 { return wrong * part * s.rate / truth[b.ID] }, 1) {
				guessed++
			}
		}
		var err error
		measured := 0
		for err == nil && !s.Done() {
			for !s.Settled() {
				for n, id := range s.Plan() {
					if f := publishers[n].Fixed; f != "" && id != f {
						t.Fatalf("run %d: %d is fixed at %s and was put at %q", run, n, f, id)
					}
				}
				s.Measured(measure(), 1)
				if measured++; measured > 2000 {
					t.Fatalf("run %d: no end: %v", run, s.Rounds())
				}
			}
			if !s.Done() {
				err = s.Assign()
			}
		}
		if len(s.Rounds()) > 1 {
			searched++
		}
		if err != nil {
			short++
			full := 0
			for _, limit := range s.limit {
				if !math.IsInf(limit, 1) {
					full++
				}
			}
			room := 0.0
			for b := range brokers {
				room += s.residual(b)
			}
			if full == 0 && room > s.rate {
				t.Errorf("run %d: %v, and no broker is full", run, err)
			}
			continue
		}
		for n, id := range s.Plan() {
			if id == "" {
				t.Fatalf("run %d: %d is nowhere", run, n)
			}
		}
		if kind == LB {
			continue
		}
		stuck := map[string]float64{}
		for _, p := range publishers {
			stuck[p.Fixed] += p.Rate
		}
		for id, tail := range measure() {
			if tail > 1 && stuck[id] == 0 {
				t.Errorf("run %d, %v: %s has %.2f times what it can take", run, kind, id, tail)
			}
		}
	}
	fmt.Printf("distribute: %d sessions: %d without room, %d guessed by a model, %d searched, %d fixed publishers\n", sessions, short, guessed, searched, fixed)
	if short < 100 || guessed < 100 || searched < 100 || fixed < 100 {
		t.Error("not all kinds of session occurred")
	}
}

// Whole layers of groups, so that no share gets a larger burst than it has tokens for; and a search takes log2 of a group's size rounds.
func TestASearchGoesByLayersOfGroups(t *testing.T) {
	publishers := many(600, 10, func(n int) string { return fmt.Sprint(n / 30) })
	s := New(SRTM, publishers, []Broker{{"a", 1e6, 0}, {"b", 1e6, 0}}, 1)
	if err := s.Assign(); err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for ; !s.Settled(); rounds++ {
		on := map[string]int{}
		for n, b := range s.Plan() {
			if b == "a" {
				on[publishers[n].Group]++
			}
		}
		least, most := 30, 0
		for n := range 20 {
			least, most = min(least, on[fmt.Sprint(n)]), max(most, on[fmt.Sprint(n)])
		}
		if least != most {
			t.Errorf("round %d: %d to %d of a group", rounds, least, most)
		}
		s.Measured(map[string]float64{"a": float64(most) / 7.5, "b": 0}, 1)
	}
	if rounds > 6 {
		t.Errorf("%d rounds", rounds)
	}
}

func TestABrokerThatHasOnlyFixedPublishersShedsNone(t *testing.T) {
	publishers := many(3, 10, alone)
	for n := range publishers {
		publishers[n].Fixed = "a"
	}
	s := New(SRTM, publishers, []Broker{{"a", 100, 0}}, 1)
	s.Resume([]string{"a", "a", "a"})
	if err := s.Assign(); err != nil {
		t.Fatal(err)
	}
	for round := 0; !s.Settled(); round++ {
		if round > 3 {
			t.Fatal("no end")
		}
		s.Measured(map[string]float64{"a": 2}, 1)
	}
}
