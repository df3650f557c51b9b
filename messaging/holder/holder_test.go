// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/gate"
	"giusto.dev/messaging/wire"
)

const second = uint64(time.Second)

func orders(epoch, version uint64, lease time.Duration, rates ...uint64) wire.Orders {
	o := wire.Orders{Epoch: epoch, Version: version, Lease: lease}
	for n, rate := range rates {
		o.Topics = append(o.Topics, wire.Order{Topic: fmt.Sprint("t", n), Share: wire.Share{Rate: rate * wire.Unit, Depth: rate * wire.Unit / 10}})
	}
	return o
}

func shown(steps []Step, err error) string {
	text := ""
	for _, s := range steps {
		text += fmt.Sprintf("%s %s; ", s.Topic, [...]string{"keep", "set", "restart", "free"}[s.Change])
	}
	if err != nil {
		text += "refused"
	}
	return text
}

func TestTheLifeOfALease(t *testing.T) {
	h := Holder{}
	for n, step := range []struct {
		now, asked uint64
		orders     wire.Orders
		want       string
		until      uint64
	}{
		{10 * second, 9 * second, orders(1, 1, 10*time.Second, 100, 50), "t0 restart; t1 restart; ", 19 * second},
		{11 * second, 10 * second, orders(1, 1, 10*time.Second, 100, 50), "t0 keep; t1 keep; ", 20 * second},
		{12 * second, 11 * second, orders(1, 2, 10*time.Second, 100, 20), "t0 keep; t1 set; ", 21 * second},
		{13 * second, 12 * second, orders(1, 1, 10*time.Second, 100, 50), "refused", 21 * second},
		{13 * second, 12 * second, orders(0, 9, 10*time.Second, 100, 50), "refused", 21 * second},
		{14 * second, 13 * second, orders(2, 1, 10*time.Second, 100), "t0 keep; t1 free; ", 23 * second},
		{15 * second, 14 * second, orders(1, 7, 10*time.Second, 100, 50), "refused", 23 * second},
		{23 * second, 22 * second, orders(2, 2, 10*time.Second, 100, 0), "t0 keep; t1 restart; ", 32 * second},
		// It ran out. What is refused then does not hide that.
		{32*second + 1, 32 * second, orders(2, 1, 10*time.Second, 100, 0), "refused", 32 * second},
		{33 * second, 32 * second, orders(2, 2, 10*time.Second, 100, 0), "t0 restart; t1 restart; ", 42 * second},
		// An answer that comes when its own lease is over.
		{41 * second, 34 * second, orders(2, 3, 5*time.Second, 10), "refused", 42 * second},
		{42 * second, 41 * second, orders(2, 3, 10*time.Second, 10), "t0 set; t1 free; ", 51 * second},
	} {
		if got := shown(h.Apply(step.now, step.asked, step.orders)); got != step.want || h.Until() != step.until {
			t.Errorf("%d: %s, until %d; expected %s, %d", n, got, h.Until(), step.want, step.until)
		}
	}
	if epoch, version := h.Seen(); epoch != 2 || version != 3 {
		t.Error(epoch, version)
	}
	if _, err := h.Apply(43*second, 42*second, orders(1, 9, 0)); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
}

// Orders that make no sense change nothing: neither shares nor the lease.
func TestNonsenseIsRefusedWhole(t *testing.T) {
	h := Holder{}
	h.Apply(1, 1, orders(1, 1, time.Minute, 100))
	for name, spoil := range map[string]func(*wire.Orders){
		"no version":     func(o *wire.Orders) { o.Epoch, o.Version = 0, 0 },
		"negative lease": func(o *wire.Orders) { o.Lease = -1 },
		"endless lease":  func(o *wire.Orders) { o.Lease = 1 << 62 },
		"twice":          func(o *wire.Orders) { o.Topics = append(o.Topics, o.Topics[0]) },
		"rate":           func(o *wire.Orders) { o.Topics[0].Rate = 1 << 52 },
		"depth":          func(o *wire.Orders) { o.Topics[0].Depth = 1<<62 + 1 },
		"queue":          func(o *wire.Orders) { o.Topics[0].Queue = -1 },
	} {
		o := orders(1, 2, time.Hour, 7)
		spoil(&o)
		if steps, err := h.Apply(2, 2, o); err == nil || steps != nil {
			t.Errorf("%s: taken", name)
		}
		if _, version := h.Seen(); version != 1 || h.Until() != 1+uint64(time.Minute) {
			t.Errorf("%s: something changed", name)
		}
	}
}

