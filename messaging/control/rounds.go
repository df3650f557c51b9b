// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
)

// steer runs a topic's sessions: distribute, let publishers move, measure, and again until every broker is within the objective.
func (c *Control) steer(t *topic) {
	switch t.phase {
	case idle:
		c.watch(t)
	case moving:
		if t.session == nil || t.gather && !t.gathered(c.now, c.settings.Gather) {
			c.finish(t, "")
		} else if c.still(t) {
			t.phase, t.from = measuring, c.now+c.settings.Calm
			t.to = t.from + c.settings.Round
			c.fresh(t)
		}
	case measuring:
		if t.gather {
			c.finish(t, "")
		} else if c.now >= t.to {
			c.measured(t)
		}
	}
}

func (c *Control) fresh(t *topic) {
	for _, s := range t.stats {
		clear(s.round)
	}
}

// watch begins a session where one is due: publishers have come or gone and that is over, or a broker has been beyond the objective for
// some seconds.
func (c *Control) watch(t *topic) {
	if len(t.publishers) == 0 {
		return
	}
	if t.gather && t.gathered(c.now, c.settings.Gather) {
		c.begin(t, false)
		return
	}
	if c.now-t.judged < time.Second {
		return
	}
	t.judged = c.now
	if c.now-t.rest > 64*c.settings.Round {
		t.again = 0
	}
	for id := range t.load { // a publisher could not leave a broker that is drained
		if c.drained[id] && c.now > t.rest && !t.gather {
			c.begin(t, false)
			return
		}
	}
	for id, s := range t.stats {
		if !s.full(c.settings.Window) || t.spec.Objective == 0 {
			continue
		}
		if all := s.delivery(); all.Count() < 100 || all.Percentile(t.spec.Percentile) <= t.spec.Objective {
			t.late[id] = 0
		} else if t.late[id]++; t.late[id] >= c.settings.Window && c.now > t.rest && !t.gather {
			c.begin(t, true)
			return
		}
	}
}

// begin begins a session: from where publishers are, or by the model from nowhere, where it would take another number of brokers.
func (c *Control) begin(t *topic, overloaded bool) {
	publishers, at, order := c.members(t)
	brokers := c.candidates(t)
	t.order, t.begun, t.tried = order, c.now, c.able()
	t.fitted = room(distribute.New(c.settings.Kind, publishers, brokers, c.epoch), publishers)
	if len(brokers) == 0 {
		t.note, t.rest = ErrBrokers.Error(), c.now+10*c.settings.Round
		t.gather = false
		return
	}
	fresh := func() *distribute.Session { return distribute.New(c.settings.Kind, publishers, brokers, c.epoch) }
	s, used := c.guess(t, publishers, brokers), count(at)
	switch {
	case s != nil && (t.planned == 0 || count(s.Plan()) > used || count(s.Plan()) < used && !overloaded):
	case s == nil && (t.planned == 0 || !overloaded && c.fewer(fresh(), used)):
		s = fresh()
	default:
		s = fresh()
		s.Resume(at)
	}
	t.session, t.gather, t.stuck, t.rounds, t.forced = s, false, false, 0, overloaded
	clear(t.late)
	t.planned = t.rate
	c.next(t)
}

// guess is a session from nowhere that has a plan by the model; nil: there is no model, or it knows none.
func (c *Control) guess(t *topic, publishers []distribute.Publisher, brokers []distribute.Broker) *distribute.Session {
	s := distribute.New(c.settings.Kind, publishers, brokers, c.epoch)
	if c.settings.Model == nil || !room(s, publishers) {
		return nil
	}
	if !s.Guess(c.settings.Model(t.spec, publishers), t.spec.Objective.Seconds()) {
		return nil
	}
	return s
}

// room says whether a new session's brokers have it for all publishers; else there is nothing for a model to foretell, which may be more than it
// can list.
func room(s *distribute.Session, publishers []distribute.Publisher) bool {
	sum := 0.0
	for _, p := range publishers {
		if p.Fixed == "" {
			sum += p.Rate
		}
	}
	return sum <= s.Room()*(1+1e-9)
}

