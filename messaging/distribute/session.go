// SPDX-License-Identifier: Apache-2.0

package distribute

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Short says that no brokers are left for Missing messages a second.
type Short struct{ Missing float64 }

func (s *Short) Error() string {
	return fmt.Sprintf("no broker has room for %.6g messages a second more: add brokers, or promise less", s.Missing)
}

// unassigned is the broker index of a publisher without a broker.
const unassigned = -1

// Session is one run of LoadDist (appendix A). What the paper leaves open is settled so: excess of several brokers
// adds up (line 28); the loop ends with Short where the brokers' residual capacity is less than what is unassigned
// (line 9); PUB_SELECT takes its part of what is unassigned, not of all (line 20); migration takes what is missing
// from those that have more than rate/k, and leaves none below that (lines 14 to 18); no plan, also of a step of FIT,
// gives a broker more than it can take (fit.go); whose bucket became smaller is measured again, too.
type Session struct {
	kind       Kind
	publishers []Publisher
	brokers    []Broker // by residual capacity, largest first
	rate       float64
	at         []int     // a broker's index for each publisher, or unassigned
	load       []float64 // what each broker has of the topic
	limit      []float64 // what FIT found that a broker can take of the topic
	fits       []fit
	random     *rand.Rand

	least      int   // Conc takes so many brokers at least
	rounds     []int // measurements, by iteration
	settled    bool
	done       bool
	best       []int // at, of the complete plan with the least tail
	bestTail   float64
	correction []float64 // of the model, by broker
	predict    Predict
	guesses    int
	doubted    []bool // brokers whose search ended without a measurement
	guessed    bool   // it is being guessed, and no publisher moves
	resumed    bool
}

// New begins a session. Publishers that are fixed stay where they are and count there. The same seed gives the same plan.
func New(kind Kind, publishers []Publisher, brokers []Broker, seed uint64) *Session {
	s := &Session{kind: kind, publishers: publishers, brokers: slices.Clone(brokers), at: make([]int, len(publishers)),
		load: make([]float64, len(brokers)), limit: make([]float64, len(brokers)), fits: make([]fit, len(brokers)),
		random: rand.New(rand.NewPCG(seed, uint64(kind))), settled: true, bestTail: math.Inf(1), correction: make([]float64, len(brokers)), doubted: make([]bool, len(brokers))}
	slices.SortStableFunc(s.brokers, func(a, b Broker) int { return cmp.Compare(b.Capacity-b.Existing, a.Capacity-a.Existing) })
	for n := range s.correction {
		s.correction[n] = 1
	}
	for _, p := range publishers {
		s.rate += p.Rate
	}
	s.clear()
	return s
}

// clear leaves only those assigned that are fixed.
func (s *Session) clear() {
	clear(s.load)
	s.unlimited()
	clear(s.fits)
	s.least = 0
	for n, p := range s.publishers {
		s.at[n] = unassigned
		if p.Fixed != "" {
			if b := s.broker(p.Fixed); b != unassigned {
				s.place(n, b)
			}
		}
	}
}

func (s *Session) unlimited() {
	for b := range s.limit {
		s.limit[b] = math.Inf(1)
	}
}

// Resume begins from where publishers are, in New's order ("" is nowhere): the next Assign keeps them there, finds brokers for the others, and has all
// brokers measured; publishers that are not fixed may be shed.
func (s *Session) Resume(at []string) {
	for n, id := range at {
		if b := s.broker(id); b != unassigned && s.publishers[n].Fixed == "" {
			s.place(n, b)
		}
	}
	s.resumed = true
}

// Room is what brokers are thought to take more of, in messages a second.
func (s *Session) Room() (sum float64) {
	for b := range s.brokers {
		sum += s.residual(b)
	}
	return sum
}

func (s *Session) broker(id string) int {
	return slices.IndexFunc(s.brokers, func(b Broker) bool { return b.ID == id })
}

