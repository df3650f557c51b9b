// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

// Whatever the load: from 1 to the most; enough of them soon, no more than needed after a while, and then it rests.
func TestAsManyProcessorsAsThereIsWorkFor(t *testing.T) {
	grown, shrunk := 0, 0
	for most := 1; most <= 8; most++ {
		for from := 1; from <= most; from++ {
			for percent := 0; percent <= 100*most; percent += 5 {
				p := processors{now: from, most: most}
				demand := every * time.Duration(percent) / 100
				changed := 0 // the last look that changed something
				for look := range 400 {
					was := p.now
					p.next(min(demand, every*time.Duration(p.now)), every) // no more than it has
					if p.now < 1 || p.now > most || p.now > was+1 || p.now < was-1 {
						t.Fatalf("%d processors after %d of %d", p.now, was, most)
					}
					if p.now != was {
						changed = look
					}
					grown, shrunk = grown+max(p.now-was, 0), shrunk+max(was-p.now, 0)
				}
				if need := (percent + 99) / 100; p.now < min(need, most) {
					t.Errorf("%d of %d processors for %d %% of one", p.now, most, percent)
				}
				if slow := most * int(rest/every); changed > slow {
					t.Errorf("at %d %% and from %d of %d it still changes after %d looks", percent, from, most, changed)
				}
				if p.now > 1 && demand <= every*time.Duration(p.now-1)*3/5 {
					t.Errorf("%d processors for %d %%, one less would do", p.now, percent)
				}
			}
		}
	}
	if grown == 0 || shrunk == 0 {
		t.Error("nothing grew or shrank")
	}
}

func TestWorkIsGivenAProcessorWithinALook(t *testing.T) {
	p := processors{now: 1, most: 2}
	if p.next(every*79/100, every) != 1 || p.next(every*81/100, every) != 2 {
		t.Error("four fifths are the limit")
	}
}