// The law of two brokers: a whole of 1000/s and depth 5 that goes to and fro between them, by a distributor that gives one's part away
// only when that has reported it or its lease has run out, lets no more pass in any window than one bucket would. Reports and
// answers take their time or are lost, brokers are killed.
func TestAWholeThatGoesToAndFroStaysOne(t *testing.T) {
	const rate, depth, lease = 1000, 5, 50 * time.Millisecond
	killed, moves, lapses, lates, total := 0, 0, 0, 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		type node struct {
			Holder
			gate    gate.Gate[uint64]
			version uint64 // the last ordered
			share   uint64 // in that, tokens of depth
			most    uint64 // that it may hold
			expires uint64 // when it holds nothing for certain
			answer  *wire.Orders
			asked   uint64
			comes   uint64
		}
		nodes := [2]*node{{}, {}}
		for _, n := range nodes {
			n.gate.Until = 1
		}
		var at []uint64
		now := second
		for range 4000 {
			now += random.Uint64N(500_000)
			n := nodes[random.IntN(2)]
			other := nodes[0]
			if n == other {
				other = nodes[1]
			}
			out := func(uint64) { at = append(at, n.gate.At) }
			switch random.IntN(10) {
			case 0: // it asks, and the distributor answers
				if n.answer != nil && n.comes > now {
					break
				}
				n.asked, n.answer = now, nil
				if now > n.expires {
					n.most = 0
				} else if _, seen := n.Seen(); seen == n.version {
					n.most = n.share
				}
				if now > other.expires {
					other.most = 0
				}
				share := min(random.Uint64N(depth+1), depth-other.most)
				if share != n.share || n.version == 0 {
					n.version, n.share = n.version+1, share
					moves++
				}
				n.most = max(n.most, share)
				n.expires = now + uint64(lease)
				o := wire.Orders{Epoch: 1, Version: n.version, Lease: lease, Topics: []wire.Order{{Topic: "t",
					Share: wire.Share{Rate: share * wire.Unit * rate / depth, Depth: share * wire.Unit}}}}
				if random.IntN(4) > 0 {
					n.answer, n.comes = &o, now+random.Uint64N(uint64(80*time.Millisecond))
				}
			case 1: // the answer arrives
				if n.answer == nil || n.comes > now {
					break
				}
				steps, err := n.Apply(now, n.asked, *n.answer)
				if late := now > n.asked+uint64(lease); late != errors.Is(err, ErrLate) || !late && err != nil {
					t.Fatal(late, err)
				} else if late {
					n.answer = nil
					lates++
					break
				}
				n.answer = nil
				for _, s := range steps {
					switch s.Change {
					case Set:
						n.gate.Set(Rate(s.Share), s.Depth, now)
					case Restart:
						lapses++
						n.gate.Restart(Rate(s.Share), s.Depth, n.Until(), now)
					}
				}
				n.gate.Until = n.Until()
			case 2: // SIGKILL: the distributor does not hear of it, and counts on
				if random.IntN(30) == 0 {
					n.Holder, n.gate, n.answer, n.version = Holder{}, gate.Gate[uint64]{Until: 1}, nil, n.version+1
					killed++
				}
			case 3:
				now += random.Uint64N(20_000_000)
			case 4, 5:
				n.gate.Due(now, out)
			default:
				if n.gate.Arrive(now, now, now) {
					out(now)
				}
			}
		}
		// In any window: the fluid bucket, level in 2^-20 of a token and of a ns, never lacks a token.
		before, level := uint64(0), uint64(depth)*bucket.Token*second
		slices.Sort(at)
		for _, a := range at {
			gain := (min(a-before, second)) * rate * bucket.Token
			if level = min(level+gain, depth*bucket.Token*second); level < bucket.Token*second {
				t.Fatalf("seed %d: more than the whole at %d", seed, a)
			}
			level -= bucket.Token * second
			before = a
		}
		total += len(at)
	}
	fmt.Printf("holder: %d messages of one bucket between two brokers: %d changes, %d restarts of a share, %d answers too late, %d killed\n", total, moves, lapses, lates, killed)
	if total < 10_000 || moves < 10_000 || min(killed, lates) < 500 {
		t.Error("the cases did not occur")
	}
}