func (s *Session) place(publisher, broker int) {
	if old := s.at[publisher]; old != unassigned {
		s.load[old] -= s.publishers[publisher].Rate
	}
	s.at[publisher] = broker
	if broker != unassigned {
		s.load[broker] += s.publishers[publisher].Rate
	}
}

// residual is how much more a broker is thought to take.
func (s *Session) residual(broker int) float64 {
	b := s.brokers[broker]
	return max(0, min(b.Capacity-b.Existing, s.limit[broker])-s.load[broker])
}

// Assign finds brokers for all that have none (steps 1 and 2), after which the plan is to be measured. It is an error where
// they do not fit.
func (s *Session) Assign() error {
	waiting := s.where(unassigned)
	before := slices.Clone(s.at)
	if len(waiting) > 0 {
		if err := s.assign(); err != nil {
			copy(s.at, before)
			s.reload()
			return err
		}
	}
	s.rounds = append(s.rounds, 0)
	s.settled, s.done = false, false
	for b := range s.fits {
		s.fits[b] = fit{}
		for n := range s.publishers {
			if s.at[n] == b && (before[n] != b || s.resumed && s.publishers[n].Fixed == "") {
				s.fits[b].fresh = append(s.fits[b].fresh, n)
			}
			if s.at[n] != before[n] && (s.at[n] == b || before[n] == b) {
				s.fits[b].open = true
			}
		}
		s.fits[b].open = s.fits[b].open || (s.resumed || s.doubted[b]) && s.load[b] > 0
		s.doubted[b] = false
		s.fits[b].fresh = s.spread(s.fits[b].fresh)
		s.fits[b].try = len(s.fits[b].fresh)
	}
	s.resumed = false
	return nil
}

func (s *Session) reload() {
	clear(s.load)
	for n, b := range s.at {
		if b != unassigned {
			s.load[b] += s.publishers[n].Rate
		}
	}
}

// where are the publishers of one broker, or of none.
func (s *Session) where(broker int) (found []int) {
	for n, b := range s.at {
		if b == broker {
			found = append(found, n)
		}
	}
	return found
}

func (s *Session) total(publishers []int) (rate float64) {
	for _, n := range publishers {
		rate += s.publishers[n].Rate
	}
	return rate
}

// assign is lines 9 to 24.
func (s *Session) assign() error {
	open := s.total(s.where(unassigned))
	k, room := 0, 0.0
	for k < len(s.brokers) && (room < open*(1-1e-9) || k < max(s.least, 1) || s.kind == LB) {
		room += s.residual(k)
		k++
	}
	if s.kind == Conc {
		s.least = k
	}
	// Full brokers come among the first k with no room; those that are beyond them stay in use.
	for b := k; b < len(s.brokers); b++ {
		if s.load[b] > 0 {
			k = b + 1
		}
	}
	if s.kind != LB && room < open*(1-1e-9) {
		return &Short{open - room}
	}
	switch s.kind {
	case LB:
		s.even(k, func(int) float64 { return 0 }, func(int) float64 { return math.Inf(1) })
	case Conc:
		s.even(k, func(b int) float64 { return s.brokers[b].Existing + s.load[b] }, s.residual)
	default:
		s.maxMin(k)
	}
	// What is left is about half a publisher for each: it goes where there is most room.
	for _, n := range s.where(unassigned) {
		most := 0
		for b := range k {
			if s.residual(b) > s.residual(most) {
				most = b
			}
		}
		if s.residual(most) < s.publishers[n].Rate-s.rate*1e-9 && s.kind != LB {
			return &Short{s.total(s.where(unassigned))}
		}
		s.place(n, most)
	}
	return nil
}

