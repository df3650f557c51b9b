// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"container/heap"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/fifo"
)

// eager is the rule that decides each release when the bucket sees its message: the oracle of the one that waits with it.
type eager struct {
	bucket bucket.Bucket
	inbox  inbox[int]
	dues   fifo.Queue[late]
	until  uint64
	seq    uint64
	at     map[int]uint64
}

func (e *eager) take(stamp uint64, n int) { e.at[n], _ = e.bucket.Take(1, stamp) }

func (e *eager) arrive(stamp, now uint64, n int) {
	if stamp = min(stamp, now); now-stamp > Late {
		e.until = max(e.until, now+min(now-stamp, Hold))
	}
	if now >= e.until && len(e.inbox) == 0 {
		e.take(stamp, n)
		return
	}
	e.seq++
	heap.Push(&e.inbox, held[int]{stamp, e.seq, n})
	e.dues.Push(late{now, stamp})
}

func (e *eager) due(now uint64) {
	latest, any := uint64(0), false
	for e.dues.Len() > 0 {
		first := e.dues.First().read
		if max(first, min(first+Hold, e.until)) > now {
			break
		}
		latest, any = max(latest, e.dues.Pop().stamp), true
	}
	for any && len(e.inbox) > 0 && e.inbox[0].stamp <= latest {
		h := heap.Pop(&e.inbox).(held[int])
		e.take(h.stamp, h.message)
	}
}

// As long as the share stays, waiting with a decision changes none: every release is for the same instant as if it was decided when
// the message came, whatever comes and however late Due is called.
func TestReleasesAreThoseThatWouldBeDecidedOnArrival(t *testing.T) {
	waited, total := 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 7))
		rate := bucket.Rate{Num: 1 + random.Uint64N(20_000), Den: 1 + random.Uint64N(7)}
		g := with(t, rate, 1+float64(random.IntN(120))/4)
		e := eager{bucket: g.Bucket, at: map[int]uint64{}}
		at := map[int]uint64{}
		now := uint64(2e9)
		due := func(now uint64) {
			e.due(now)
			g.Due(now, func(n int) {
				if at[n] = g.At; g.At > now {
					t.Fatal("handed out before its instant")
				}
			})
		}
		for n := range 300 {
			switch random.IntN(4) {
			case 0:
				now += random.Uint64N(5 * ms)
			case 1:
				now += random.Uint64N(100_000)
			}
			for next, any := g.Next(); any && next <= now && random.IntN(3) > 0; next, any = g.Next() {
				due(max(next, min(now, next+random.Uint64N(3*ms))))
			}
			stamp := now
			if random.IntN(3) == 0 {
				stamp -= random.Uint64N(20 * ms)
			}
			e.arrive(stamp, now, n)
			if g.Arrive(stamp, now, n) {
				at[n] = g.At
			}
		}
		for next, any := g.Next(); any; next, any = g.Next() {
			due(max(now, next))
		}
		for n := range 300 {
			if at[n] == 0 || at[n] != e.at[n] {
				t.Fatalf("seed %d: message %d is released for %d, decided on arrival for %d", seed, n, at[n], e.at[n])
			}
		}
		waited, total = waited+int(g.Counts.Delayed), total+300
	}
	fmt.Printf("gate: %d messages released as decided on arrival, %d of them delayed\n", total, waited)
	if waited < total/10 {
		t.Error("nothing waited")
	}
}

// fluid is a share by the law, in exact fractions and with no code of the bucket: what it may still release.
type fluid struct {
	level, rate, depth *big.Rat // tokens, tokens a ns
	at, until          uint64
}

func (f *fluid) flow(to uint64) {
	gain := new(big.Rat).Mul(f.rate, new(big.Rat).SetUint64(to-f.at))
	f.at = to
	if f.level.Add(f.level, gain); f.level.Cmp(f.depth) > 0 {
		f.level.Set(f.depth)
	}
}

func tokens(units uint64) *big.Rat {
	return new(big.Rat).Quo(new(big.Rat).SetUint64(units), big.NewRat(bucket.Token, 1))
}

