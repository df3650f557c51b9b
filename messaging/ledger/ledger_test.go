// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"giusto.dev/messaging/wire"
)

// A holder with a network that loses, repeats and reorders: it applies any answer that is newer than what it has, any time later.
type peer struct {
	inForce Version
	share   wire.Share
	flying  []Offer
}

// Whatever is lost, late or dead, shares in force never add up to more than the whole; and when the network is whole again every holder
// gets what it is to have.
func TestSharesInForceNeverExceedTheWhole(t *testing.T) {
	const runs = 3000
	grown, shrunk, died, rose := 0, 0, 0, 0
	for run := range runs {
		random := rand.New(rand.NewPCG(5, uint64(run)))
		whole := wire.Share{Rate: uint64(1+random.IntN(1000)) * wire.Unit, Depth: uint64(1+random.IntN(50)) * wire.Unit}
		book, peers, number := New(whole), map[string]*peer{}, uint64(0)
		allowed := whole // the largest whole of late: shares shrink after it was lowered
		settle := func() {
			for _, name := range book.Settle(func(string) Version { number++; return Version{1, number} }) {
				if peers[name] == nil {
					peers[name] = &peer{}
				}
				offers := book.Offers[name]
				peers[name].flying = append(peers[name].flying, offers[len(offers)-1])
			}
		}
		check := func(when string) {
			var sum wire.Share
			for _, p := range peers {
				sum.Rate, sum.Depth = sum.Rate+p.share.Rate, sum.Depth+p.share.Depth
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
					book.Whole = wire.Share{Rate: whole.Rate * 2, Depth: whole.Depth * 2}
					allowed = book.Whole
					rose++
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
	fmt.Printf("ledger: %d runs: %d shares grew, %d shrank, %d holders died, %d wholes rose\n", runs, grown, shrunk, died, rose)
	if min(grown, shrunk, died, rose) < 100 {
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
