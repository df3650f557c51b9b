// SPDX-License-Identifier: Apache-2.0

// distribute plays how a new topic's publishers are distributed over brokers [LiC20, § 2.6], in virtual time: with the Load
// Distributor and the token bucket that ship. It prints a line of JSON for each random set; studies/srtm-* judge them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/predict"
)

var kinds = map[string]distribute.Kind{"LB": distribute.LB, "Conc": distribute.Conc, "Max-Min": distribute.MaxMin, "SRTM": distribute.SRTM}

func main() {
	log.SetFlags(0)
	var e experiment
	kind := flag.String("kind", "SRTM", "LB, Conc, Max-Min or SRTM")
	flag.IntVar(&e.publishers, "publishers", 1000, "how many")
	flag.Float64Var(&e.each, "each", 10, "messages a second of one")
	flag.IntVar(&e.group, "group", 1, "publishers that send together")
	flag.IntVar(&e.traffic.Batch, "batch", 1, "messages at once")
	flag.BoolVar(&e.traffic.Periodic, "periodic", false, "at equal distances, not at random")
	flag.DurationVar(&e.traffic.Spread, "spread", 0, "what a group sends is spread evenly over this")
	existing := flag.String("existing", "0,0,0,0,0,0", "messages a second of other topics at each broker, in batches of 10")
	flag.Float64Var(&e.capacity, "capacity", 80_000, "messages a second that a broker is thought to handle")
	flag.DurationVar(&e.objective, "objective", time.Millisecond, "for the 99th percentile")
	truth := flag.String("broker", "testbed", "what a broker is: testbed, first, second (fitted to a measured profile)")
	flag.Float64Var(&e.errors, "errors", 0, "each broker is slower or faster by at most this part")
	stall := flag.Duration("stall", 0, "mean of a stop of a broker, five times a second")
	guess := flag.String("guess", "", "the model that gives the first guess: testbed, first, second; \"\": none")
	flag.IntVar(&e.over, "over", 0, "so many brokers, without measuring; 0: as LoadDist finds")
	flag.DurationVar(&e.round, "round", time.Minute, "of a measurement")
	flag.Uint64Var(&e.seed, "seed", 1, "of all that is random")
	sets := flag.Uint64("sets", 1, "how many")
	flag.Parse()
	known := false
	if e.kind, known = kinds[*kind]; !known {
		log.Fatalf("-kind %s: expected LB, Conc, Max-Min or SRTM", *kind)
	}
	if e.broker, known = predict.Brokers[*truth]; !known {
		log.Fatalf("-broker %s: expected testbed, first or second", *truth)
	}
	if *stall > 0 {
		e.broker.Every, e.broker.Stall = 200e6, float64(*stall)
	}
	if *guess != "" {
		model, known := predict.Brokers[*guess]
		if !known {
			log.Fatalf("-guess %s: expected testbed, first or second", *guess)
		}
		e.model = &model
	}
	for _, text := range strings.Split(*existing, ",") {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil {
			log.Fatalf("-existing %s: expected numbers with commas between", *existing)
		}
		e.existing = append(e.existing, rate)
	}
	lines := make([]result, *sets)
	work := make(chan uint64)
	done := make(chan error)
	for range 2 {
		go func() {
			for set := range work {
				var err error
				if lines[set], err = e.play(set); err != nil {
					done <- fmt.Errorf("set %d: %w", set, err)
					return
				}
			}
			done <- nil
		}()
	}
	for set := range *sets {
		work <- set
	}
	close(work)
	for range 2 {
		if err := <-done; err != nil {
			log.Fatal(err)
		}
	}
	out := json.NewEncoder(os.Stdout)
	for _, line := range lines {
		out.Encode(line)
	}
}
