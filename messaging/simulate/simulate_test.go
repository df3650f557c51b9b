// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math"
	"testing"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

func publishers(count, group int, rate float64) []distribute.Publisher {
	all := make([]distribute.Publisher, count)
	for n := range all {
		all[n] = distribute.Publisher{ID: fmt.Sprint("p", n), Rate: rate}
		if group > 0 {
			all[n].Group = fmt.Sprint("g", n/group)
		}
	}
	return all
}

func share(rate, depth float64) *wire.Share {
	return &wire.Share{Rate: uint64(rate * wire.Unit), Depth: uint64(depth * wire.Unit)}
}

// The law of M/D/1 (giusto analyze bucket --rate 10000/s --tokens 11000/s --depth 26 --split K): mean and p99 of the wait in µs, for
// Poisson publishers behind a k-th part of a bucket.
func TestASplitBucketDelaysAsTheLawSays(t *testing.T) {
	for _, law := range []struct{ k, p99 float64 }{{2, 2218.8}, {3, 4510.0}, {6, 11383.7}} {
		sends := Traffic{}.Sends(publishers(int(1000/law.k), 0, 10), 400*time.Second, 7)
		found, err := Broker{Cores: 1}.Play(sends, 1, share(11000/law.k, 26/law.k), Others{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if p99 := float64(found.Percentile(.99)) / 1e3; math.Abs(p99/law.p99-1) > .06 {
			t.Errorf("split %v ways: p99 of the wait %.1f µs, the law says %.1f", law.k, p99, law.p99)
		}
	}
}

// M/D/1: the mean wait is ρ/(2(1-ρ)) services; p50 and p99 of the time in an M/D/1 of ρ = 0.8 by Erlang's formula (evaluated with
// exact rationals): P(W ≤ x) = (1-ρ) Σ_{n≤x} (ρ(n-x))^n e^{-ρ(n-x)} / n!.
func TestABrokerOfOneCoreIsMD1(t *testing.T) {
	const service = 10_000
	md1 := func(x float64) float64 {
		sum := 0.0
		for n := 0.0; n <= x; n++ {
			gamma, _ := math.Lgamma(n + 1)
			sign := 1.0
			if int(n)%2 == 1 {
				sign = -1
			}
			if x == n {
				if n == 0 {
					sum++
				}
				continue
			}
			sum += sign * math.Exp(n*math.Log(.8*(x-n))+.8*(x-n)-gamma)
		}
		return .2 * sum
	}
	sends := Traffic{}.Sends(publishers(800, 0, 100), 60*time.Second, 3)
	found, _ := Broker{Cores: 1, Message: service}.Play(sends, 1, nil, Others{}, 1)
	for _, p := range []float64{.5, .9, .99} {
		x := float64(found.Percentile(p))/service - 1
		if got := md1(x); math.Abs(got-p) > .15*(1-p) {
			t.Errorf("at the %v of latencies the law has %.4f", p, got)
		}
	}
}

// What depth is, by the bucket that ships: with it at most one in a hundred waits, with a token less more do.
func TestDepthIsTheLeast(t *testing.T) {
	for n, traffic := range []Traffic{{}, {Batch: 10}, {Periodic: true}, {Batch: 10, Periodic: true}, {Batch: 10, Spread: 4 * time.Millisecond}} {
		for _, group := range []int{0, 7, 30} {
			sends := traffic.Sends(publishers(300, group, 10), 20*time.Second, uint64(n))
			depth := Depth(sends, traffic.Batch, 3300, .99)
			waits := func(depth uint64) float64 {
				b, err := bucket.New(bucket.Rate{Num: 3300, Den: 1}, depth*bucket.Token, depth*bucket.Token, 0)
				if err != nil {
					t.Fatal(err)
				}
				waited, all := 0, 0
				for _, sent := range sends {
					for range max(traffic.Batch, 1) {
						if released, _ := b.Take(1, sent); released > sent {
							waited++
						}
						all++
					}
				}
				return float64(waited) / float64(all)
			}
			if part := waits(depth); part > .01 {
				t.Errorf("%+v, groups of %d: %.4f wait for a depth of %d", traffic, group, part, depth)
			}
			if part := waits(depth - 1); depth > 1 && part <= .01 {
				t.Errorf("%+v, groups of %d: only %.4f wait for %d less one", traffic, group, part, depth)
			}
		}
	}
	// The law's least depth for 10 % of headroom is 26, whatever the rate.
	if depth := Depth(Traffic{}.Sends(publishers(1000, 0, 10), 200*time.Second, 5), 1, 11_000, .99); depth < 25 || depth > 27 {
		t.Errorf("depth %d for Poisson; the law says 26", depth)
	}
}

func TestGroupsSendTogetherAtAllBrokers(t *testing.T) {
	all := publishers(60, 30, 10)
	for _, traffic := range []Traffic{{Batch: 10}, {Batch: 10, Periodic: true}} {
		whole := traffic.Sends(all, time.Minute, 1)
		part := traffic.Sends(append(all[:5:5], all[30:35]...), time.Minute, 1)
		if len(whole) != 6*len(part) {
			t.Fatalf("%d of all, %d of a sixth", len(whole), len(part))
		}
		for n, at := range part {
			if whole[6*n] != at {
				t.Fatalf("%+v: send %d of the part at %d, of all at %d", traffic, n, at, whole[6*n])
			}
		}
	}
	spread := Traffic{Batch: 10, Periodic: true, Spread: 8 * time.Millisecond}.Sends(all[:30], time.Second, 1)
	if width := spread[29] - spread[0]; width == 0 || width > 8_000_000 {
		t.Errorf("a group's batches are spread over %d ns", width)
	}
}

func TestRatesAreKept(t *testing.T) {
	for _, traffic := range []Traffic{{}, {Periodic: true}, {Batch: 10}, {Batch: 10, Periodic: true}} {
		for _, group := range []int{0, 10} {
			sends := traffic.Sends(publishers(200, group, 10), 50*time.Second, 2)
			events := 1e5 / float64(max(traffic.Batch, 1)*max(group, 1)) // independent of each other
			if messages := float64(len(sends) * max(traffic.Batch, 1)); math.Abs(messages/1e5-1) > 4/math.Sqrt(events) {
				t.Errorf("%+v, groups of %d: %v messages of 100,000", traffic, group, messages)
			}
		}
	}
}

// Others take the cores' time, and stalls stop them.
func TestOthersAndStallsDelay(t *testing.T) {
	sends := Traffic{}.Sends(publishers(1000, 0, 10), 20*time.Second, 1)
	p99 := func(b Broker, others Others) time.Duration {
		found, err := b.Play(sends, 1, nil, others, 1)
		if err != nil {
			t.Fatal(err)
		}
		return found.Percentile(.99)
	}
	idle := p99(Testbed, Others{})
	if busy := p99(Testbed, Others{60_000, 10}); busy <= idle {
		t.Errorf("p99 %v with others and %v without", busy, idle)
	}
	stalling := Testbed
	stalling.Every, stalling.Stall = 100e6, 5e6
	if stalled := p99(stalling, Others{}); stalled < 5*time.Millisecond {
		t.Errorf("p99 %v with a stall of 5 ms each 100 ms", stalled)
	}
}

func TestLatenciesTellPercentiles(t *testing.T) {
	l := &Latencies{}
	for n := 1; n <= 100_000; n++ {
		l.Observe(float64(n))
	}
	for _, p := range []float64{.001, .5, .99, 1} {
		if found := float64(l.Percentile(p)); found < p*1e5 || found > p*1e5*(1+1./128)+1 {
			t.Errorf("the %v is %v", p, found)
		}
	}
}

func BenchmarkAMillionMessages(b *testing.B) {
	all := publishers(10_000, 0, 10)
	for range b.N {
		sends := Traffic{}.Sends(all, 10*time.Second, 1)
		Testbed.Play(sends, 1, share(110_000, 26), Others{}, 1)
	}
}

func BenchmarkAMillionMessagesPeriodic(b *testing.B) {
	all := publishers(10_000, 0, 10)
	for range b.N {
		sends := Traffic{Periodic: true}.Sends(all, 10*time.Second, 1)
		Testbed.Play(sends, 1, share(110_000, 26), Others{}, 1)
	}
}
