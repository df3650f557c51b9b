// SPDX-License-Identifier: Apache-2.0

package simulate

// Measured is a profile of a real broker, as bench/profile writes it: latencies of messages from the publisher's write to the consumer's
// handler, without a limit. Times are in µs.
type Measured struct {
	Date    string         `json:"date"`
	Machine string         `json:"machine"`
	Seconds float64        `json:"seconds"` // of each repeat
	Loads   []MeasuredLoad `json:"loads"`
}

// MeasuredLoad is publishers at random, each with a connection of its own.
type MeasuredLoad struct {
	Publishers int      `json:"publishers"`
	Each       float64  `json:"each"` // messages a second of one
	Batch      int      `json:"batch"`
	Repeats    []Repeat `json:"repeats"`
}

// Repeat is one measurement. CPU is the broker's for each message, Waited how long its threads waited for the core, Late the 99th
// percentile of how late the load was sent.
type Repeat struct {
	P50         float64 `json:"p50_us"`
	P90         float64 `json:"p90_us"`
	P95         float64 `json:"p95_us"`
	P99         float64 `json:"p99_us"`
	P999        float64 `json:"p999_us"`
	CPU         float64 `json:"cpu_us"`
	Waited      float64 `json:"waited_us"`
	Late        float64 `json:"late_us"`
	LoadAverage float64 `json:"load_average"`
}