func (f *fluid) share(rate, depth, now uint64) {
	f.flow(now)
	f.rate, f.depth = tokens(rate), tokens(depth)
	f.rate.Quo(f.rate, big.NewRat(1e9, 1))
	f.flow(now)
}

// change is what happened to a share: at, and how the law's bucket changes.
type change struct {
	at    uint64
	apply func(f *fluid)
}

// The law of leases: whatever is granted, taken away, let lapse and however the process is paused, what is released in any window is
// what the shares in force allowed, nothing outside a lease, and nothing waits that the share would let go.
func TestWhateverIsGrantedTheSharesInForceHold(t *testing.T) {
	lapses, shrinks, pauses, tight, late, total := 0, 0, 0, 0, 0, 0
	seeds := uint64(500)
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 8))
		g := Gate[int]{Until: 1}
		f := fluid{new(big.Rat), new(big.Rat), new(big.Rat), 0, 1}
		now, changes := uint64(2e9), []change{}
		type out struct{ at, stamp uint64 }
		outs, stamps := []out{}, []uint64{}
		given := func(n int) { outs = append(outs, out{g.At, stamps[n]}) }
		lease := uint64(1)
		grant := func() {
			rate, depth := random.Uint64N(3000)<<20/(1+random.Uint64N(3)), random.Uint64N(12<<20)
			if random.IntN(8) == 0 {
				rate, depth = 0, 0
			}
			ends := now + random.Uint64N(60*ms)
			at, was := now, lease
			lease = ends
			if now > was || random.IntN(10) == 0 {
				lapses++
				if err := g.Restart(bucket.Rate{Num: rate, Den: bucket.Token}, depth, ends, now); err != nil {
					t.Fatal(err)
				}
				changes = append(changes, change{at, func(f *fluid) {
					f.flow(at)
					f.level.SetInt64(0)
					f.share(rate, depth, at)
					f.until = ends
				}})
				return
			}
			shrinks++
			if random.IntN(2) == 0 {
				g.Until = ends // before or after: it has not come yet
			}
			if err := g.Set(bucket.Rate{Num: rate, Den: bucket.Token}, depth, now); err != nil {
				t.Fatal(err)
			}
			g.Until = ends
			changes = append(changes, change{at, func(f *fluid) { f.share(rate, depth, at); f.until = ends }})
		}
		grant()
		for range 400 {
			switch random.IntN(12) {
			case 0:
				grant()
				now++ // so that the order of releases and changes is that of their instants
			case 1:
				now += random.Uint64N(40 * ms) // paused: what is due is handed out later
				pauses++
			case 2, 3:
				now += random.Uint64N(2 * ms)
			default:
				stamp := now
				if random.IntN(6) == 0 {
					stamp -= random.Uint64N(5 * ms)
				}
				stamps = append(stamps, stamp)
				if g.Arrive(stamp, now, len(stamps)-1) {
					given(len(stamps) - 1)
				}
			}
			for next, any := g.Next(); any && next <= now && random.IntN(4) > 0; next, any = g.Next() {
				g.Due(now, given)
			}
			if random.IntN(2) == 0 {
				next, any := g.Next()
				if now++; any && next > now {
					now = next
					g.Due(now, given)
				}
			}
		}
		now = max(now, lease) + 1
		changes = append(changes, change{now, func(f *fluid) { f.flow(now); f.level.SetInt64(0); f.share(1000<<20, 5<<20, now); f.until = now + 1e12 }})
		g.Restart(bucket.Rate{Num: 1000, Den: 1}, 5<<20, now+1e12, now)
		for next, any := g.Next(); any; next, any = g.Next() {
			g.Due(max(now, next), given)
		}
		if g.Kept() > 0 || len(outs) != len(stamps) {
			t.Fatalf("seed %d: %d stay, %d of %d left", seed, g.Kept(), len(outs), len(stamps))
		}
		one, changed, before := big.NewRat(1, 1), uint64(0), uint64(0)
		for _, o := range outs {
			for len(changes) > 0 && changes[0].at < o.at {
				changed = changes[0].at
				changes[0].apply(&f)
				changes = changes[1:]
			}
			if o.at < before {
				t.Fatalf("seed %d: released for %d after %d", seed, o.at, before)
			}
			if o.at > f.until {
				t.Fatalf("seed %d: released for %d, the lease ended at %d", seed, o.at, f.until)
			}
			early := max(before, changed, o.stamp)
			// What the inbox held at a change counts as come just then.
			if held := len(changes) > 0 && changes[0].at == o.at; o.at > early+1 && o.at > f.at && !held {
				f.flow(o.at - 1)
				if f.level.Cmp(one) >= 0 {
					late++
				}
				tight++
			}
			if f.flow(o.at); f.level.Cmp(one) < 0 {
				t.Fatalf("seed %d: released for %d with only %s tokens", seed, o.at, f.level.FloatString(6))
			}
			f.level.Sub(f.level, one)
			before = o.at
		}
		total += len(outs)
	}
	fmt.Printf("gate: shares in force held: %d messages, %d changes within a lease, %d after a gap, %d pauses; %d of %d that waited were late\n",
		total, shrinks, lapses, pauses, late, tight)
	if lapses < 1000 || shrinks < 1000 || tight < 10_000 || late > tight/500 {
		t.Error("the cases did not occur, or messages wait for nothing")
	}
}

