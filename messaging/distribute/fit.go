// SPDX-License-Identifier: Apache-2.0

package distribute

import (
	"cmp"
	"math"
	"slices"
)

// fit is one broker's search for how many of its fresh publishers it can take: FIT of appendix A.
type fit struct {
	fresh  []int
	open   bool // to be measured
	search bool // it violated with all of them
	lo, hi int  // so many are fine, so many are too many
	layer  int  // it is searched in steps of so many
	try    int  // how many are on, in this round
	waits  bool // until spare brokers have room: all are on, and its measurement tells nothing new
	full   bool // it ended for want of room, with `ends` of them, which is to be measured in the next iteration
	ends   int
}

// nearly: with a tail in [nearly·objective, objective] the search ends.
const nearly = 0.8

// careless: a search that can leave no publisher out assumes that the broker can do with an eighth less of what is open.
const careless = 8

// fine: a layer that is at most this part of the topic is not searched within: a smaller share's bucket is too small for
// any broker.
const fine = 8

// Plan is where each publisher's messages go in this round. Those that FIT leaves out are at brokers that have
// nothing else of the topic, as many as have room.
func (s *Session) Plan() []string {
	plan := make([]string, len(s.publishers))
	for n, b := range s.at {
		if b != unassigned {
			plan[n] = s.brokers[b].ID
		}
	}
	for n, b := range s.aside() {
		if plan[n] = ""; b != unassigned {
			plan[n] = s.brokers[b].ID
		}
	}
	return plan
}

func (f *fit) on() int {
	if !f.open && !f.search || f.waits {
		return len(f.fresh)
	}
	return f.try
}

// aside is where those go that FIT leaves out: by whole layers to a spare broker as long as it has room, and then to
// the next; or to no broker where none has enough. Those with most room are first.
func (s *Session) aside() map[int]int {
	var spare []int
	room := map[int]float64{}
	for b := range s.brokers {
		if f := &s.fits[b]; s.limit[b] > 0 && !f.open && !f.search && s.load[b] == 0 {
			spare, room[b] = append(spare, b), s.residual(b)
		}
	}
	slices.SortStableFunc(spare, func(a, b int) int { return cmp.Compare(room[b], room[a]) })
	places := map[int]int{}
	for _, f := range s.fits {
		for layer := range slices.Chunk(f.fresh[f.on():], max(f.layer, 1)) {
			takes, to := s.total(layer), unassigned
			if at := slices.IndexFunc(spare, func(b int) bool { return room[b] >= takes-s.rate*1e-9 }); at >= 0 {
				to = spare[at]
				room[to] -= takes
			}
			for _, n := range layer {
				places[n] = to
			}
		}
	}
	return places
}

// allot sees to it that all who are left out have a place. Where spare brokers have no room for all, searches wait
// for each other; one that has none with so many left out leaves out fewer; and one that cannot leave out any ends:
// some of what it had goes elsewhere for good, and it is measured again.
func (s *Session) allot() {
	fits := func() bool {
		for _, b := range s.aside() {
			if b == unassigned {
				return false
			}
		}
		return true
	}
	for b := range s.fits {
		s.fits[b].waits = s.fits[b].open && s.fits[b].search
	}
	alone := true // no search is under way
	for b := range s.fits {
		f := &s.fits[b]
		if !f.waits {
			continue
		}
		f.waits = false
		if fits() {
			alone = false
			continue
		}
		if !alone {
			f.waits = true
			continue
		}
		for f.try < f.hi && !fits() {
			f.try += f.layer
		}
		if f.try < f.hi {
			alone = false
			continue
		}
		fewer := max((f.hi-f.lo)/careless/f.layer*f.layer, f.layer)
		f.open, f.full, f.ends, f.try = false, true, max(f.hi-fewer, f.lo), len(f.fresh)
	}
}

// Settled says that nothing is left to be measured before the next Assign.
func (s *Session) Settled() bool { return s.settled }

// Done says that every publisher has a broker, and each broker was found to be within the objective.
func (s *Session) Done() bool { return s.done }

// Rounds are the measurements so far, by iteration (Table 2.1).
func (s *Session) Rounds() []int { return slices.Clone(s.rounds) }

