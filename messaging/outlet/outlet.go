// SPDX-License-Identifier: Apache-2.0

// Package outlet decides when a channel's messages may enter the sockets of its consumers: a token bucket in front of them, which
// whatever comes must pass, for the first time or again. Pure: times come in. Locks and clocks belong to the caller.
//
// The invariant: messages that enter sockets at instants of any window [s, t] are at most b + r(t − s), however late
// each enters after its token was taken: the process may be stopped in between. A token that was taken for a message
// that is still on its way keeps its place in the bucket: with k on their way the bucket holds b − k at most. So it
// has, at any instant, k tokens less than one from which each is taken only when its message enters, and that one
// keeps the law. Since it never has less than none, each of the k may enter whenever it does.
//
// Times are ns of one clock that never steps. Calls are O(messages on their way), which are at most the channel's
// consumers and one.
package outlet

import (
	"slices"

	"giusto.dev/messaging/bucket"
)

const (
	// Stale: a message that did not begin to enter a socket for so long after its token was taken is not expected any
	// more, since its consumer samples, or has left. If it comes after all it needs another token.
	Stale = 50_000_000
	// Margin: a write may begin until so long before the lease ends. What lies between the look at the clock and the bytes' entry
	// must be shorter.
	Margin = 50_000_000
)

// ID of a message.
type ID [16]byte

// way is a message on its way: its token is taken.
type way struct {
	id      ID
	at      uint64
	entered bool // its write has begun
}

// Counts of what passed.
type Counts struct {
	Granted, Returned, Late uint64
}

// Outlet is one channel's. The zero value holds everything.
type Outlet struct {
	// Open lets everything pass at once: there is no limit.
	Open bool
	// Until is when the lease ends, by the clock of all times here. 0: there is none.
	Until  uint64
	Counts Counts

	bucket bucket.Bucket
	rate   bucket.Rate
	depth  uint64
	ways   []way
	fresh  bool // it began anew while messages of before are entering
}

// Set gives a new rate and depth from now on. No token is added. Errors are bucket.Set's. It is in force once Settled says so.
func (o *Outlet) Set(rate bucket.Rate, depth, now uint64) error {
	if o.Open {
		return o.Start(rate, depth, 0, now)
	}
	if err := o.bucket.Set(rate, depth, now); err != nil {
		return err
	}
	o.rate, o.depth = rate, depth
	o.crowd(now)
	o.drop(now, func(w way) bool { return !w.entered && uint64(len(o.ways))*bucket.Token > o.depth })
	return nil
}

// Start begins anew, with so much in the bucket: nothing after a gap in which others may have had these tokens. What
// is on its way and has not begun to enter needs another token. Errors are bucket.New's. It is in force once Settled
// says so; before, nothing is granted.
func (o *Outlet) Start(rate bucket.Rate, depth, fill, now uint64) error {
	fresh, err := bucket.New(rate, depth, fill, now)
	if err == nil {
		o.Hold(now)
		o.bucket, o.rate, o.depth, o.Open = fresh, rate, depth, false
		o.crowd(now)
		o.fresh = len(o.ways) > 0
	}
	return err
}

// Hold lets nothing pass any more. It is in force once Settled says so.
func (o *Outlet) Hold(now uint64) {
	o.bucket, o.rate, o.depth, o.Open = bucket.Bucket{}, bucket.Rate{Den: 1}, 0, false
	o.drop(now, func(w way) bool { return !w.entered })
}

// Settled says that what changed last is in force: no more messages are entering sockets by what was granted before
// than the depth allows, and none after Start.
func (o *Outlet) Settled() bool {
	return o.Open || !o.fresh && o.entering()*bucket.Token <= o.depth
}

func (o *Outlet) entering() (count uint64) {
	for _, w := range o.ways {
		if w.entered {
			count++
		}
	}
	return count
}

// Level is what is in the bucket now.
func (o *Outlet) Level(now uint64) uint64 {
	o.crowd(now)
	return o.bucket.Level()
}

// leased says whether a write may begin now.
func (o *Outlet) leased(now uint64) bool { return o.Until == 0 || now+Margin <= o.Until }

// Next is the earliest time at which a message may be granted its token; false: not before something else changes.
func (o *Outlet) Next(now uint64) (uint64, bool) {
	o.drop(now, func(w way) bool { return !w.entered && now-min(now, w.at) > Stale })
	at := now
	if !o.Open {
		var err error
		after := o.bucket
		if at, err = after.Take(1, now); err != nil || o.fresh {
			return 0, false
		}
	}
	return max(at, now), o.leased(max(at, now))
}

// Grant takes a message's token; false: it is not there.
func (o *Outlet) Grant(id ID, now uint64) bool {
	if !o.leased(now) || o.fresh || !o.Open && !o.bucket.Admit(1, now) {
		return false
	}
	o.Counts.Granted++
	o.ways = append(o.ways, way{id, now, false})
	o.crowd(now)
	return true
}

// crowd makes the bucket's room follow what is on its way. A rate and a depth that were taken are taken again.
func (o *Outlet) crowd(now uint64) {
	if !o.Open {
		_ = o.bucket.Set(o.rate, o.depth-min(o.depth, uint64(len(o.ways))*bucket.Token), now)
	}
}

// Enter says whether a message's write may begin. If not, its token is given back.
func (o *Outlet) Enter(id ID, now uint64) bool {
	for n := range o.ways {
		if w := &o.ways[n]; w.id == id && !w.entered {
			if o.leased(now) {
				w.entered = true
				return true
			}
			o.Return(id, now)
			return false
		}
	}
	return false
}

// Left says that a message's write is over, whether it was done or failed.
func (o *Outlet) Left(id ID, now uint64) {
	for n, w := range o.ways {
		if w.id == id && w.entered {
			if o.Until > 0 && now > o.Until {
				o.Counts.Late++
			}
			o.ways = slices.Delete(o.ways, n, n+1)
			o.crowd(now)
			if o.fresh && o.entering() == 0 {
				_ = o.bucket.Set(bucket.Rate{Den: 1}, 0, now) // what flowed in meanwhile was others'
				o.fresh = false
				o.crowd(now)
			}
			return
		}
	}
}

// Return gives a token back whose message did not begin to enter.
func (o *Outlet) Return(id ID, now uint64) {
	first := true
	o.drop(now, func(w way) bool {
		found := first && w.id == id && !w.entered
		first = first && !found
		return found
	})
}

// drop takes messages off their way, and puts their tokens back.
func (o *Outlet) drop(now uint64, which func(way) bool) {
	for n := 0; n < len(o.ways); {
		if !which(o.ways[n]) {
			n++
			continue
		}
		o.ways = slices.Delete(o.ways, n, n+1)
		o.crowd(now)
		if o.Counts.Returned++; !o.Open {
			o.bucket.Return(1, now)
		}
	}
}
