// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"strings"
	"testing"
	"time"
)

// What no broker would report is refused, by what it is; what one may report at most is not.
func TestWhatNoBrokerReportsIsRefused(t *testing.T) {
	good := func() Report {
		return Report{Broker: "[::1]:4150", Incarnation: strings.Repeat("f", 32), Replaces: "1", V2: "[::1]:4150", Capacity: 5000,
			Topics: []TopicReport{{Topic: "a#ephemeral", Kept: 1 << 40, Ready: []string{"c.1"}, Unready: []string{"c.1"},
				Seconds: []Second{{At: 7, Messages: 1 << 40, Unmanaged: 1, Used: 1 << 62, Delivery: Histogram{0: 1, 1500: 1 << 40}}}}}}
	}
	if r := good(); r.Check() != nil {
		t.Error(r.Check())
	}
	for key, spoil := range map[string]func(*Report){
		"broker":           func(r *Report) { r.Broker = "" },
		"broker: \"a/b\"":  func(r *Report) { r.Broker = "a/b" },
		"incarnation":      func(r *Report) { r.Incarnation = "a b" },
		"replaces":         func(r *Report) { r.Replaces = "a/b" },
		"v2":               func(r *Report) { r.V2 = "" },
		"capacity: -1":     func(r *Report) { r.Capacity = -1 },
		"capacity: NaN":    func(r *Report) { r.Capacity = math.NaN() },
		"capacity: +Inf":   func(r *Report) { r.Capacity = math.Inf(1) },
		"a topic's name":   func(r *Report) { r.Topics[0].Topic = "a/b" },
		"twice":            func(r *Report) { r.Topics = append(r.Topics, r.Topics[0]) },
		"ready":            func(r *Report) { r.Topics[0].Ready[0], r.Topics[0].Unready = "", nil },
		"unready":          func(r *Report) { r.Topics[0].Unready[0] = "c.2" },
		"kept":             func(r *Report) { r.Topics[0].Kept++ },
		"61 seconds":       func(r *Report) { r.Topics[0].Seconds = make([]Second, 61) },
		"unmanaged":        func(r *Report) { r.Topics[0].Seconds[0].Messages++ },
		"unmanaged, are":   func(r *Report) { r.Topics[0].Seconds[0].Unmanaged = 1<<40 + 1 },
		"used":             func(r *Report) { r.Topics[0].Seconds[0].Used++ },
		"delivery: bin 15": func(r *Report) { r.Topics[0].Seconds[0].Delivery[1501] = 1 },
		"delivery: bin -1": func(r *Report) { r.Topics[0].Seconds[0].Delivery[-1] = 1 },
		"delivery: bin 0":  func(r *Report) { r.Topics[0].Seconds[0].Delivery[0] = 1<<40 + 1 },
	} {
		r := good()
		spoil(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A percentile costs what the histogram has, not what its bins are called.
func TestAPercentileOfAFarBinIsTold(t *testing.T) {
	told := make(chan time.Duration, 1)
	go func() { told <- Histogram{3: 9, 9e18: 1}.Percentile(1) }()
	select {
	case <-told:
	case <-time.After(5 * time.Second):
		t.Fatal("not in five seconds")
	}
}
