// SPDX-License-Identifier: Apache-2.0

// Package limit says whether requests may pass that go by other ways than NSQ: over HTTP, Kafka, NATS. Limiters
// hold shares of buckets by a
// distributor's orders, as brokers do, so that all of them together keep one limit.
//
// The invariant: requests granted by all limiters at instants of any window [s, t] are at most b + r(t − s). The
// instant is between
// a request's question and its answer.
//
// A limiter that has no orders, or whose lease is over, grants nothing. A bucket that the orders in force do not
// name has no limit.
package limit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/clock"
	"giusto.dev/messaging/holder"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/wire"
)

// Ask is a question for tokens of a bucket.
type Ask struct {
	Bucket string
	Hits   uint64
}

// Answer to an Ask.
type Answer struct {
	Granted bool
	// Limited: the bucket has a limit. Remaining is how many tokens this limiter's share has left then.
	Limited   bool
	Remaining uint64
	// Wait is when to ask again, if no other client takes the tokens and the share stays; 0: it cannot be told.
	Wait time.Duration
}

// Most hits of one question.
const Most = 1 << 20

// ErrHits says that a question is none.
var ErrHits = fmt.Errorf("hits: expected 1 to %d", Most)

// ErrLease says that nothing is granted because no orders are in force.
var ErrLease = errors.New("no orders of a distributor are in force")

// share of a bucket.
type share struct {
	bucket bucket.Bucket
	share  wire.Share
	tally  report.Tally
	queue  chan struct{} // held by the one that waits for tokens, in turn
	waits  uint64
	// Counts of what was asked for; and of what was denied in this second and in the one before.
	granted, denied uint64
	second          uint64
	now, before     uint64
}

// Limiter holds shares.
type Limiter struct {
	clock    *clock.Clock
	reporter *report.Reporter
	lock     *os.File

	mutex   sync.Mutex
	holding holder.Holder
	shares  map[string]*share
	over    bool
}

// Start starts a limiter of this name, which is no other's, with a directory of its own. http is told to the
// distributor's operators. log gets a
// line for what an operator should know.
func Start(name, data, http string, distributors []string, log func(format string, words ...any)) (*Limiter, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	var incarnation, before string
	if err == nil {
		incarnation, before, err = report.Incarnate(filepath.Join(data, "incarnation"))
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("data: %s: %w (each limiter needs a directory of its own)", data, err)
	}
	l := &Limiter{clock: clock.New(), lock: lock, shares: map[string]*share{}}
	about := wire.Report{Broker: name, Incarnation: incarnation, Replaces: before, HTTP: http, Limiter: true}
	l.reporter = report.New(about, distributors, l.clock, log)
	l.reporter.Start(l)
	return l, nil
}

// Stop grants nothing any more, and gives the shares back.
func (l *Limiter) Stop() error {
	l.reporter.Stop()
	l.mutex.Lock()
	l.over = true
	l.mutex.Unlock()
	err := l.reporter.Farewell()
	return errors.Join(err, l.lock.Close())
}

// leased says whether orders are in force. Called with the lock held.
func (l *Limiter) leased(now time.Time) bool {
	return !l.over && l.clock.Leases(now) <= l.holding.Until()
}

// Take takes the tokens of all that is asked for, or none. ErrLease: none, since no orders are in force.
func (l *Limiter) Take(asks ...Ask) (granted bool, answers []Answer, err error) {
	return l.take(asks, true)
}

func (l *Limiter) take(asks []Ask, first bool) (granted bool, answers []Answer, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now() // with the lock: what is granted later is not granted for an earlier instant
	if !l.leased(now) {
		return false, nil, ErrLease
	}
	for _, ask := range asks {
		if ask.Hits < 1 || ask.Hits > Most {
			return false, nil, ErrHits
		}
	}
	granted, answers = true, make([]Answer, len(asks))
	at := l.clock.At(now)
	for n, ask := range asks {
		s := l.shares[ask.Bucket]
		if s == nil {
			answers[n] = Answer{Granted: true}
			continue
		}
		_ = s.bucket.Set(holder.Rate(s.share), s.share.Depth, at) // a share that it was given before: its level is now's
		answers[n] = Answer{Granted: s.bucket.Admit(ask.Hits, at), Limited: true}
		granted = granted && answers[n].Granted
	}
	for n, ask := range asks {
		s, a := l.shares[ask.Bucket], &answers[n]
		if s == nil {
			continue
		}
		if a.Granted && !granted { // it was not for want of its tokens
			s.bucket.Return(ask.Hits, at)
			a.Remaining = s.bucket.Level() / bucket.Token
			continue
		}
		if !a.Granted {
			then := s.bucket
			if release, err := then.Take(ask.Hits, at); err == nil {
				a.Wait = time.Duration(release - min(release, at))
			}
		}
		a.Remaining = s.bucket.Level() / bucket.Token
		s.count(ask.Hits, at, a.Granted, first)
	}
	return granted, answers, nil
}

