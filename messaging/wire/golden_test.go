// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// What is in formats/ is what brokers, distributors and publishers say: nothing more, and nothing is lost.
func TestTheGolden(t *testing.T) {
	text, err := os.ReadFile("../../formats/goldens/distributor.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Report     Report     `json:"report"`
		Orders     Orders     `json:"orders"`
		Assignment Assignment `json:"assignment"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	var wanted, got bytes.Buffer
	again, err := json.Marshal(all)
	if err != nil || json.Compact(&wanted, text) != nil || json.Compact(&got, again) != nil || wanted.String() != got.String() {
		t.Error(err, wanted.String(), got.String())
	}
	// 5,500 tokens a second and 13 tokens; most messages took 0.2 ms, the slowest 1.1.
	if o := all.Orders.Topics[0]; o.Rate != 5500*Unit || o.Depth != 13*Unit {
		t.Error(o)
	}
	if d := all.Report.Topics[0].Seconds[0].Delivery; d.Percentile(0.5) != Bound(269) || d.Percentile(1).Round(100*time.Microsecond) != 1100*time.Microsecond {
		t.Error(d.Percentile(0.5), d.Percentile(1))
	}
}

// A percentile of a histogram is at most 2 % more than that of the durations.
func TestAHistogramIsTwoPercentOff(t *testing.T) {
	h := Histogram{}
	for n := range 100_000 {
		h.Observe(time.Duration(n+1) * 10 * time.Microsecond)
	}
	for _, p := range []float64{.01, .5, .9, .99, .999, 1} {
		truth := time.Duration(p * 1e6 * float64(time.Microsecond))
		if got := h.Percentile(p); got < truth || float64(got) > 1.0201*float64(truth) {
			t.Errorf("p%v: %v, in truth %v", 100*p, got, truth)
		}
	}
}
