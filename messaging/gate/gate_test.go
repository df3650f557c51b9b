// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"giusto.dev/messaging/bucket"
)

const ms = 1_000_000

// passing is one message's way through a gate in virtual time.
type passing struct{ stamp, read, left uint64 }

// run reads messages (stamp, read), ordered by when they are read, and calls Due at every time that Next tells, or up to `late`
// after it, as a busy process does.
func run(t *testing.T, g *Gate[int], all []passing, late func() uint64) {
	t.Helper()
	due := func(now uint64) {
		g.Due(now, func(n int) { all[n].left = now })
	}
	for n := range all {
		for next, any := g.Next(); any && next+late() < all[n].read; next, any = g.Next() {
			due(max(next, min(next+late(), all[n].read)))
		}
		if g.Arrive(all[n].stamp, all[n].read, n) {
			all[n].left = all[n].read
		}
	}
	for next, any := g.Next(); any; next, any = g.Next() {
		due(next)
	}
	if g.Kept() != 0 {
		t.Fatal("kept", g.Kept())
	}
}

func with(t *testing.T, rate bucket.Rate, tokens float64) *Gate[int] {
	t.Helper()
	burst := uint64(tokens * bucket.Token)
	b, err := bucket.New(rate, burst, burst, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &Gate[int]{Bucket: b}
}

// most is the largest excess over b + r·t in any window of the times, which are in order: an oracle in exact fractions, with no
// code of the bucket. For every window that ends at the nth, the worst start is where n − r·t is least.
func most(times []uint64, rate bucket.Rate, tokens float64) *big.Rat {
	r := new(big.Rat).Quo(new(big.Rat).SetFrac(new(big.Int).SetUint64(rate.Num), new(big.Int).SetUint64(rate.Den)), big.NewRat(1e9, 1))
	burst := new(big.Rat).SetFloat64(tokens)
	var least, worst *big.Rat
	for n, at := range times {
		flowed := new(big.Rat).Mul(r, new(big.Rat).SetFrac(new(big.Int).SetUint64(at), big.NewInt(1)))
		before := new(big.Rat).Sub(big.NewRat(int64(n), 1), flowed)
		if least == nil || before.Cmp(least) < 0 {
			least = before
		}
		excess := new(big.Rat).Sub(new(big.Rat).Add(before, big.NewRat(1, 1)), least)
		if excess.Sub(excess, burst); worst == nil || excess.Cmp(worst) > 0 {
			worst = excess
		}
	}
	return worst
}

// The law of the limit: whatever comes, however late and in whatever order it is read, the releases decided in any window [s, t]
// are at most b + r(t − s). What is decided is what Next tells, when Due is called just then.
func TestInAnyWindowNoMoreIsReleasedThanTheLimit(t *testing.T) {
	held, delayed, fractions, total := uint64(0), uint64(0), 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		rate := bucket.Rate{Num: 1 + random.Uint64N(20_000), Den: 1 + random.Uint64N(7)}
		tokens := 1 + float64(random.IntN(120))/4
		if tokens != float64(int(tokens)) {
			fractions++
		}
		g := with(t, rate, tokens)
		now, all := uint64(2e9), []passing{}
		for range 300 {
			switch random.IntN(4) {
			case 0:
				now += random.Uint64N(5 * ms)
			case 1:
				now += random.Uint64N(100_000)
			}
			stamp := now
			if random.IntN(3) == 0 {
				stamp -= random.Uint64N(20 * ms)
			}
			all = append(all, passing{stamp: stamp, read: now})
		}
		run(t, g, all, func() uint64 { return 0 })
		times := make([]uint64, 0, len(all))
		for _, p := range all {
			if p.left < p.read {
				t.Fatal("left before it was read")
			}
			times = append(times, p.left)
		}
		slices.Sort(times)
		// A message that passes late, because it was read late or held, leaves after the release that was decided for it, so that
		// windows of real departures may hold what was decided for up to 20 ms + Hold before: those are the law's windows, longer by that.
		slack := new(big.Rat).Mul(big.NewRat(20*ms+Hold, 1e9), new(big.Rat).SetFrac(new(big.Int).SetUint64(rate.Num), new(big.Int).SetUint64(rate.Den)))
		if excess := most(times, rate, tokens); excess.Cmp(slack) > 0 {
			t.Fatalf("seed %d: %s tokens over the limit in a window", seed, excess.FloatString(3))
		}
		held, delayed, total = held+g.Counts.Held, delayed+g.Counts.Delayed, total+len(all)
	}
	fmt.Printf("gate: limit kept in all windows: 300 seeds, %d messages, %d held, %d delayed, %d depths a fraction\n", total, held, delayed, fractions)
	if held < 1000 || delayed < 10_000 || fractions < 100 {
		t.Error("the cases did not occur")
	}
}

