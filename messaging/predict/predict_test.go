// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/simulate"
	"giusto.dev/messaging/wire"
)

func profile(t *testing.T, name string) (m simulate.Measured) {
	text, err := os.ReadFile("../simulate/testdata/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBrokersAreWhatTheProfilesGive(t *testing.T) {
	if testing.Short() {
		t.Skip("a fit takes some seconds")
	}
	for _, name := range []string{"first", "second"} {
		fitted, named := simulate.Fit(profile(t, name)), Brokers[name]
		for _, pair := range [][2]float64{{fitted.Message, named.Message}, {fitted.Wake, named.Wake}, {fitted.Jitter, named.Jitter}, {fitted.Stall, named.Stall}} {
			if math.Abs(pair[0]-pair[1]) > .05*pair[1] {
				t.Errorf("%s: fitted %+v, named %+v", name, fitted, named)
				break
			}
		}
	}
}

// What one profile tells of the other's loads, by what was measured: within the noise between the repeats of one load at its worst, and p99 on
// average within a factor of two.
func TestAProfileForetellsTheOther(t *testing.T) {
	sum, count, worst, noise := 0.0, 0.0, 0.0, 0.0
	for _, load := range profile(t, "second").Loads {
		told, found, apart := Brokers["first"].Foretell(load), load.Medians(), load.Noise()
		for n := range told {
			worst, noise = max(worst, math.Abs(math.Log(told[n]/found[n]))), max(noise, math.Log(apart[n]))
		}
		sum, count = sum+math.Abs(math.Log(told[3]/found[3])), count+1
	}
	fmt.Printf("predict: worst by a factor of %.2f, noise %.2f, p99 on average %.2f\n", math.Exp(worst), math.Exp(noise), math.Exp(sum/count))
	if worst > noise || sum/count > math.Log(2) {
		t.Error("too far")
	}
}

func topic(count, group int, depth uint64) (wire.Topic, []distribute.Publisher) {
	all := make([]distribute.Publisher, count)
	for n := range all {
		all[n] = distribute.Publisher{ID: fmt.Sprint(n), Group: fmt.Sprint(n / group), Rate: 10}
	}
	return wire.Topic{Percentile: .99, Batch: 10, Share: wire.Share{Rate: uint64(count) * 11 * wire.Unit, Depth: depth * wire.Unit}}, all
}

func TestMorePublishersOfAGroupTakeLonger(t *testing.T) {
	spec, all := topic(1000, 20, 4000)
	model := Model(Brokers["testbed"], spec, all)
	last := 0.0
	for _, each := range []int{2, 5, 10, 20} { // of each group
		var some []distribute.Publisher
		for n, p := range all {
			if n%20 < each {
				some = append(some, p)
			}
		}
		tail := model(distribute.Broker{}, some, float64(each)/20)
		if tail < last {
			t.Errorf("p99 %v with %d of each group, %v with fewer", tail, each, last)
		}
		if again := model(distribute.Broker{}, some, float64(each)/20); again != tail {
			t.Errorf("%v, and again %v", tail, again)
		}
		last = tail
	}
}

func TestAShareOfLessThanATokenNeverPasses(t *testing.T) {
	spec, all := topic(1000, 1, 26)
	if tail := Model(Brokers["testbed"], spec, all)(distribute.Broker{}, all[:1], 1e-9); !math.IsInf(tail, 1) {
		t.Error(tail)
	}
}

// However much publishers and other topics are said to send, what is listed and played is bounded.
func TestNonsenseIsBounded(t *testing.T) {
	spec, all := topic(1000, 20, 4000)
	for n := range all {
		all[n].Rate = 20_000
	}
	spec.Rate = 1 << 52
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	model := Model(Brokers["testbed"], spec, all)
	if tail := model(distribute.Broker{}, all, 1); !(tail > 0) {
		t.Error(tail)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
		t.Errorf("20 million messages a second took %d MiB", took>>20)
	}
	began := time.Now()
	if tail := model(distribute.Broker{Existing: 1 << 31}, all[:1], 1); !math.IsInf(tail, 1) {
		t.Error("beside two thousand million messages a second of others:", tail)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Error(took)
	}
}
