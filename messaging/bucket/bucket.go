// SPDX-License-Identifier: Apache-2.0

// Package bucket is the token bucket by virtual scheduling: no timer refills it, every call computes what the time passed has
// brought.
//
// A rate r = num / den tokens a second and a burst b. The law: what is released at instants of any window [s, t], both ends
// included, is at most b + r(t − s) tokens, exactly. A released token leaves at the least whole ns that keeps it.
//
// It is policy/bucket.h in Go, to the bit: both play the same transcripts. What is rounded, and why, stands there. Memory, lock
// and clock belong to the caller. Calls are O(1).
package bucket

import (
	"errors"
	"math/bits"
)

const (
	// Token is one token, in the unit of burst, fill and level.
	Token = 1 << 20
	// Last is the last instant, and the largest burst.
	Last = 1 << 62
	// A rate's num and den are less than these.
	mostNum, mostDen = 1 << 52, 1 << 42
)

// Why a call was refused, which changes nothing.
var (
	ErrRate    = errors.New("the rate's num must be less than 2^52, its den less than 2^42 and not 0")
	ErrBurst   = errors.New("the burst must be at most 2^62 (2^42 tokens)")
	ErrFill    = errors.New("the fill must be at most the burst")
	ErrTime    = errors.New("the time must be at most 2^62 ns")
	ErrTooMany = errors.New("more tokens at once than the burst: at no time will they be there")
	ErrNever   = errors.New("the tokens will not be there before the last instant, 2^62 ns")
)

// Rate is Num / Den tokens a second. Num 0 hands out what is there and then nothing more.
type Rate struct{ Num, Den uint64 }

// The level grows by num 2^11 / den 5^9 in a ns.
func (r Rate) num() uint64 { return r.Num << 11 }
func (r Rate) den() uint64 { return r.Den * 1953125 }

// Bucket holds tokens. All zeros releases nothing.
type Bucket struct {
	rate  Rate
	burst uint64
	at    uint64 // the latest time seen or release given; an earlier one counts as this
	level uint64 // what is in it at `at`, at most burst
	rest  uint64 // and so many parts of den 5^9 of a unit; 0 when full
}

// wide is a number of 128 bits.
type wide struct{ high, low uint64 }

func product(x, y uint64) wide {
	high, low := bits.Mul64(x, y)
	return wide{high, low}
}

// quotient is x / d, rounded down, and what remains. The caller knows that it fits: x.high < d, or both are 0.
func (x wide) quotient(d uint64) (uint64, uint64) {
	if d == 0 {
		return 0, 0
	}
	return bits.Div64(x.high, x.low, d)
}

// lack is what must flow in, in parts, before the level is `level`, which it is not yet.
func (b *Bucket) lack(level uint64) wide {
	all := product(level-b.level, b.rate.den())
	low, borrow := bits.Sub64(all.low, b.rest, 0)
	return wide{all.high - borrow, low}
}

// refill brings `at` and level to now, if that is later. Any number of calls in between give the same.
func (b *Bucket) refill(now uint64) {
	if now <= b.at {
		return
	}
	gain, lack := product(now-b.at, b.rate.num()), b.lack(b.burst)
	b.at = now
	if gain.high > lack.high || gain.high == lack.high && gain.low >= lack.low {
		b.level, b.rest = b.burst, 0
		return
	}
	low, carry := bits.Add64(gain.low, b.rest, 0)
	more, rest := wide{gain.high + carry, low}.quotient(b.rate.den())
	b.level, b.rest = b.level+more, rest
}

// New is a bucket with `fill` in it: the burst for one that stands alone; for a share of one, what was taken out elsewhere.
func New(rate Rate, burst, fill, now uint64) (Bucket, error) {
	b := Bucket{rate: Rate{0, rate.Den}, burst: fill, at: now, level: fill}
	if fill > burst {
		return Bucket{}, ErrFill
	}
	return b, b.Set(rate, burst, now)
}

// Set gives a new rate and burst, from now on, or from the last release given if that is later, since releases stand. What is
// in the bucket stays, up to the new burst: no update adds a token.
func (b *Bucket) Set(rate Rate, burst, now uint64) error {
	switch {
	case rate.Num >= mostNum || rate.Den == 0 || rate.Den >= mostDen:
		return ErrRate
	case burst > Last:
		return ErrBurst
	case now > Last:
		return ErrTime
	}
	b.refill(now)
	if rate.Den != b.rate.Den {
		b.rest, _ = product(b.rest, rate.Den).quotient(b.rate.Den)
	}
	b.rate, b.burst = rate, burst
	if b.level >= burst {
		b.level, b.rest = burst, 0
	}
	return nil
}

// Lacks is what was missing to a full bucket at the latest time seen or release given.
func (b *Bucket) Lacks() uint64 { return b.burst - b.level }

// Take takes n tokens for what arrived now, and returns when it is released: now, or the least ns at which the tokens are
// there, never before an earlier release.
func (b *Bucket) Take(n, now uint64) (uint64, error) {
	switch {
	case now > Last:
		return 0, ErrTime
	case n > b.burst/Token:
		return 0, ErrTooMany
	}
	b.refill(now)
	n *= Token
	if b.level < n {
		lack, num := b.lack(n), b.rate.num()
		if lack.high >= num/2 { // 2^63 ns or more, or no rate at all
			return 0, ErrNever
		}
		wait, rest := lack.quotient(num)
		if rest > 0 {
			wait++
		}
		if wait > Last-b.at {
			return 0, ErrNever
		}
		b.refill(b.at + wait)
	}
	b.level -= n
	return b.at, nil
}

// Admit says whether n tokens are there now; if so they are taken, else nothing changes. For what is dropped or marked instead
// of delayed. Not on a bucket that also delays: there the time may lie ahead, and now would count as that.
func (b *Bucket) Admit(n, now uint64) bool {
	if now > Last || n > b.burst/Token {
		return false
	}
	b.refill(now)
	if b.level < n*Token {
		return false
	}
	b.level -= n * Token
	return true
}

// Return puts back n tokens that were taken, and for which nothing was released. What the burst does not hold is forfeited.
func (b *Bucket) Return(n, now uint64) {
	b.refill(min(now, Last))
	if n = min(n, Last/Token) * Token; b.burst-b.level <= n {
		b.level, b.rest = b.burst, 0
		return
	}
	b.level += n
}

// Level is what was in it at the latest time seen or release given.
func (b *Bucket) Level() uint64 { return b.level }