// count takes note of what was asked for, once for who waits. Who is denied comes again, most likely: so it is told
// as what waits.
func (s *share) count(hits, at uint64, granted, first bool) {
	if s.turn(at); granted {
		s.granted += hits
	}
	if !first {
		return
	}
	if s.tally.Came(at, int(hits), false, s.bucket.Lacks()); !granted {
		s.denied, s.now = s.denied+hits, s.now+hits
	}
}

func (s *share) turn(at uint64) {
	switch second := at / 1e9; {
	case second == s.second+1:
		s.second, s.before, s.now = second, s.now, 0
	case second > s.second:
		s.second, s.before, s.now = second, 0, 0
	}
}

// longest pause of who waits for tokens: the share may change meanwhile.
const longest = 100 * time.Millisecond

// Wait takes tokens when they are there, in the order in which it was called. Its error is nil when they are taken,
// else ctx's, or ErrLease where
// no orders were in force when it was over.
func (l *Limiter) Wait(ctx context.Context, ask Ask) (Answer, error) {
	l.mutex.Lock()
	s := l.shares[ask.Bucket]
	if s != nil {
		s.waits += ask.Hits
		defer func() {
			l.mutex.Lock()
			s.waits -= ask.Hits
			l.mutex.Unlock()
		}()
	}
	l.mutex.Unlock()
	if s != nil {
		select {
		case s.queue <- struct{}{}:
			defer func() { <-s.queue }()
		case <-ctx.Done():
			return Answer{Limited: true}, ctx.Err()
		}
	}
	for first := true; ; first = false {
		granted, answers, err := l.take([]Ask{ask}, first)
		pause := longest
		if granted {
			return answers[0], nil
		} else if err == ErrHits {
			return Answer{}, err
		} else if err == nil && answers[0].Wait > 0 {
			pause = min(pause, answers[0].Wait)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if err != nil {
				return Answer{}, err
			}
			return answers[0], ctx.Err()
		}
	}
}

// Report is what there is to say now.
func (l *Limiter) Report(now time.Time) (r wire.Report, taken func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	r = l.reporter.About
	if l.leased(now) {
		r.Wait = report.Every // else it wants orders at once
	}
	r.Epoch, r.Seen = l.holding.Seen()
	at := l.clock.At(now)
	var told []*share
	for name, s := range l.shares {
		s.turn(at)
		s.tally.Came(at, 0, false, 0) // a second in which nothing was asked for counts
		r.Topics = append(r.Topics, wire.TopicReport{Topic: name, Kept: s.before + s.waits, Seconds: s.tally.Seconds(at)})
		told = append(told, s)
	}
	return r, func() {
		for n, s := range told {
			if seconds := r.Topics[n].Seconds; len(seconds) > 0 {
				s.tally.Reported(seconds[len(seconds)-1].At)
			}
		}
	}
}

// Apply does what orders say that answer a report sent when the leases' time was `asked`.
func (l *Limiter) Apply(asked uint64, o wire.Orders) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now()
	steps, err := l.holding.Apply(l.clock.Leases(now), asked, o)
	if err != nil {
		return err
	}
	at := l.clock.At(now)
	for _, step := range steps {
		s := l.shares[step.Topic]
		switch {
		case step.Change == holder.Free:
			delete(l.shares, step.Topic)
			continue
		case s == nil:
			s = &share{queue: make(chan struct{}, 1)}
			l.shares[step.Topic] = s
		}
		if s.share = step.Share; step.Change == holder.Restart {
			s.bucket, err = bucket.New(holder.Rate(step.Share), step.Depth, 0, at)
		} else if step.Change == holder.Set {
			err = s.bucket.Set(holder.Rate(step.Share), step.Depth, at)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.Topic, err) // the orders were checked: the bucket takes them
		}
	}
	return nil
}
