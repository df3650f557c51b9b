// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

const alarms = `{"rate": "11k/s", "depth": "26", "promise": {"p99": "1ms"}, "each": "10/s"}`

// What an operator asks for and does wrong, and what is answered.
func TestWhatPeopleAskFor(t *testing.T) {
	d := start(t, "store: memory")
	defer d.Stop()
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	for _, b := range []string{"a", "b"} {
		if _, err := report(http.DefaultClient, d.Addr(), wire.Report{Broker: b, Incarnation: "1", V2: b + ":4150", HTTP: b + ":4151"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/topics", "", 200, "[]"},
		{"GET", "/topics/alarms", "", 404, "alarms"},
		{"PUT", "/topics/alarms?dry-run&publishers=1000", alarms, 200, `"publishers":1000`},
		{"PUT", "/topics/alarms?dry-run&publishers=1000", alarms, 200, `"fits":true`},
		{"PUT", "/topics/alarms?dry-run&publishers=1050", alarms, 200, `"fits":true`},
		{"PUT", "/topics/alarms?dry-run&publishers=1200", alarms, 200, `"fits":false,"note":"1200 publishers send 12000 messages a second, the bucket lets 11000 through"`},
		{"PUT", "/topics/alarms?dry-run&publishers=100000", alarms, 200, `"fits":false,"note":"no broker has room for 980000 messages a second more`},
		{"PUT", "/topics/alarms?dry-run", alarms, 200, `"fits":false,"note":"it has no publishers yet`},
		{"PUT", "/topics/alarms?dry-run&publishers=x", alarms, 400, "publishers=x"},
		{"PUT", "/topics/alarms?dry_run", alarms, 400, "dry_run: there is no such parameter; expected none, or dry-run"},
		{"PUT", "/topics/alarms?dryrun&publishers=1000", alarms, 400, "there is no such parameter"},
		{"PUT", "/topics/alarms?publishers=1000", alarms, 400, "publishers: there is no such parameter"},
		{"GET", "/topics", "", 200, "[]"}, // a dry run changed nothing
		{"PUT", "/topics/alarms", alarms, 200, `"percentile":0.99,"objective":1000000,"each":10`},
		{"PUT", "/topics/alarms", `{"rate": "22k/s", "depth": 26.5}`, 200, `"rate":23068672000,"depth":27787264`},
		{"GET", "/topics/alarms", "", 200, `"phase":"steady"`},
		{"GET", "/assign?topic=alarms&publisher=p1", "", 200, `:4150`},
		{"GET", "/assign?topic=other&publisher=p1", "", 404, "other: no such topic"},
		{"GET", "/assign?topic=alarms", "", 400, "publisher"},
		{"GET", "/assign?topic=alarms&publisher=p1&what=1", "", 400, "what=1"},
		{"PUT", "/topics/a%20b", alarms, 400, "a b"},
		{"PUT", "/topics/x", `{"rate": "11k/s", "depht": 1}`, 400, "'depht' is not a key here; expected one of rate, depth, promise"},
		{"PUT", "/topics/x", `{"rate": "11k", "depth": 1}`, 400, `\"11k\" is not a rate`},
		{"PUT", "/topics/x", `{"depth": 1}`, 400, "rate"},
		{"PUT", "/topics/x", `{"rate": "1/s"}`, 400, "depth"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 0.5}`, 400, "less than one token"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "promise": {"q99": "1ms"}}`, 400, "q99"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "promise": {"p99": "1ms", "p50": "1ms"}}`, 400, "one percentile"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "batch": -1}`, 400, "batch"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "gap": "soon"}`, 400, "not a duration"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "gap": "4s"}`, 409, "expected 4.04s or more"},
		{"PUT", "/topics/x?dry-run", `{"rate": "1/s", "depth": 1, "gap": "4s"}`, 409, "expected 4.04s or more"},
		{"PUT", "/topics/x?dry-run", `{"rate": "1/s", "depth": 1, "gap": "4.04s"}`, 200, ""},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "gap": "5s", "limit": "requests"}`, 400, "nothing else"},
		{"PUT", "/topics/x", `{"rate": "4294967296/s", "depth": 1}`, 400, "rate: expected less than 2^32 tokens a second"},
		{"PUT", "/topics/x", `{"rate": "0.0000001/s", "depth": 1}`, 400, "rate: expected at least"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 4398046511105}`, 400, "2^42 tokens"},
		{"PUT", "/topics/x", `{"rate": "1/s", "depth": 1, "each": "1000001M/s"}`, 400, "each"},
		{"PUT", "/topics/x?dry-run&publishers=1", `{"rate": "4294967295/s", "depth": 4398046511104, "each": "1/s"}`, 200, ""},
		{"PUT", "/brokers/a/drain", "", 200, "true"},
		{"GET", "/brokers", "", 200, `"broker":"a","v2":"a:4150","http":"a:4151","alive":true,"drained":true`},
		{"DELETE", "/brokers/a/drain", "", 200, "false"},
		{"PUT", "/brokers/none/drain", "", 404, "none"},
		{"POST", "/report", "no", 400, "not a report"},
		{"POST", "/report", "null", 400, "broker"},
		{"POST", "/report", `{"broker": "a"}`, 400, "incarnation"},
		{"POST", "/report", `{"broker": "a", "incarnation": "1", "v2": "a:1", "topics": [{"topic": "t", "seconds": [{"delivery": {"9000000000000000000": 1}}]}]}`, 400, "delivery"},
		{"GET", "/metrics", "", 200, `giusto_distributor_leads 1`},
		{"GET", "/status", "", 200, fmt.Sprintf(`"leader":%q,"leads":true`, d.Addr())},
		{"DELETE", "/topics/alarms", "", 200, "alarms"},
		{"DELETE", "/topics/alarms", "", 404, "alarms"},
	} {
		status, says := call(t, c.method, d.Addr()+c.path, c.body)
		if status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s %s %s: %d %s; expected %d ...%s...", c.method, c.path, c.body, status, says, c.status, c.says)
		}
	}
}