// A smaller share takes effect at once, on what waits already: ten wait at 1000/s when only 1/s is left.
func TestASmallerShareTakesEffectOnWhatWaits(t *testing.T) {
	g := with(t, bucket.Rate{Num: 1000, Den: 1}, 1)
	left := 0
	for n := range 10 {
		if g.Arrive(2e9, 2e9, n) {
			left++
		}
	}
	g.Due(2e9+2*ms, func(int) { left++ })
	if err := g.Set(bucket.Rate{Num: 1, Den: 1}, bucket.Token, 2e9+2*ms+1); err != nil || left != 3 {
		t.Fatal(left, err)
	}
	g.Due(2.9e9, func(int) { t.Error("released by the old share") })
	if next, any := g.Next(); !any || next < 3e9 {
		t.Error(next, any)
	}
	// A share of nothing holds, whatever there is.
	if err := g.Set(bucket.Rate{Num: 0, Den: 1}, 0, 3e9); err != nil {
		t.Fatal(err)
	}
	g.Due(1e15, func(int) { t.Error("released without a share") })
	if next, any := g.Next(); any || g.Kept() != 7 {
		t.Error(next, g.Kept())
	}
}

// What is in use does not count what a share has not gained yet: a burst of 7, then one that drains at the rate, whatever the depth.
func TestWhatIsInUse(t *testing.T) {
	g := Gate[int]{}
	thousand := bucket.Rate{Num: 1000, Den: 1}
	if g.Arrive(1e9, 1e9, 0) || g.Peak() != 0 {
		t.Error("it has no share yet")
	}
	g.Set(thousand, 5*bucket.Token, 1e9)
	if g.Arrive(1e9, 1e9, 0) || g.Peak() != 0 {
		t.Error("it counts without a Restart")
	}
	g.Due(1e9+2*ms, func(int) {})
	g.Arrive(2e9, 2e9, 0)
	g.Set(bucket.Rate{Num: 0, Den: 1}, 0, 2e9)
	g.Arrive(2e9, 2e9, 0)
	g.Restart(thousand, 50*bucket.Token, 0, 3e9) // empty
	used := func(at uint64, count int) float64 {
		for range count {
			g.Arrive(at, at, 0)
		}
		g.Due(at, func(int) {})
		return float64(g.Peak()) / bucket.Token
	}
	// One waits from before; in 3 ms it and two more are gone.
	for n, want := range [][3]float64{{3e9, 6, 7}, {3e9 + 3*ms, 0, 0}, {3e9 + 3*ms, 1, 5}, {3e9 + 100*ms, 1, 1}} {
		if got := used(uint64(want[0]), int(want[1])); got != want[2] {
			t.Errorf("%d: %g in use, expected %g", n, got, want[2])
		}
	}
	g.Set(bucket.Rate{Num: 2000, Den: 1}, 90*bucket.Token, 4e9) // deeper, and not full yet
	if got := used(4e9, 2) + used(4e9+ms/2, 1); got != 4 {
		t.Errorf("%g in use", got)
	}
}
