// SPDX-License-Identifier: Apache-2.0

// calibrate FIT CHECK fits a simulated broker to the profile in FIT (of bench/profile) and checks it on the profile in CHECK: it prints
// the broker, and for both what it foretells by what was measured, beside how far the repeats of a measurement are apart.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"

	"giusto.dev/messaging/simulate"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: calibrate FIT CHECK (profiles of bench/profile)")
	}
	var profiles [2]simulate.Measured
	for n, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &profiles[n])
		}
		if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
	}
	broker := simulate.Fit(profiles[0])
	fmt.Printf("%+v\n", broker)
	for n, profile := range profiles {
		fmt.Printf("%s\n%10s %9s %5s  %-30s %-30s %s\n", os.Args[1+n], "publishers", "messages", "batch", "measured us: 50 90 95 99 %", "foretold / measured", "noise (largest / least)")
		worst, noise := 0.0, 0.0
		for _, load := range profile.Loads {
			told, found, apart := broker.Foretell(load), load.Medians(), load.Noise()
			for n := range told {
				worst, noise = max(worst, math.Abs(math.Log(told[n]/found[n]))), max(noise, math.Log(apart[n]))
				told[n] /= found[n]
			}
			fmt.Printf("%10d %9.0f %5d  %-30.0f %-30.2f %.2f\n", load.Publishers, float64(load.Publishers)*load.Each, load.Batch, found, told, apart)
		}
		fmt.Printf("worst: a factor of %.2f; noise: %.2f\n", math.Exp(worst), math.Exp(noise))
	}
}
