// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// What M/D/1 says of λ = 10,000/s, r = 11,000/s, b = 26, split k ways (giusto analyze bucket; [LiC20, section 2.2.1]): the part
// that waits, the mean and the 99th percentile of the wait in µs.
var exact = [6][3]float64{{.00861, 4.17, 0}, {.0988, 95.7, 2219}, {.2228, 323.8, 4510}, {.3346, 648.3, 6801},
	{.4271, 1034, 9092}, {.5025, 1460, 11384}}

// Ten million messages at random, each to one of k brokers, wait in these buckets as long as the mathematics says.
func TestASplitBucketDelaysAsMuchAsTheMathematicsSays(t *testing.T) {
	const lambda, groups = 10_000.0, 50
	messages := 10_000_000
	if testing.Short() {
		messages = 1_000_000
	}
	for k := 1; k <= 6; k++ {
		random := rand.New(rand.NewPCG(7, uint64(k)))
		buckets := make([]Bucket, k)
		for i := range buckets {
			burst := uint64(26 * Token / k)
			var err error
			if buckets[i], err = New(Rate{11_000, uint64(k)}, burst, burst, 0); err != nil {
				t.Fatal(err)
			}
		}
		var late, mean, beyond [groups]float64
		truth := exact[k-1]
		now, each := 0.0, messages/groups
		for n := range each * groups {
			now += random.ExpFloat64() / lambda * 1e9
			arrival := uint64(now)
			release, err := buckets[random.IntN(k)].Take(1, arrival)
			if err != nil || release < arrival {
				t.Fatal(release, arrival, err)
			}
			wait := float64(release-arrival) / 1e3
			mean[n/each] += wait / float64(each)
			if wait > 0 {
				late[n/each] += 1 / float64(each)
			}
			if wait > truth[2] {
				beyond[n/each] += 1 / float64(each)
			}
		}
		close := func(name string, of [groups]float64, truth, digits float64) float64 {
			average, spread := 0.0, 0.0
			for _, value := range of {
				average += value / groups
			}
			for _, value := range of {
				spread += (value - average) * (value - average) / (groups - 1)
			}
			// Five standard errors, and the last digit of the truth.
			if may := 5*math.Sqrt(spread/groups) + digits; math.Abs(average-truth) > may {
				t.Errorf("k = %d: %s %.4f, exactly %.4f, ± %.4f", k, name, average, truth, may)
			}
			return average
		}
		part := close("that wait", late, truth[0], 1e-4)
		average := close("mean", mean, truth[1], 1e-3*truth[1])
		tail := truth[0] // p99 is 0 where fewer wait
		if truth[2] > 0 {
			tail = 0.01
		}
		tail = close("beyond p99", beyond, tail, 1e-4)
		fmt.Printf("bucket: k = %d: %.2f %% wait, mean %.1f us, %.2f %% longer than %.0f us\n", k, 100*part, average, 100*tail, truth[2])
	}
}