// A question waits until there is something new, and no longer than it wants to.
func TestQuestionsWait(t *testing.T) {
	d := start(t, "store: memory")
	defer d.Stop()
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	said := wire.Report{Broker: "a", Incarnation: "1", V2: "a:4150"}
	follow := func(wait time.Duration) (wire.Orders, time.Duration) {
		began := time.Now()
		said.Wait = wait
		o, err := report(http.DefaultClient, d.Addr(), said)
		if err != nil {
			t.Fatal(err)
		}
		said.Epoch, said.Seen = o.Epoch, o.Version
		return o, time.Since(began)
	}
	// Who has nothing waits for nothing; who has all waits to the end.
	if _, took := follow(20 * time.Second); took > 10*time.Second {
		t.Error("the first orders took", took)
	}
	if _, took := follow(500 * time.Millisecond); took < 500*time.Millisecond {
		t.Error("nothing is new, and it took", took)
	}
	// A topic is new: all brokers hear of it.
	go func() {
		time.Sleep(200 * time.Millisecond)
		call(t, "PUT", d.Addr()+"/topics/alarms", alarms)
	}()
	o, took := follow(20 * time.Second)
	if took > 10*time.Second || len(o.Topics) != 1 {
		t.Error("a new topic took", took, o)
	}
	// A publisher comes: the broker gets a share, at once.
	go func() {
		time.Sleep(200 * time.Millisecond)
		call(t, "GET", d.Addr()+"/assign?topic=alarms&publisher=p1", "")
	}()
	for o.Topics[0].Rate == 0 {
		if o, took = follow(20 * time.Second); took > 10*time.Second {
			t.Fatal("the share took", took)
		}
	}
	if want := (wire.Share{Rate: 11_000 * wire.Unit, Depth: 26 * wire.Unit}); o.Topics[0].Share != want {
		t.Error(o.Topics[0].Share)
	}
	// A lost answer: who says that it has other orders is told again at once.
	said.Seen--
	if _, took := follow(20 * time.Second); took > 10*time.Second {
		t.Error("lost orders took", took)
	}
	// A publisher waits, too; and its later question takes the place of its earlier one.
	var told wire.Assignment
	_, text := call(t, "GET", d.Addr()+"/assign?topic=alarms&publisher=p1", "")
	json.Unmarshal([]byte(text), &told)
	path := fmt.Sprintf("/assign?topic=alarms&publisher=p1&at=a&seen=%d&wait=", told.Version)
	earlier := make(chan int)
	go func() { status, _ := call(t, "GET", d.Addr()+path+"20s", ""); earlier <- status }()
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	if status, text := call(t, "GET", d.Addr()+path+"300ms", ""); status != 200 || !strings.Contains(text, `"broker":"a"`) {
		t.Error(status, text)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Error("nothing is new, and it took", took)
	}
	if status := <-earlier; status != http.StatusConflict {
		t.Error("the earlier question:", status)
	}
}