// even fills up the first k brokers to one level above what they have, none beyond its room.
func (s *Session) even(k int, has, room func(int) float64) {
	open := s.total(s.where(unassigned))
	low, high := 0.0, open
	base, cap := make([]float64, k), make([]float64, k)
	for b := range k {
		base[b], cap[b] = has(b), room(b)
		high = max(high, base[b]+open)
	}
	gives := func(level float64) (sum float64) {
		for b := range k {
			sum += min(max(0, level-base[b]), cap[b])
		}
		return sum
	}
	for range 100 {
		if middle := (low + high) / 2; gives(middle) < open {
			low = middle
		} else {
			high = middle
		}
	}
	for b := range k {
		s.take(b, min(max(0, high-base[b]), cap[b]))
	}
}

// maxMin is lines 10 to 24.
func (s *Session) maxMin(k int) {
	fair := s.rate / float64(k)
	progress := true
	for pass := 0; progress && pass < k+2; pass++ {
		progress = false
		for b := range k {
			open := s.total(s.where(unassigned))
			quota := min(s.residual(b), open)
			if s.load[b] == 0 {
				quota = min(s.residual(b), fair)
				if open < quota {
					s.migrate(quota-open, fair, b, k)
				}
			}
			if s.take(b, quota) > 0 {
				progress = true
			}
		}
	}
}

// migrate frees what a broker lacks to its fair share, of those that have more than that.
func (s *Session) migrate(amount, fair float64, to, k int) {
	for amount > 0 {
		most := unassigned
		for b := range k {
			if b != to && s.load[b] > fair && (most == unassigned || s.load[b] > s.load[most]) {
				most = b
			}
		}
		if most == unassigned {
			return
		}
		gives := s.choose(s.movable(most), min(amount, s.load[most]-fair), amount)
		if len(gives) == 0 {
			return
		}
		for _, n := range gives {
			amount -= s.publishers[n].Rate
			s.place(n, unassigned)
		}
	}
}

func (s *Session) movable(broker int) []int {
	return slices.DeleteFunc(s.where(broker), func(n int) bool { return s.publishers[n].Fixed != "" })
}

// take gives a broker its quota of those that have none.
func (s *Session) take(broker int, quota float64) (taken float64) {
	chosen := s.choose(s.where(unassigned), quota, s.residual(broker))
	for layer := s.layer(chosen); s.kind != LB && s.total(chosen) > s.residual(broker)+s.rate*1e-9; { // rounded to the nearest it is too much
		chosen = chosen[:(len(chosen)-1)/layer*layer]
	}
	for _, n := range chosen {
		taken += s.publishers[n].Rate
		s.place(n, broker)
	}
	return taken
}

// choose is PUB_SELECT: publishers of about this rate, and no more than there is room for. To the nearest one, so that the
// least quota of a broker is half a publisher's; to the nearest whole layer where groups are known: a group of which a
// broker has one more than its share of the bucket was made for waits for tokens each time that it sends.
func (s *Session) choose(of []int, quota, room float64) []int {
	of = s.spread(of)
	sum, count := 0.0, len(of)
	for n, p := range of {
		rate := s.publishers[p].Rate
		if sum+rate/2 > quota*(1+1e-9) {
			count = n
			break
		}
		sum += rate
	}
	if layer := s.layer(of); layer > 1 && layer < len(of) && count < len(of) {
		count = min((count+layer/2)/layer*layer, len(of))
		for count > 0 && s.total(of[:count]) > room*(1+1e-9) {
			count = (count - 1) / layer * layer
		}
	}
	return of[:count]
}

// spread orders publishers so that every beginning has the same part of each group, within one (largest remainder); in any order, for a kind
// that knows no groups.
func (s *Session) spread(of []int) []int {
	of = slices.Clone(of)
	s.random.Shuffle(len(of), func(a, b int) { of[a], of[b] = of[b], of[a] })
	if s.kind != SRTM {
		return of
	}
	size, seen := map[string]int{}, map[string]int{}
	for _, n := range of {
		size[s.publishers[n].Group]++
	}
	place := make(map[int]float64, len(of))
	for _, n := range of {
		group := s.publishers[n].Group
		place[n] = (float64(seen[group]) + 0.5) / float64(size[group])
		seen[group]++
	}
	slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	return of
}
