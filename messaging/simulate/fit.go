// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
)

// Percentiles that are compared with a measured profile.
var Percentiles = [4]float64{.5, .9, .95, .99}

// fitted is how long each load is played.
const fitted = 10 * time.Second

// Fit finds the broker of one core whose latencies are most like a measured profile's: least squares of the logarithms of percentiles to
// the repeats' medians, by trying each cost larger and smaller in ever smaller steps. Some seconds; the same profile gives the same broker.
func Fit(to Measured) Broker {
	best := Broker{Cores: 1, Message: 20e3, Wake: 40e3, Base: 50e3, Jitter: 30e3, Every: 50e6, Stall: 1e6}
	least := best.distance(to)
	for step := 2.0; step > 1.02; {
		better := false
		for n := range best.costs() {
			for _, factor := range []float64{step, 1 / step} {
				other := best
				*other.costs()[n] *= factor
				if d := other.distance(to); d < least {
					best, least, better = other, d, true
				}
			}
		}
		if !better {
			step = math.Sqrt(step)
		}
	}
	for _, cost := range best.costs() {
		*cost = math.Round(*cost)
	}
	return best
}

func (b *Broker) costs() [6]*float64 {
	return [6]*float64{&b.Message, &b.Wake, &b.Base, &b.Jitter, &b.Every, &b.Stall}
}

func (b Broker) distance(to Measured) (sum float64) {
	for _, load := range to.Loads {
		told := b.Foretell(load)
		for n, found := range load.Medians() {
			sum += math.Pow(math.Log(told[n]/found), 2)
		}
	}
	return sum
}

// Foretell is what Percentiles of a load's latencies would be, in µs.
func (b Broker) Foretell(load MeasuredLoad) (told [4]float64) {
	publishers := make([]distribute.Publisher, load.Publishers)
	for n := range publishers {
		publishers[n] = distribute.Publisher{ID: fmt.Sprint(n), Rate: load.Each}
	}
	sends := Traffic{Batch: load.Batch}.Sends(publishers, fitted, 1)
	latencies, _ := b.Play(sends, load.Batch, nil, Others{}, 1) // no limit, so no error
	for n, p := range Percentiles {
		told[n] = float64(latencies.Percentile(p)) / 1e3
	}
	return told
}

// Medians over the repeats, of Percentiles in µs.
func (l MeasuredLoad) Medians() (found [4]float64) {
	for n := range found {
		times := l.times(n)
		found[n] = times[len(times)/2]
	}
	return found
}

// times of the repeats, sorted.
func (l MeasuredLoad) times(percentile int) []float64 {
	times := make([]float64, len(l.Repeats))
	for n, r := range l.Repeats {
		times[n] = [4]float64{r.P50, r.P90, r.P95, r.P99}[percentile]
	}
	slices.Sort(times)
	return times
}

// Noise is how far apart the repeats are: the largest by the least, for each of Percentiles.
func (l MeasuredLoad) Noise() (factor [4]float64) {
	for n := range factor {
		times := l.times(n)
		factor[n] = times[len(times)-1] / times[0]
	}
	return factor
}
