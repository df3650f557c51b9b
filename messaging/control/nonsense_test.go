// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"testing"
	"time"

	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

// What brokers have no room for is not foretold: the model would list all of it.
func TestTheModelIsNotAskedNonsense(t *testing.T) {
	asked := 0
	p := newPlant(t, func(s *Settings) {
		s.Model = func(_ wire.Topic, all []distribute.Publisher) distribute.Predict {
			sum := 0.0
			for _, one := range all {
				sum += one.Rate
			}
			if asked++; sum > 10_000 {
				t.Errorf("the model is asked for %v messages a second", sum)
			}
			return func(distribute.Broker, []distribute.Publisher, float64) float64 { return 0 }
		}
	}, map[string]float64{"a": 5000, "b": 5000})
	p.run(time.Second)
	huge := topicOf("alarms", 1<<31, 40)
	many := make([]distribute.Publisher, 1000)
	for n := range many {
		many[n].Rate = 1 << 21
	}
	if proposal, err := p.c.Try(p.now, huge, many); err != nil || proposal.Fits || proposal.Modelled {
		t.Error(proposal, err)
	}
	p.put(huge, 0)
	for _, id := range []string{"p", "q", "r"} {
		if _, err := p.c.Assign(p.now, wire.Ask{Topic: "alarms", Publisher: id, Rate: 1 << 30}); err != nil {
			t.Error(err)
		}
	}
	p.run(30 * time.Second)
	if note := p.c.Status(p.now).Topics[0].Note; asked > 0 || note == "" {
		t.Errorf("asked %d times; %q", asked, note)
	}
	if proposal, err := p.c.Try(p.now, topicOf("other", 2000, 40), []distribute.Publisher{{Rate: math.SmallestNonzeroFloat64}}); err != nil || proposal.Fits || asked > 0 {
		t.Error("the brokers are full:", proposal, err)
	}
}
