// SPDX-License-Identifier: Apache-2.0

package outlet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"giusto.dev/messaging/bucket"
)

// play is a channel whose consumers are slow, leave, and come back, at a broker that is stopped, killed and started
// again, in virtual time. It returns when messages entered sockets, and counts what occurred.
func play(seed uint64, rate bucket.Rate, depth uint64, counts map[string]int) (entries []uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	now, next := uint64(1e9), 0
	var o Outlet
	start := func(fill uint64) {
		o = Outlet{}
		if err := o.Start(rate, depth, fill, now); err != nil {
			panic(err)
		}
	}
	start(depth)
	type message struct {
		id    ID
		stage int // 0: granted, 1: its write has begun
	}
	var ways []message
	lease := uint64(0)
	if seed%2 == 0 {
		lease = now + 2e9
		o.Until = lease
	}
	for range 300 {
		now += uint64(random.ExpFloat64() * 1e15 * float64(rate.Den) / float64(rate.Num) / 1e6 / 2)
		switch what := random.IntN(20); {
		case what < 9:
			at, any := o.Next(now)
			if any && random.IntN(2) == 0 {
				now = max(now, at)
			}
			var id ID
			next++
			copy(id[:], fmt.Sprint(next))
			if granted := o.Grant(id, now); granted != (any && at <= now) {
				panic(fmt.Sprintf("Next says %v %v at %v, and Grant %v", at, any, now, granted))
			} else if granted {
				ways = append(ways, message{id, 0})
			}
		case what < 17 && len(ways) > 0:
			n := random.IntN(len(ways))
			w := &ways[n]
			if w.stage == 0 {
				if o.Enter(w.id, now) {
					w.stage = 1
				} else {
					counts["not let in"]++
					ways = slices.Delete(ways, n, n+1)
				}
				break
			}
			if random.IntN(8) > 0 { // else its consumer has left
				entries = append(entries, now)
			} else {
				counts["left before"]++
			}
			o.Left(w.id, now)
			ways = slices.Delete(ways, n, n+1)
		case what == 17:
			now += random.Uint64N(3e8)
			counts["stopped"]++
			if len(ways) > 1 {
				counts["stopped with several on their way"]++
			}
		case what == 18 && random.IntN(3) == 0:
			for _, w := range ways { // the kernel may have taken them just before
				if w.stage == 1 && random.IntN(2) == 0 {
					entries = append(entries, now)
					counts["entered as it was killed"]++
				}
			}
			ways = nil
			start(0)
			if lease > 0 {
				lease = now + random.Uint64N(2e9)
				o.Until = lease
			}
			counts["killed"]++
		case what == 19 && len(ways) > 0 && ways[0].stage == 0:
			o.Return(ways[0].id, now)
			ways = ways[1:]
			counts["returned"]++
		case lease > 0:
			if now > lease && random.IntN(3) == 0 { // another may have had it meanwhile; this one begins anew
				lease = now + random.Uint64N(2e9)
				o.Until = lease
				if err := o.Start(rate, depth, 0, now); err != nil {
					panic(err)
				}
				counts["leased again"]++
			}
		}
	}
	counts["stale"] += int(o.Counts.Returned)
	return entries
}

// beyond is by how many messages a row of instants is beyond the bucket, at worst. An independent reckoning: all pairs.
func beyond(entries []uint64, rate bucket.Rate, depth uint64) (worst float64) {
	slices.Sort(entries)
	r := float64(rate.Num) / float64(rate.Den) / 1e9
	for i := range entries {
		for j := i; j < len(entries); j++ {
			worst = max(worst, float64(j-i+1)-float64(depth)/bucket.Token-r*float64(entries[j]-entries[i]))
		}
	}
	return worst
}

// However late messages enter after they were granted their token, and whatever happens to the process, no window has
// more than its bucket.
func TestNoWindowIsAboveTheBucket(t *testing.T) {
	plays := 10_000
	if os.Getenv("GIUSTO_SOAK") == "1" {
		plays = 100_000
	}
	counts, entered := map[string]int{}, 0
	for seed := range uint64(plays) {
		random := rand.New(rand.NewPCG(seed, 2))
		rate := bucket.Rate{Num: 1 + random.Uint64N(5000), Den: 1 + random.Uint64N(4)}
		depth := bucket.Token + random.Uint64N(12*bucket.Token)
		entries := play(seed, rate, depth, counts)
		entered += len(entries)
		if worst := beyond(entries, rate, depth); worst > 1e-6 {
			t.Fatalf("seed %d: %.6f beyond %v and %d", seed, worst, rate, depth)
		}
	}
	fmt.Printf("outlet: %d plays, %d messages entered, %v\n", plays, entered, counts)
	for _, kind := range []string{"not let in", "left before", "stopped with several on their way", "entered as it was killed", "killed", "returned", "leased again", "stale"} {
		if counts[kind] < plays/100 {
			t.Errorf("%s: only %d times", kind, counts[kind])
		}
	}
}

// With messages that enter as soon as they are granted, an outlet lets through as much as its bucket.
func TestNoTokenIsWasted(t *testing.T) {
	rate, depth := bucket.Rate{Num: 1000, Den: 1}, uint64(3*bucket.Token)
	var o Outlet
	if err := o.Start(rate, depth, depth, 0); err != nil {
		t.Fatal(err)
	}
	count := 0
	for now := uint64(0); now <= 1e9; {
		at, any := o.Next(now)
		if !any {
			t.Fatal("it holds")
		}
		if now = at; now > 1e9 {
			break
		}
		if !o.Grant(ID{1}, now) || !o.Enter(ID{1}, now) {
			t.Fatal("not granted")
		}
		o.Left(ID{1}, now)
		count++
	}
	if count != 1003 {
		t.Errorf("%d in a second, with 1000/s and 3", count)
	}
}

// A share of nothing is in force when nothing is entering any more, and a smaller one when no more is entering than it allows.
func TestASmallerShareIsInForceWhenWhatEntersFits(t *testing.T) {
	rate, depth := bucket.Rate{Num: 1000, Den: 1}, uint64(5*bucket.Token)
	var o Outlet
	o.Start(rate, depth, depth, 0)
	for n := range byte(4) {
		if !o.Grant(ID{n}, 0) || n < 3 && !o.Enter(ID{n}, 0) {
			t.Fatal(n)
		}
	}
	o.Set(rate, 2*bucket.Token, 0)
	if o.Settled() {
		t.Error("three are entering, two are allowed")
	}
	if o.Enter(ID{3}, 0) {
		t.Error("one that had not begun kept its token")
	}
	o.Left(ID{0}, 0)
	if !o.Settled() {
		t.Error("two are entering, two are allowed")
	}
	o.Hold(0)
	o.Left(ID{1}, 0)
	if o.Settled() {
		t.Error("one is entering")
	}
	o.Left(ID{2}, 0)
	if !o.Settled() || o.Grant(ID{9}, 1e9) {
		t.Error("it does not hold")
	}
	// What enters when a share begins anew belongs to the one before: until it is in, nothing flows in.
	o.Start(rate, depth, depth, 0)
	o.Grant(ID{1}, 0)
	o.Enter(ID{1}, 0)
	o.Start(rate, depth, 0, 0)
	if o.Settled() || o.Grant(ID{2}, 1e9) {
		t.Error("granted while one of before is entering")
	}
	o.Left(ID{1}, 1e9)
	if at, any := o.Next(1e9); !any || at != 1e9+1e6 || !o.Settled() {
		t.Error(at, any)
	}
}
