// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"giusto.dev/messaging/wire"
)

// story is a topic: what its operator asked for, and what brokers let pass of it.
type story struct {
	w        *world
	name     string
	load     float64    // messages a second of its publishers
	base     wire.Share // a bucket that its publishers keep to, or do not
	delivery bool       // its limit is at delivery
	greedy   bool       // they send more than the bucket that it ends with lets through
	tag      int64      // of the last bucket that was thought of
	wishes   []*wish    // in the order in which leaders did them
	released []release
	waits    []wait
}

// wish is a bucket that was asked for, or none: the topic was removed. Its orders are known by its Queue.
type wish struct {
	story *story
	wire.Topic
	// done is when a leader did it first. In effect it is from `effect` on: a lease after it was answered, or when the first broker
	// has a share of it, if that is earlier.
	done, effect time.Duration
}

type release struct {
	at   time.Duration // for when it was decided
	by   *station
	free bool // the broker knew of no limit
}

type wait struct{ sent, passed time.Duration }

const never = 1 << 62

func (w *world) story(name string) *story {
	return w.topics[slices.IndexFunc(w.topics, func(s *story) bool { return s.name == name })]
}

// bucket is a part of the base.
func (s *story) bucket(part float64) *wire.Topic {
	s.tag++
	depth := max(wire.Unit, float64(s.base.Depth)*min(1, part))
	gap := time.Duration(0)
	if s.w.oneIn(3) {
		gap = s.w.between(2800*time.Millisecond, 6*time.Second)
		s.w.counts["gap that is promised"]++
	}
	return &wire.Topic{Name: s.name, Gap: gap, Share: wire.Share{Rate: uint64(float64(s.base.Rate) * part), Depth: uint64(depth)},
		Percentile: 0.9, Objective: s.w.between(5*time.Millisecond, 500*time.Millisecond), Each: 5, Queue: s.tag, Delivery: s.delivery}
}

// wish takes note of what a leader does.
func (s *story) wish(spec wire.Topic) *wish {
	if last := len(s.wishes) - 1; last >= 0 && s.wishes[last].Queue == spec.Queue {
		return s.wishes[last] // a retry: the answer was lost
	}
	made := &wish{s, spec, s.w.now, never}
	s.wishes = append(s.wishes, made)
	return made
}

// answered takes note that the operator has the answer.
func (k *wish) answered() { k.effect = min(k.effect, k.story.w.now+lasts(k.story.w.lease)) }

// inForce takes note that a broker has a share, by orders that were given at that time.
func (s *story) inForce(tag int64, granted time.Duration) {
	for _, k := range s.wishes {
		if k.Queue == tag && k.Rate > 0 && granted >= k.done {
			k.effect = min(k.effect, s.w.now)
		}
	}
}

func (s *story) pass(r release, sent time.Duration) {
	s.released = append(s.released, r)
	s.waits = append(s.waits, wait{sent, s.w.now})
}

// busy says that messages that had waited longer, while their topic had no share, took the bucket's rate meanwhile.
func (s *story) busy(p wait, rate uint64) bool {
	passed := 0.0
	for _, r := range s.released {
		if r.at > p.sent && r.at <= p.passed {
			passed++
		}
	}
	return passed > 0.8*(p.passed-p.sent).Seconds()*float64(rate)/wire.Unit
}

// law says what is wrong with the releases. In any [s, t] all brokers release b + r(t − s) at most, by the rate of the fastest clock. While
// one bucket takes the place of another, the larger counts: from when a leader did it until it is in effect. A topic that is new, or
// put again, has no limit before that; afterwards no broker lets it pass without one.
func (s *story) law() string {
	type turn struct {
		at     time.Duration
		n      int
		effect bool
	}
	var turns []turn
	for n, k := range s.wishes {
		turns = append(turns, turn{k.done, n, false})
		if k.effect < never && k.Rate > 0 {
			turns = append(turns, turn{max(k.effect, k.done), n, true})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	slices.SortFunc(s.released, func(a, b release) int { return cmp.Compare(a.at, b.at) })
	first, last := 0, 0 // the wishes that may be in force
	limited := false
	var bucket, largest wire.Share
	level, then := 0.0, time.Duration(0)
	flow := func(to time.Duration) {
		level = min(float64(bucket.Depth)/wire.Unit, level+(to-then).Seconds()*float64(bucket.Rate)/wire.Unit*1.0041)
		then = to
	}
	for _, r := range s.released {
		for len(turns) > 0 && turns[0].at < r.at {
			at := turns[0]
			turns = turns[1:]
			flow(at.at)
			switch {
			case !at.effect:
				if last = at.n; s.wishes[at.n].Rate == 0 {
					first, limited = at.n+1, false
				}
			case at.n >= first:
				if first = at.n; !limited {
					limited, level = true, never
				}
			}
			bucket = wire.Share{}
			for n := first; n <= last; n++ {
				bucket.Rate, bucket.Depth = max(bucket.Rate, s.wishes[n].Rate), max(bucket.Depth, s.wishes[n].Depth)
			}
			largest = wire.Share{Rate: max(largest.Rate, bucket.Rate)}
			level = min(level, float64(bucket.Depth)/wire.Unit)
		}
		if flow(r.at); !limited {
			continue
		}
		if bucket.Rate < largest.Rate {
			s.w.counts["releases of a smaller bucket"]++
		}
		if r.free {
			return fmt.Sprintf("%s: %s passes a message without limit at %v; it has one since before\n%s", s.name, r.by.name, r.at, s.history())
		}
		if level--; level < -1e-4 {
			return fmt.Sprintf("%s: a release of %s at %v is %.3f tokens beyond the bucket of %.2f/s and %.2f\n%s", s.name, r.by.name, r.at, -level,
				float64(bucket.Rate)/wire.Unit, float64(bucket.Depth)/wire.Unit, s.history())
		}
	}
	return ""
}

func (s *story) history() (text string) {
	for _, k := range s.wishes {
		effect := "never"
		if k.effect < never {
			effect = fmt.Sprint(k.effect)
		}
		text += fmt.Sprintf("\t%.2f/s and %.2f: done %v, in effect %s\n", float64(k.Rate)/wire.Unit, float64(k.Depth)/wire.Unit, k.done, effect)
	}
	return text
}