// fewer says whether the topic would fit on fewer brokers than it is at, as far as capacities tell.
func (c *Control) fewer(s *distribute.Session, used int) bool {
	return s.Assign() == nil && count(s.Plan()) < used
}

// count is how many brokers a plan names.
func count(plan []string) int {
	seen := map[string]bool{}
	for _, id := range plan {
		if id != "" {
			seen[id] = true
		}
	}
	return len(seen)
}

// members are the topic's publishers, where they are to be, and their names; what follows no assignment counts as one that
// is fixed, without a name.
func (c *Control) members(t *topic) (publishers []distribute.Publisher, at, order []string) {
	for _, id := range t.names {
		p := t.publishers[id]
		publishers = append(publishers, distribute.Publisher{ID: p.id, Group: p.group, Rate: p.rate})
		place := p.told
		if !c.alive(c.brokers[place]) || c.drained[place] {
			place = ""
		}
		at, order = append(at, place), append(order, p.id)
	}
	for _, id := range slices.Sorted(maps.Keys(t.stats)) {
		if s := t.stats[id]; s.unmanaged() > 0 {
			publishers = append(publishers, distribute.Publisher{Fixed: id, Rate: s.unmanaged()})
			at, order = append(at, id), append(order, "")
		}
	}
	return publishers, at, order
}

// next brings a session to its next measurement, or ends it.
func (c *Control) next(t *topic) {
	for {
		if t.session.Settled() {
			if t.session.Done() {
				c.finish(t, "")
				return
			}
			if err := t.session.Assign(); err != nil {
				c.giveUp(t, err.Error())
				return
			}
		}
		plan := t.session.Plan()
		if slices.Contains(plan, "") {
			c.giveUp(t, "beyond the objective, and no broker is free to take publishers: add brokers, or promise less")
			return
		}
		if c.outdated(t, plan) {
			c.finish(t, "")
			t.changed(c.now)
			return
		}
		c.follow(t, plan)
		t.phase = moving
		return
	}
}

// follow makes publishers go where a plan has them, but for those that could not get there a moment ago.
func (c *Control) follow(t *topic, plan []string) {
	for n, id := range t.order {
		p, to := t.publishers[id], plan[n]
		if id == "" || p == nil || to == "" || to == p.to || to == p.avoid && c.now < p.until {
			continue
		}
		p.to, p.wished = to, c.now
	}
	c.wish(t)
}

// giveUp ends a session that found no plan: the best that was measured stays, and it is tried again only after a while.
func (c *Control) giveUp(t *topic, why string) {
	if plan, _, any := t.session.Best(); any {
		c.follow(t, plan)
	}
	c.finish(t, why)
	if t.rest = c.now + 10*c.settings.Round<<min(t.again, 4); c.came > t.begun {
		t.changed(c.now)
	}
}

func (c *Control) finish(t *topic, note string) {
	t.phase, t.session = idle, nil
	if t.forced { // the more often in a row, the longer it is left alone: 1 round to 32
		t.rest = max(t.rest, c.now+c.settings.Round<<min(t.again, 5))
		t.again++
		t.forced = false
	}
	if note != "" || !t.stuck { // else it says why a publisher could not move
		t.note = note
	}
	t.moved = c.now
}

// measured gives the session what was delivered in the round.
func (c *Control) measured(t *topic) {
	tails := map[string]float64{}
	t.tails = map[string]time.Duration{}
	for id, s := range t.stats {
		if s.round.Count() > 0 {
			t.tails[id] = s.round.Percentile(t.spec.Percentile)
			tails[id] = t.tails[id].Seconds()
		}
	}
	t.rounds++
	if t.spec.Objective == 0 { // nothing was promised
		clear(tails)
	}
	t.session.Measured(tails, max(t.spec.Objective.Seconds(), 1e-9))
	c.next(t)
}