// Read at once, the departures themselves keep the law, exactly.
func TestReadInTimeDeparturesKeepTheLimitExactly(t *testing.T) {
	tight := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 4))
		rate, tokens := bucket.Rate{Num: 1000, Den: 1 + random.Uint64N(3)}, 1+float64(random.IntN(40))/4
		g := with(t, rate, tokens)
		now, all := uint64(2e9), []passing{}
		for range 400 {
			now += uint64(random.ExpFloat64() * ms)
			all = append(all, passing{stamp: now - random.Uint64N(Late), read: now})
		}
		run(t, g, all, func() uint64 { return 0 })
		times := []uint64{}
		for _, p := range all {
			times = append(times, p.left)
		}
		slices.Sort(times)
		// Up to Late passes between a stamp and its reading.
		slack := new(big.Rat).Mul(big.NewRat(Late, 1e9), big.NewRat(int64(rate.Num), int64(rate.Den)))
		excess := most(times, rate, tokens)
		if excess.Cmp(slack) > 0 {
			t.Fatalf("seed %d: %s over", seed, excess.FloatString(6))
		}
		if excess.Cmp(big.NewRat(-1, 10)) > 0 {
			tight++
		}
	}
	fmt.Printf("gate: read in time: 200 seeds, the limit was reached in %d\n", tight)
	if tight < 100 {
		t.Error("the limit was not reached")
	}
}

// stalls makes messages at random, 1000/s, read by a process that is stopped for 40 ms every 250 ms. What came meanwhile is read in
// any order when it goes on, each 5 us after the other.
func stalls(random *rand.Rand, count int) []passing {
	all, now, stopped := []passing{}, float64(2e9), []passing{}
	wake := func(at uint64) {
		random.Shuffle(len(stopped), func(i, j int) { stopped[i], stopped[j] = stopped[j], stopped[i] })
		for n, p := range stopped {
			p.read = at + uint64(n)*5000
			all = append(all, p)
		}
		stopped = stopped[:0]
	}
	for range count {
		now += random.ExpFloat64() * 1e6
		stamp := uint64(now)
		cycle := stamp / (250 * ms) * (250 * ms)
		if len(stopped) > 0 && stamp/(250*ms) != stopped[0].stamp/(250*ms) || stamp-cycle >= 40*ms && len(stopped) > 0 {
			wake(end(stopped))
		}
		if stamp-cycle < 40*ms {
			stopped = append(stopped, passing{stamp: stamp})
			continue
		}
		all = append(all, passing{stamp: stamp, read: stamp + 50_000})
	}
	wake(end(stopped))
	slices.SortStableFunc(all, func(a, b passing) int { return int(int64(a.read) - int64(b.read)) })
	return all
}

// end is when the stop ended in which these came.
func end(stopped []passing) uint64 {
	if len(stopped) == 0 {
		return 0
	}
	return stopped[0].stamp/(250*ms)*(250*ms) + 40*ms
}

// delayedPart is the part of messages that leave more than Hold and a little after they were read.
func delayedPart(all []passing) float64 {
	count := 0
	for _, p := range all {
		if p.left > p.read+Hold+1000 {
			count++
		}
	}
	return float64(count) / float64(len(all))
}

