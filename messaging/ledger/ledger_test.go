// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"giusto.dev/messaging/wire"
)

// A holder with a network that loses, repeats and reorders: it applies any answer that is newer than what it has, any time later.
type peer struct {
	inForce Version
	share   wire.Share
	flying  []Offer
}

// Whatever is lost, late or dead, shares in force never add up to more than the whole, what is ordered from now on never to more than the whole
// that it is now; and when the network is whole again every holder
// gets what it is to have.
func TestSharesInForceNeverExceedTheWhole(t *testing.T) {
	const runs = 3000
	grown, shrunk, died, rose, fell := 0, 0, 0, 0, 0
	for run := range runs {
		random := rand.New(rand.NewPCG(5, uint64(run)))
		whole := wire.Share{Rate: uint64(1+random.IntN(1000)) * wire.Unit, Depth: uint64(1+random.IntN(50)) * wire.Unit}
		book, peers, number := New(whole), map[string]*peer{}, uint64(0)
		allowed, settled := whole, true // the largest whole until all brokers have what was ordered since it was lowered
		settle := func() {
			settled = true
			for _, name := range book.Settle(func(string) Version { number++; return Version{1, number} }) {
				if peers[name] == nil {
					peers[name] = &peer{}
				}
				offers := book.Offers[name]
				peers[name].flying = append(peers[name].flying, offers[len(offers)-1])
			}
			var sum wire.Share
			for _, name := range book.Holders() {
				latest, _ := book.Current(name)
				sum.Rate, sum.Depth = sum.Rate+latest.Rate, sum.Depth+latest.Depth
			}
			if sum.Rate > book.Whole.Rate || sum.Depth > book.Whole.Depth {
				t.Fatalf("run %d: %v is ordered from now on, of %v", run, sum, book.Whole)
			}
		}
		check := func(when string) {
			var sum wire.Share
			latest := true
			for _, p := range peers {
				sum.Rate, sum.Depth = sum.Rate+p.share.Rate, sum.Depth+p.share.Depth
				latest = latest && !slices.ContainsFunc(p.flying, func(o Offer) bool { return p.inForce.Before(o.Version) })
			}
			if latest && settled {
				allowed = book.Whole
			}
			if sum.Rate > allowed.Rate || sum.Depth > allowed.Depth {
				t.Fatalf("run %d, %s: %v in force, of %v", run, when, sum, allowed)
			}
		}
		want := func() {
			names, weights := []string{}, []float64{}
			for n := range 1 + random.IntN(6) {
				names, weights = append(names, fmt.Sprint("b", n)), append(weights, random.Float64())
			}
			rates, depths := Split(book.Whole.Rate, weights, 0), Split(book.Whole.Depth, weights, wire.Unit)
			wanted := map[string]wire.Share{}
			for n, name := range names {
				if depths[n] >= wire.Unit && rates[n] > 0 {
					wanted[name] = wire.Share{Rate: rates[n], Depth: depths[n]}
				}
			}
			book.Want(wanted)
		}
		want()
		for range 60 {
			switch random.IntN(7) {
			case 0:
				want()
			case 1, 2:
				settle()
			case 3, 4: // an answer arrives, in any order
				for _, p := range peers {
					if len(p.flying) > 0 && random.IntN(2) == 0 {
						n := random.IntN(len(p.flying))
						o := p.flying[n]
						if p.inForce.Before(o.Version) {
							if o.Rate > p.share.Rate {
								grown++
							} else {
								shrunk++
							}
							p.inForce, p.share = o.Version, o.Share
						}
						if random.IntN(2) == 0 { // or comes again
							p.flying = append(p.flying[:n], p.flying[n+1:]...)
						}
					}
				}
			case 5: // a report, perhaps an old one
				for name, p := range peers {
					seen := p.inForce
					seen.Number -= min(seen.Number, uint64(random.IntN(3)))
					book.Acknowledge(name, seen)
				}
			case 6:
				for name, p := range peers {
					if random.IntN(10) == 0 {
						*p = peer{inForce: Version{1, number}}
						book.Gone(name)
						died++
						break
					}
				}
				if random.IntN(4) == 0 {
					before, part := book.Whole, uint64(1+random.IntN(20))
					book.Whole = wire.Share{Rate: whole.Rate * part / 10, Depth: max(wire.Unit, whole.Depth*part/10)}
					allowed = wire.Share{Rate: max(allowed.Rate, book.Whole.Rate), Depth: max(allowed.Depth, book.Whole.Depth)}
					if settled = false; book.Whole.Rate > before.Rate {
						rose++
					} else {
						fell++
					}
				}
			}
			check("in between")
		}
		want()
		for range 20 {
			settle()
			for name, p := range peers {
				for _, o := range p.flying {
					if p.inForce.Before(o.Version) {
						p.inForce, p.share = o.Version, o.Share
					}
				}
				p.flying = nil
				book.Acknowledge(name, p.inForce)
			}
			check("at the end")
		}
		for name := range peers {
			if got, wanted := peers[name].share, book.Wanted(name); got != wanted || !book.InForce(name) {
				t.Fatalf("run %d: %s has %v, is to have %v: %v", run, name, got, wanted, book.Offers)
			}
		}
	}
	fmt.Printf("ledger: %d runs: %d shares grew, %d shrank, %d holders died, %d wholes rose, %d fell\n", runs, grown, shrunk, died, rose, fell)
	if min(grown, shrunk, died, rose, fell) < 100 {
		t.Error("not all kinds of change occurred")
	}
}

// Parts add up to the whole, and none that counts is below the floor.
func TestSplitIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	for range 10000 {
		whole, floor := random.Uint64N(1<<52), random.Uint64N(1<<22)
		weights, sum, any := make([]float64, 1+random.IntN(8)), uint64(0), false
		for n := range weights {
			if random.IntN(3) > 0 {
				weights[n], any = random.ExpFloat64(), true
			}
		}
		for n, part := range Split(whole, weights, floor) {
			sum += part
			if weights[n] > 0 && part < floor && whole >= floor*uint64(len(weights)) {
				t.Fatal(whole, weights, floor, part)
			}
		}
		if any && sum != whole {
			t.Fatal(whole, weights, floor, sum)
		}
	}
}