// Who does not lead sends to who leads; who leads next knows what there was; a resignation is no outage.
func TestWhoDoesNotLeadSendsOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	one := start(t, "store: {file: "+dir+"}")
	settled(t, "it leads", func() bool { return leads(one.Addr()) })
	two := start(t, "store: {file: "+dir+"}")
	defer two.Stop()
	if status, text := call(t, "PUT", two.Addr()+"/topics/alarms", alarms); status != 200 {
		t.Error(status, text)
	}
	plain := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := plain.Get("http://" + two.Addr() + "/assign?topic=alarms&publisher=p")
	if err != nil || answer.StatusCode != 307 || answer.Header.Get("Location") != "http://"+one.Addr()+"/assign?topic=alarms&publisher=p" {
		t.Error(answer, err)
	}
	began := time.Now()
	one.Stop()
	settled(t, "the other leads", func() bool { return leads(two.Addr()) })
	if took := time.Since(began); took > 5*time.Second {
		t.Error("a resignation took", took)
	}
	if status, text := call(t, "GET", two.Addr()+"/topics/alarms", ""); status != 200 || !strings.Contains(text, `"objective":1000000`) {
		t.Error(status, text)
	}
}

// A store that another program wrote into is refused, and left as it is.
func TestAnUnreadableStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	text := []byte(`{"epoch": 3, "records": {"topics/a": "bm8="}}`)
	os.WriteFile(filepath.Join(dir, "state.json"), text, 0o600)
	d := start(t, "store: {file: "+dir+"}")
	defer d.Stop()
	if err := <-d.Failed(); !strings.Contains(err.Error(), "topics/a") {
		t.Error(err)
	}
}

// What is wrong in a file is named.
func TestWhatIsWrongInAFileIsNamed(t *testing.T) {
	for text, named := range map[string]string{
		"lissten: 1.2.3.4:5":                   "'lissten' is not a key here; expected one of listen, announce, store",
		"listen: nowhere":                      "listen: \"nowhere\" is not HOST:PORT",
		"announce: nowhere":                    "announce",
		"store: disk":                          "store: \"disk\" is neither memory",
		"store: {}":                            "expected one of memory",
		"store: {file: a, zookeeper: [b:1]}":   "expected one of memory",
		"store: {zookeeper: [b]}":              "\"b\" is not HOST:PORT",
		"store: {file: a, term: 2s}":           "only zookeeper has one",
		"store: {zookeeper: [b:1], term: 1ms}": "store: term: 1ms is not in",
		"store: {fil: a}":                      "'fil' is not a key here; expected one of file, zookeeper, term",
		"lease: 1s":                            "lease: 1s is not in 3s to 24h0m0s",
		"lease: 2m":                            "line 1",
		"listen: 0.0.0.0:4170":                 "announce: it must be given",
		"listen: '[::]:4170'":                  "announce: it must be given",
		"listen: :4170":                        "announce: it must be given",
		"announce: :4170":                      "announce: \":4170\" is every address",
		"lease: 5s\nsilent: 5s":                "lease: 5s must be longer than silent, 5s",
		"capacity: 10":                         "line 1",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v; expected ...%s...", text, err, named)
		}
	}
	for _, text := range []string{"", "store: memory", "listen: :4170\nannounce: a:4170", "store: {zookeeper: [a:1, b:2], term: 1s}\nlease: 60s\ncapacity: 20k/s"} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Gauges of topics and brokers are the leader's: who leads no more has none, else they would count twice.
func TestGaugesEndWithTheTerm(t *testing.T) {
	d := start(t, "store: memory")
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	call(t, "PUT", d.Addr()+"/topics/alarms", alarms)
	gauges := func() (found bool) {
		all, err := d.metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			found = found || one.GetName() == "giusto_distributor_steady"
		}
		return found
	}
	settled(t, "it counts", gauges)
	d.Stop()
	if gauges() {
		t.Error("it counts on")
	}
}