// The law of the inbox: who keeps to the limit is not delayed because the process was stopped. Beside it the same with stamps of
// when a message was read, and with kernel stamps in the order of reading.
func TestWhoKeepsTheLimitIsNotDelayedByReadingLate(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	all := stalls(random, 20_000)
	rate, tokens := bucket.Rate{Num: 1100, Den: 1}, 26.0
	part := map[string]float64{}
	g := with(t, rate, tokens)
	run(t, g, all, func() uint64 { return 0 })
	part["inbox"] = delayedPart(all)
	byReading := slices.Clone(all)
	for n := range byReading {
		byReading[n].stamp, byReading[n].left = byReading[n].read, 0
	}
	run(t, with(t, rate, tokens), byReading, func() uint64 { return 0 })
	part["when read"] = delayedPart(byReading)
	unordered, b := 0, with(t, rate, tokens).Bucket
	for _, p := range all {
		if at, _ := b.Take(1, p.stamp); at > p.read+Hold+1000 {
			unordered++
		}
	}
	part["as read"] = float64(unordered) / float64(len(all))
	ideal, b := 0, with(t, rate, tokens).Bucket
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b passing) int { return int(int64(a.stamp) - int64(b.stamp)) })
	for _, p := range sorted {
		if at, _ := b.Take(1, p.stamp); at > p.stamp {
			ideal++
		}
	}
	fmt.Printf("gate: stopped 40 ms every 250 ms: delayed %.2f %% with the inbox, %.1f %% stamped when read, %.1f %% with stamps as they were read; %.2f %% if never stopped\n",
		100*part["inbox"], 100*part["when read"], 100*part["as read"], 100*float64(ideal)/float64(len(all)))
	if 5*part["inbox"] > min(part["when read"], part["as read"]) || part["inbox"] > 0.03 {
		t.Error("the inbox does not help")
	}
	// Exactly: traffic of one message each 1/r, which leaves the bucket no spare token, is never delayed, whatever the stops: if the
	// first that is read after a stop is one that shows it, and all of the stop are read within Hold.
	even := []passing{}
	for n := range uint64(5000) {
		stamp := 2e9 + n*ms
		read := stamp
		if into := stamp % (250 * ms); into <= 40*ms {
			read = stamp - into + 40*ms + random.Uint64N(200_000)
			if into == 40*ms {
				read = stamp + 200_000
			}
		}
		even = append(even, passing{stamp: stamp, read: read})
	}
	slices.SortStableFunc(even, func(a, b passing) int { return int(int64(a.read) - int64(b.read)) })
	g = with(t, bucket.Rate{Num: 1000, Den: 1}, 2)
	run(t, g, even, func() uint64 { return 0 })
	if g.Counts.Delayed > 0 || g.Counts.Held < 500 || delayedPart(even) > 0 {
		t.Errorf("conformant traffic: %d delayed, %d held", g.Counts.Delayed, g.Counts.Held)
	}
}

// Whatever was read within a hold leaves in the order of its stamps, nothing is held longer than Hold, and nothing is lost.
func TestTheOrderIsThatOfTheStamps(t *testing.T) {
	inverted, held := 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 6))
		g := with(t, bucket.Rate{Num: 1 << 40, Den: 1}, 1e6)
		now, all := uint64(2e9), []passing{}
		for range 100 {
			now += random.Uint64N(200_000)
			all = append(all, passing{stamp: now - random.Uint64N(4*ms), read: now})
		}
		order := []int{}
		for n, p := range all {
			for next, any := g.Next(); any && next <= p.read; next, any = g.Next() {
				g.Due(next, func(n int) { order = append(order, n); all[n].left = next })
			}
			if g.Arrive(p.stamp, p.read, n) {
				order = append(order, n)
				all[n].left = p.read
			}
		}
		for next, any := g.Next(); any; next, any = g.Next() {
			g.Due(next, func(n int) { order = append(order, n); all[n].left = next })
		}
		if len(order) != len(all) {
			t.Fatal("lost", len(all)-len(order))
		}
		for i, n := range order {
			if all[n].left > all[n].read+Hold {
				t.Fatal("held too long", all[n])
			}
			if all[n].left > all[n].read {
				held++
			}
			for _, m := range order[:i] {
				if all[m].stamp <= all[n].stamp {
					continue
				}
				// A later stamp left first: only if this one was not here yet.
				if all[n].read <= all[m].left && all[n].read != all[m].left {
					t.Fatal("out of order", all[m], all[n])
				}
				inverted++
			}
		}
	}
	fmt.Printf("gate: order: 20000 messages, %d held, %d pairs out of order since one was not read yet\n", held, inverted)
	if held < 5000 {
		t.Error("nothing was held")
	}
}

// Of what is held, only what is stamped before something whose time has come leaves: the rest waits for others to come in between.
func TestWhatIsStampedLaterStays(t *testing.T) {
	g := with(t, bucket.Rate{Num: 1 << 40, Den: 1}, 100)
	var order []int
	pass := func(n int) { order = append(order, n) }
	for n, p := range [][2]uint64{{10_000, 12_000}, {13_000, 13_400}, {12_900, 13_450}, {13_300, 13_470}, {13_200, 13_900}} {
		if p[1] == 13_900 {
			g.Due(13_500_000, pass)
		}
		if g.Arrive(p[0]*1000, p[1]*1000, n) {
			t.Fatal("not held", p)
		}
	}
	g.Due(16_000_000, pass)
	if fmt.Sprint(order) != "[0 2 1 4 3]" {
		t.Error(order)
	}
}

// A stamp in the future counts as now: it makes no tokens.
func TestAStampInTheFutureMakesNoTokens(t *testing.T) {
	g := with(t, bucket.Rate{Num: 10, Den: 1}, 5)
	now, passed := uint64(5e9), 0
	for range 20 {
		if g.Arrive(now+3600e9, now, 0) {
			passed++
		}
	}
	if passed != 5 {
		t.Error(passed)
	}
}