// Measured says what the tail of each broker was under Plan, in seconds; brokers that are not there had no messages.
func (s *Session) Measured(tail map[string]float64, objective float64) {
	if s.settled {
		return
	}
	s.rounds[len(s.rounds)-1]++
	whole, worst := true, 0.0
	for b := range s.fits {
		if f := &s.fits[b]; f.on() < len(f.fresh) {
			whole = false
		}
		worst = max(worst, tail[s.brokers[b].ID])
	}
	if whole && worst < s.bestTail {
		s.best, s.bestTail = slices.Clone(s.at), worst
	}
	if s.predict != nil && whole && s.again(tail, objective) {
		return
	}
	s.judge(tail, objective)
}

// judge lets every search go on, and ends the iteration when all have ended.
func (s *Session) judge(tail map[string]float64, objective float64) {
	s.settled = true
	if s.kind == Conc && s.another(tail, objective) {
		return
	}
	for b := range s.fits {
		if f := &s.fits[b]; f.open && !f.waits {
			s.step(b, f, tail[s.brokers[b].ID], objective)
		}
	}
	if !s.guessed { // else it is not played, and needs no room
		s.allot()
	}
	s.settled = !slices.ContainsFunc(s.fits, func(f fit) bool { return f.open })
	if !s.settled {
		return
	}
	s.done = s.kind == LB || !slices.Contains(s.at, unassigned)
	for b := range s.fits {
		f := &s.fits[b]
		if f.full {
			f.try, s.doubted[b] = f.ends, true
		}
		for _, n := range f.fresh[f.on():] {
			s.place(n, unassigned)
			s.done = false
		}
		if f.search {
			s.limit[b] = s.load[b]
		}
		*f = fit{}
	}
}

// another has Conc begin anew with a broker more where one was beyond the objective: it searches for how many brokers, not for what each can
// take (§ 2.6.2).
func (s *Session) another(tail map[string]float64, objective float64) bool {
	if !slices.ContainsFunc(s.brokers, func(b Broker) bool { return tail[b.ID] > objective }) {
		return false
	}
	least := s.least + 1
	s.clear()
	s.least = least
	if least > len(s.brokers) {
		clear(s.limit)
	}
	return true
}

// step takes one broker's measurement.
func (s *Session) step(b int, f *fit, tail, objective float64) {
	switch {
	case !f.search && tail <= objective || s.kind == LB:
		f.open = false
		return
	case !f.search:
		f.search = true
		if len(f.fresh) == 0 { // it only lost publishers, and its bucket is too small for the rest: all of them may go
			f.fresh = s.spread(s.movable(b))
		}
		f.lo, f.hi, f.layer = 0, len(f.fresh), s.layer(f.fresh)
	case tail > objective:
		f.hi = f.try
	default:
		f.lo = f.try
		if tail >= nearly*objective {
			f.hi = f.try
		}
	}
	if f.lo == 0 && f.hi <= f.layer { // not even one layer fits
		if f.layer*fine <= len(s.publishers) {
			f.open, f.try = false, 0
			return
		}
		f.layer = 1
	}
	// Downwards, but never to lo: halves of layers would be larger bursts for the share.
	if f.try = max((f.lo+f.hi)/2/f.layer*f.layer, f.lo+f.layer); f.try >= f.hi {
		f.open, f.try = false, f.lo
	}
}

// layer is one publisher of each group, for a kind that knows groups: by whole layers a burst is split exactly as the load is.
func (s *Session) layer(of []int) int {
	if s.kind != SRTM {
		return 1
	}
	groups := map[string]bool{}
	for _, n := range of {
		groups[s.publishers[n].Group] = true
	}
	return max(1, len(groups))
}

// Best is the complete plan with the least tail of those measured, and that tail; false: none was complete.
func (s *Session) Best() ([]string, float64, bool) {
	if s.best == nil {
		return nil, 0, false
	}
	plan := make([]string, len(s.publishers))
	for n, b := range s.best {
		if b != unassigned {
			plan[n] = s.brokers[b].ID
		}
	}
	return plan, s.bestTail, true
}

// Predict says what the tail of a broker would be, in seconds, with these publishers, which are `part` of the topic's rate.
type Predict func(broker Broker, publishers []Publisher, part float64) float64

