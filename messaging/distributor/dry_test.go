// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"giusto.dev/messaging/control"
	"giusto.dev/messaging/wire"
)

// table is what the tests of dry runs ask for.
type table struct {
	*testing.T
	address string
}

// brokers report that they can take so many messages a second each.
func (t table) brokers(capacity map[string]float64) {
	for id, can := range capacity {
		if _, err := report(http.DefaultClient, t.address, wire.Report{Broker: id, Incarnation: "1", V2: id + ":4150", Capacity: can}); err != nil {
			t.Fatal(err)
		}
	}
}

// put asks for a topic, or what would come of it, and gives the status and the error.
func (t table) put(name, query, spec string) (status int, failed string, proposal control.Proposal) {
	status, text := call(t.T, "PUT", t.address+"/topics/"+name+query, spec)
	var said struct{ Error string }
	json.Unmarshal([]byte(text), &said)
	json.Unmarshal([]byte(text), &proposal)
	return status, said.Error, proposal
}

// topic is what one is to be; none if there is none.
func (t table) topic(name string) (spec wire.Topic) {
	_, text := call(t.T, "GET", t.address+"/topics/"+name, "")
	json.Unmarshal([]byte(text), &spec)
	return spec
}

// A dry run says what the real one will: the same status, the same reason; whatever the topics, their publishers and the brokers are.
func TestADryRunSaysWhatTheRealOneWill(t *testing.T) {
	d := start(t, "store: memory\ngather: 3600s")
	defer d.Stop()
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	a, kinds := table{t, d.Addr()}, map[string]int{}
	names, ids := []string{"a", "b", "c"}, []string{"k", "l", "m"}
	for n := range 300 {
		capacity := map[string]float64{}
		for _, id := range ids {
			capacity[id] = []float64{200, 2000, 20_000}[random.IntN(3)]
		}
		a.brokers(capacity)
		name, id := names[random.IntN(3)], ids[random.IntN(3)]
		switch random.IntN(6) {
		case 0:
			call(t, "DELETE", d.Addr()+"/topics/"+name, "")
		case 1:
			call(t, []string{"PUT", "DELETE"}[random.IntN(2)], d.Addr()+"/brokers/"+id+"/drain", "")
		default:
			call(t, "GET", fmt.Sprintf("%s/assign?topic=%s&publisher=%d&at=%s&rate=%d", d.Addr(), name, n, id, 1+random.IntN(900)), "")
		}
		spec := fmt.Sprintf(`{"rate": "%d/s", "depth": %d, "each": "%d/s"}`, 1+random.IntN(5000), 1+random.IntN(5), random.IntN(100))
		query := "?dry-run"
		if random.IntN(2) == 0 {
			query = fmt.Sprintf("?dry-run&publishers=%d", 1+random.IntN(200))
		}
		before := a.topic(name)
		dry, why, proposal := a.put(name, query, spec)
		if after := a.topic(name); after != before {
			t.Errorf("seed %d: a dry run made %+v of %+v", seed, after, before)
		}
		real, reason, _ := a.put(name, "", spec)
		if dry != real || why != reason {
			t.Errorf("seed %d: %s %s %s: dry %d %q, real %d %q", seed, name, query, spec, dry, why, real, reason)
		}
		if dry == 200 && proposal.Fits == (proposal.Note != "") {
			t.Errorf("seed %d: %+v", seed, proposal)
		}
		for _, share := range proposal.Shares {
			if share.Depth < 1 {
				t.Errorf("seed %d: a share of less than a token: %+v", seed, proposal)
			}
		}
		kinds[fmt.Sprint(dry, proposal.Fits)]++
	}
	t.Log(kinds)
	for _, kind := range []string{"200 true", "200 false", "409 false"} {
		if kinds[kind] == 0 {
			t.Errorf("never %s: nothing is proven", kind)
		}
	}
}

// A topic's own load does not stand in its way.
func TestATopicHasRoomWhereItIs(t *testing.T) {
	d := start(t, "store: memory")
	defer d.Stop()
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	a := table{t, d.Addr()}
	a.brokers(map[string]float64{"k": 10_000, "l": 10_000})
	spec := `{"rate": "16k/s", "depth": 26, "each": "1k/s"}`
	if status, why, _ := a.put("alarms", "", spec); status != 200 {
		t.Fatal(why)
	}
	for n := range 15 {
		call(t, "GET", fmt.Sprintf("%s/assign?topic=alarms&publisher=%d", d.Addr(), n), "")
	}
	if status, why, proposal := a.put("alarms", "?dry-run", spec); status != 200 || len(proposal.Shares) != 2 {
		t.Error(status, why, proposal)
	}
	if status, why, proposal := a.put("other", "?dry-run&publishers=6", spec); status != 200 || proposal.Fits {
		t.Error("the brokers are full:", status, why, proposal)
	}
}
