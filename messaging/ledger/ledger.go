// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps a topic's token bucket whole while brokers hold shares of it that change. Pure.
//
// The law: at any instant the shares that holders may have in force add up to the whole at most, in rate and in depth; since
// no share that grows or is new brings tokens along (package bucket), what all of them release in any [s, t] is then at
// most depth + rate·(t − s).
//
// What a holder may have in force is not known, only bounded: any offer since the one that it acknowledged last, until its lease has
// run out for certain. So each offer takes at most what the largest offers of all others leave. Shrinking comes first, growing
// when the shrinking was acknowledged.
//
// Calls are O(holders · offers).
package ledger

import (
	"cmp"
	"slices"

	"giusto.dev/messaging/wire"
)

// Version orders offers: of a later leader, or later of the same.
type Version struct {
	Epoch  uint64 `json:"epoch"`
	Number uint64 `json:"number"`
}

// Before says whether it is the earlier one.
func (v Version) Before(w Version) bool {
	return v.Epoch < w.Epoch || v.Epoch == w.Epoch && v.Number < w.Number
}

// Offer is a share that a holder was given.
type Offer struct {
	Version
	wire.Share
}

// Book is one topic's. Its fields are what a later leader has to know.
type Book struct {
	Whole wire.Share `json:"whole"`
	// Offers of each holder: the one in force first, then all that were made since.
	Offers map[string][]Offer `json:"offers"`
	wanted map[string]wire.Share
}

// most: so many offers are kept of a holder, which bounds the book.
const most = 4

// New is the book of a topic of which no broker holds a share.
func New(whole wire.Share) *Book { return &Book{Whole: whole, Offers: map[string][]Offer{}} }

// Want says what each holder is to have in the end. Those that are not there are to have nothing.
func (b *Book) Want(wanted map[string]wire.Share) { b.wanted = wanted }

// Wanted is what a holder is to have in the end.
func (b *Book) Wanted(holder string) wire.Share { return b.wanted[holder] }

// Acknowledge takes note that a holder has all up to this version in force.
func (b *Book) Acknowledge(holder string, seen Version) {
	offers := b.Offers[holder]
	inForce := 0
	for n, o := range offers {
		if !seen.Before(o.Version) {
			inForce = n
		}
	}
	if inForce > 0 {
		b.Offers[holder] = slices.Delete(offers, 0, inForce)
	}
	if offers = b.Offers[holder]; len(offers) == 1 && offers[0].Share == (wire.Share{}) && !seen.Before(offers[0].Version) && b.wanted[holder] == (wire.Share{}) {
		delete(b.Offers, holder)
	}
}

// Gone takes back all that a holder had: it is dead, or its lease has run out.
func (b *Book) Gone(holder string) { delete(b.Offers, holder) }

// Current is the latest offer to a holder; false: there is none.
func (b *Book) Current(holder string) (wire.Share, bool) {
	offers := b.Offers[holder]
	if len(offers) == 0 {
		return wire.Share{}, false
	}
	return offers[len(offers)-1].Share, true
}

// Holders are all that may hold something, in order.
func (b *Book) Holders() []string {
	names := make([]string, 0, len(b.Offers))
	for name := range b.Offers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// InForce says whether a holder has acknowledged what it is to have in the end.
func (b *Book) InForce(holder string) bool {
	offers := b.Offers[holder]
	if len(offers) == 0 {
		return b.wanted[holder] == (wire.Share{})
	}
	return len(offers) == 1 && offers[0].Share == b.wanted[holder]
}

// Settled says whether all holders have acknowledged what they are to have in the end, and none lacks any of it.
func (b *Book) Settled() bool {
	for holder := range b.Offers {
		if !b.InForce(holder) {
			return false
		}
	}
	for holder := range b.wanted {
		if !b.InForce(holder) {
			return false
		}
	}
	return true
}

// reserved is the largest that a holder may have in force, in each of both.
func (b *Book) reserved(holder string) (most wire.Share) {
	for _, o := range b.Offers[holder] {
		most.Rate, most.Depth = max(most.Rate, o.Rate), max(most.Depth, o.Depth)
	}
	return most
}

// Settle makes the offers that come nearest to what is wanted and that the law allows now; `version` numbers the next offer to a holder, and
// is asked only where there is one. It returns who got one. An offer of less than a token or of no rate is one of nothing.
func (b *Book) Settle(version func(holder string) Version) (offered []string) {
	names := b.Holders()
	for name := range b.wanted {
		if _, known := b.Offers[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	reserved := map[string]wire.Share{}
	var sum wire.Share
	for _, name := range names {
		r := b.reserved(name)
		reserved[name] = r
		sum.Rate, sum.Depth = sum.Rate+r.Rate, sum.Depth+r.Depth
	}
	// Who lacks most of what it is to have comes first, so that a new holder does not wait for all others.
	slices.SortStableFunc(names, func(a, c string) int {
		return cmp.Compare(part(reserved[a].Rate, b.wanted[a].Rate), part(reserved[c].Rate, b.wanted[c].Rate))
	})
	for _, name := range names {
		mine, want := reserved[name], b.wanted[name]
		others := wire.Share{Rate: sum.Rate - mine.Rate, Depth: sum.Depth - mine.Depth}
		offer := wire.Share{Rate: min(want.Rate, less(b.Whole.Rate, others.Rate)), Depth: min(want.Depth, less(b.Whole.Depth, others.Depth))}
		if offer.Rate == 0 || offer.Depth < wire.Unit {
			offer = wire.Share{}
		}
		now, known := b.Current(name)
		if known && now == offer || !known && offer == (wire.Share{}) && want == offer {
			continue
		}
		b.offer(name, Offer{version(name), offer})
		offered = append(offered, name)
		after := b.reserved(name)
		sum.Rate, sum.Depth = sum.Rate-mine.Rate+after.Rate, sum.Depth-mine.Depth+after.Depth
	}
	return offered
}

// offer makes one. Of too many the earliest that are not acknowledged become one: from when the later is acknowledged, of the larger of both.
func (b *Book) offer(holder string, o Offer) {
	offers := append(b.Offers[holder], o)
	if len(offers) > most {
		offers[2].Rate, offers[2].Depth = max(offers[1].Rate, offers[2].Rate), max(offers[1].Depth, offers[2].Depth)
		offers = slices.Delete(offers, 1, 2)
	}
	b.Offers[holder] = offers
}

func less(a, b uint64) uint64 { return a - min(a, b) }

func part(of, whole uint64) float64 {
	if whole == 0 {
		return 2
	}
	return float64(of) / float64(whole)
}

// Split divides a whole by weights, exactly: parts add up to it. Each weight that is more than 0 gets at least `floor` where the
// whole has so much.
func Split(whole uint64, weights []float64, floor uint64) []uint64 {
	parts := make([]uint64, len(weights))
	sum, count := 0.0, uint64(0)
	for _, w := range weights {
		if w > 0 {
			sum, count = sum+w, count+1
		}
	}
	if count == 0 {
		return parts
	}
	if floor > whole/count {
		floor = whole / count
	}
	free, given, last := whole-floor*count, uint64(0), 0
	for n, w := range weights {
		if w > 0 {
			parts[n] = floor + min(uint64(float64(free)*(w/sum)), less(whole, given+floor))
			given, last = given+parts[n], n
		}
	}
	parts[last] += less(whole, given)
	return parts
}