const (
	// guessing: so often a measurement corrects the model before FIT searches without it.
	guessing = 6
	// careful: a tail that is far beyond the objective says that a bucket was empty, not that the broker is so much slower. One
	// correction is by this factor at most.
	careful = 1.6
	// aim: so far below the objective the model plans, in the middle of where FIT ends. Brokers that are a little slower than the model
	// says then need no second round.
	aim = (1 + nearly) / 2
	// relaxed: where by the corrected model nothing fits, it guesses as if the objective were larger, up to so much.
	relaxed = 1.6
)

// Guess finds a plan without measuring, by a model; it is to be measured next. A measurement that finds it wrong corrects the model by
// that broker's factor, and it guesses again. False: by the model nothing fits; the session is as at its beginning.
func (s *Session) Guess(predict Predict, objective float64) bool {
	s.predict = predict
	before, rounds := slices.Clone(s.at), s.rounds
	s.clear()
	s.settled, s.done = true, false
	s.guessed = true
	defer func() { s.guessed = false }()
	for !s.done || !s.settled {
		if s.settled && s.Assign() != nil {
			s.clear()
			s.rounds, s.settled, s.done = rounds, true, false
			return false
		}
		s.judge(s.predicted(), aim*objective)
	}
	s.rounds, s.settled, s.done = append(rounds, 0), false, false
	s.unlimited()
	for b := range s.fits {
		for n, at := range s.at {
			if at == b && s.publishers[n].Fixed == "" {
				s.fits[b].fresh = append(s.fits[b].fresh, n)
			}
			if at == b || before[n] == b {
				s.fits[b].open = true
			}
		}
		s.fits[b].fresh = s.spread(s.fits[b].fresh)
		s.fits[b].try = len(s.fits[b].fresh)
	}
	return true
}

// predicted is what the corrected model says of Plan.
func (s *Session) predicted() map[string]float64 {
	on := make([][]Publisher, len(s.brokers))
	out := make([]bool, len(s.publishers))
	for _, f := range s.fits {
		for _, n := range f.fresh[f.on():] {
			out[n] = true
		}
	}
	for n, b := range s.at {
		if b != unassigned && !out[n] {
			on[b] = append(on[b], s.publishers[n])
		}
	}
	tails := map[string]float64{}
	for b, publishers := range on {
		if len(publishers) == 0 || !s.fits[b].open {
			continue
		}
		rate := 0.0
		for _, p := range publishers {
			rate += p.Rate
		}
		tails[s.brokers[b].ID] = s.predict(s.brokers[b], publishers, rate/s.rate) * s.correction[b]
	}
	return tails
}

// again guesses anew where the measurement of a guess was beyond the objective.
func (s *Session) again(tail map[string]float64, objective float64) bool {
	late := false
	for b := range s.fits {
		found := tail[s.brokers[b].ID]
		late = late || found > objective && s.fits[b].open
	}
	if !late || s.guesses == guessing {
		return false
	}
	s.guesses++
	told := s.predicted()
	for b := range s.fits {
		id := s.brokers[b].ID
		if found := tail[id]; found > objective && told[id] > 0 {
			s.correction[b] *= min(max(found/told[id], 1), careful)
		}
	}
	worst := math.Inf(-1)
	for b, c := range s.correction {
		if s.load[b] > 0 {
			worst = max(worst, c)
		}
	}
	for b, c := range s.correction { // a broker that was not tried is no better than those that were
		if s.load[b] == 0 {
			s.correction[b] = max(c, worst)
		}
	}
	at, limit, fits, rounds := slices.Clone(s.at), slices.Clone(s.limit), slices.Clone(s.fits), s.rounds
	was := slices.Clone(s.load)
	// What was learnt of brokers beside each other stays; that all of them are too slow is less certain.
	for level := 1.0; level < relaxed; level *= 1.05 {
		if s.Guess(s.predict, level*objective) {
			if slices.EqualFunc(was, s.load, func(a, b float64) bool { return math.Abs(a-b) < s.rate*1e-9 }) {
				break // it was found to be wrong
			}
			return true
		}
	}
	// By what is known now nothing fits: FIT goes on from where publishers are.
	s.at, s.limit, s.fits, s.rounds, s.settled, s.predict = at, limit, fits, rounds, false, nil
	s.reload()
	return false
}
