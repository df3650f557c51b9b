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
		Changes    Orders     `json:"changes"`
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

// Changes of orders make whole ones of those that they build on, and nothing of others.
func TestChangesBuildOnTheirOwnOrders(t *testing.T) {
	topics := map[string]Order{}
	first := Orders{Epoch: 7, Version: 13, Topics: []Order{{Topic: "a"}, {Topic: "b", Queue: 1}}}
	if whole, right := first.Onto(0, 0, topics); !right || len(whole.Topics) != 2 || len(topics) != 2 {
		t.Fatal(whole, right)
	}
	next := Orders{Epoch: 7, Version: 15, Since: 13, Topics: []Order{{Topic: "b", Queue: 2}, {Topic: "c"}}, Free: []string{"a"}}
	for _, other := range [][2]uint64{{0, 0}, {6, 13}, {7, 12}, {7, 14}} {
		if _, right := next.Onto(other[0], other[1], topics); right {
			t.Error("built on", other)
		}
	}
	whole, right := next.Onto(7, 13, topics)
	if !right || whole.Since != 0 || len(whole.Free) > 0 || len(whole.Topics) != 2 ||
		!whole.Topics[0].Same(Order{Topic: "b", Queue: 2}) || whole.Topics[1].Topic != "c" {
		t.Error(whole, right)
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
