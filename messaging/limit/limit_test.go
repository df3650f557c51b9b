// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"giusto.dev/messaging/wire"
)

// distributor answers reports with what it is told to.
type distributor struct {
	*httptest.Server
	orders atomic.Pointer[wire.Orders] // nil: it does not answer
	last   atomic.Pointer[wire.Report]
}

func distribute(t *testing.T) *distributor {
	d := &distributor{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var report wire.Report
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil || report.Check() != nil {
			t.Error(err, report.Check())
		}
		d.last.Store(&report)
		if o := d.orders.Load(); o != nil {
			if report.Seen == o.Version {
				time.Sleep(10 * time.Millisecond)
			}
			json.NewEncoder(w).Encode(o)
			return
		}
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}))
	t.Cleanup(d.Close)
	return d
}

// order gives orders, and waits until they are in force.
func (d *distributor) order(t *testing.T, version uint64, lease time.Duration, topics ...wire.Order) {
	t.Helper()
	d.orders.Store(&wire.Orders{Epoch: 1, Version: version, Lease: lease, Topics: topics})
	for end := time.Now().Add(10 * time.Second); d.last.Load() == nil || d.last.Load().Seen != version; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the orders are not in force")
		}
	}
}

func part(name string, rate, depth float64) wire.Order {
	return wire.Order{Topic: name, Share: wire.Share{Rate: uint64(rate * wire.Unit), Depth: uint64(depth * wire.Unit)}}
}

func serve(t *testing.T, d *distributor) *Server {
	t.Helper()
	s, err := Parse([]byte(fmt.Sprintf(`{grpc: "127.0.0.1:0", http: "127.0.0.1:0", name: l, data: %s, distributor: ["%s"], domains: {edge: [
  {when: {generic_key: orders}, bucket: orders}, {when: {generic_key: logins, method: POST}, bucket: logins}]}}`, t.TempDir(), d.Listener.Addr())))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Serve(s, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// filled waits until a bucket has tokens, without taking one.
func filled(t *testing.T, l *Limiter, name string, tokens uint64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		// More than the share holds are never there: so nothing is taken, and what there is is told.
		_, answers, err := l.Take(Ask{name, Most})
		if err == nil && answers[0].Remaining >= tokens {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err, answers)
		}
	}
}

// get is the status and the body that HTTP gives.
func get(t *testing.T, v *Server, query string) (int, string) {
	t.Helper()
	answer, err := http.Get("http://" + v.HTTP() + query)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	return answer.StatusCode, string(text)
}

// Nothing is granted before there are orders, of a new share, without a lease, or at the end; a bucket that no
// orders name has no limit.
func TestNothingIsGrantedWithoutAShare(t *testing.T) {
	d := distribute(t)
	v := serve(t, d)
	refused := func(what string) {
		t.Helper()
		for _, name := range []string{"orders", "unknown"} {
			if granted, _, err := v.Take(Ask{name, 1}); granted || err != ErrLease {
				t.Errorf("%s: %s: %v %v", what, name, granted, err)
			}
		}
		if status, text := get(t, v, "/take?bucket=orders"); status != http.StatusServiceUnavailable {
			t.Error(what, status, text)
		}
	}
	refused("before the first orders")
	d.order(t, 1, time.Minute, part("orders", 0.01, 10))
	granted, answers, err := v.Take(Ask{"orders", 1})
	if granted || err != nil || answers[0].Wait < 80*time.Second || answers[0].Wait > 101*time.Second {
		t.Errorf("of a new share: %v %v %v", granted, answers, err)
	}
	if granted, answers, err := v.Take(Ask{"unknown", 1}); !granted || err != nil || answers[0].Limited {
		t.Errorf("without limit: %v %v %v", granted, answers, err)
	}
	d.order(t, 2, 50*time.Millisecond, part("orders", 1000, 10))
	d.orders.Store(nil)
	time.Sleep(200 * time.Millisecond)
	refused("after the lease")
	d.order(t, 3, time.Minute, part("orders", 0.01, 10))
	if granted, _, err := v.Take(Ask{"orders", 1}); granted || err != nil {
		t.Errorf("after a gap: %v %v", granted, err)
	}
	d.order(t, 4, time.Minute, part("orders", 1000, 10))
	filled(t, v.Limiter, "orders", 10)
	if err := v.Stop(); err != nil || !d.last.Load().Leaves {
		t.Errorf("it does not say that it leaves: %v", err)
	}
	if granted, _, err := v.Take(Ask{"orders", 1}); granted || err != ErrLease {
		t.Errorf("at the end: %v %v", granted, err)
	}
}

// Envoy's questions: all of the buckets that descriptors name, or none; hits; what no rule names; what makes no sense.
func TestEnvoysQuestions(t *testing.T) {
	d := distribute(t)
	v := serve(t, d)
	defer v.Stop()
	conn, err := grpc.NewClient(v.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := envoy.NewRateLimitServiceClient(conn)
	described := func(entries ...string) *common.RateLimitDescriptor {
		d := &common.RateLimitDescriptor{}
		for n := 0; n < len(entries); n += 2 {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: entries[n], Value: entries[n+1]})
		}
		return d
	}
	orders, logins := described("generic_key", "orders"), described("method", "POST", "generic_key", "logins")
	ask := func(hits uint32, all ...*common.RateLimitDescriptor) string {
		t.Helper()
		answer, err := client.ShouldRateLimit(context.Background(), &envoy.RateLimitRequest{Domain: "edge", Descriptors: all, HitsAddend: hits})
		if err != nil {
			return status.Code(err).String()
		}
		text := answer.OverallCode.String()
		for _, s := range answer.Statuses {
			text += fmt.Sprintf(" %v:%d", s.Code, s.LimitRemaining)
		}
		return text
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	is(ask(1, orders), "OVER_LIMIT OVER_LIMIT:0") // no orders yet
	d.order(t, 1, time.Minute, part("orders", 1000, 5), part("logins", 1000, 2))
	filled(t, v.Limiter, "orders", 5)
	filled(t, v.Limiter, "logins", 2)
	d.order(t, 2, time.Minute, part("orders", 0.001, 5), part("logins", 0.001, 2)) // what is there stays, and no more comes
	is(ask(0, orders), "OK OK:4")
	is(ask(1, orders, logins), "OK OK:3 OK:1")
	is(ask(2, orders, logins), "OVER_LIMIT OK:3 OVER_LIMIT:1")
	is(ask(1, orders, described("generic_key", "other"), described("generic_key", "logins")), "OK OK:2 OK:0 OK:0")
	is(ask(1, orders, orders), "OK OK:0 OK:0")
	is(ask(100, orders), "OVER_LIMIT OVER_LIMIT:0")
	is(ask(1, described("generic_key", "other")), "OK OK:0")
	is(ask(1), "OK")
	own := described("generic_key", "orders")
	own.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	is(ask(1, own), codes.InvalidArgument.String())
	is(ask(1<<30, orders), codes.InvalidArgument.String())
	other := &envoy.RateLimitRequest{Domain: "other", Descriptors: []*common.RateLimitDescriptor{orders}}
	if answer, err := client.ShouldRateLimit(context.Background(), other); err != nil ||
		answer.OverallCode != envoy.RateLimitResponse_OK {
		t.Error(answer, err)
	}
}

// What HTTP answers, also to what makes no sense; who waits gets tokens in turn.
func TestQuestionsOverHTTP(t *testing.T) {
	d := distribute(t)
	v := serve(t, d)
	defer v.Stop()
	d.order(t, 1, time.Minute, part("orders", 1000, 5))
	filled(t, v.Limiter, "orders", 5)
	d.order(t, 2, time.Minute, part("orders", 10, 5))
	for query, want := range map[string]string{
		"/take":                              "bucket: \"\" is not a bucket's name",
		"/take?bucket=a%20b":                 "is not a bucket's name",
		"/take?bucket=orders&hits=0":         "hits: expected 1 to",
		"/take?bucket=orders&hits=-1":        "hits:",
		"/take?bucket=orders&hits=99999999":  "hits: expected 1 to",
		"/take?bucket=orders&wait=2":         "wait: \"2\" is not a duration",
		"/take?bucket=orders&wait=99s":       "wait: expected at most 1m0s",
		"/take?bucket=orders&wait=1s&hits=0": "hits: expected 1 to",
		"/take?bucket=orders&hit=1":          "hit: there is no such parameter",
	} {
		if status, text := get(t, v, query); status != http.StatusBadRequest || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), want) {
			t.Error(query, status, text)
		}
	}
	if status, text := get(t, v, "/take?bucket=orders&hits=5"); status != 200 || !strings.Contains(text, `"granted":true,"limited":true,"remaining":0`) {
		t.Error(status, text)
	}
	if status, text := get(t, v, "/take?bucket=orders&hits=5"); status != 429 || !strings.Contains(text, `"granted":false`) || !strings.Contains(text, "retry_after_ns") {
		t.Error(status, text)
	}
	began := time.Now()
	if status, text := get(t, v, "/take?bucket=orders&hits=5&wait=10s"); status != 200 || time.Since(began) < 450*time.Millisecond {
		t.Error(status, text, time.Since(began))
	}
	if status, _ := get(t, v, "/take?bucket=orders&hits=6&wait=300ms"); status != 429 {
		t.Error("more than the share holds: ", status)
	}
	if status, text := get(t, v, "/take?bucket=unknown"); status != 200 || !strings.Contains(text, `"limited":false`) {
		t.Error(status, text)
	}
	if status, text := get(t, v, "/metrics"); status != 200 || !strings.Contains(text, `giusto_limit_hits_total{answer="granted",bucket="orders"} 10`) {
		t.Error(status, text)
	}
}

// A file that is wrong is refused, by what is wrong.
func TestWhatIsWrongIsNamed(t *testing.T) {
	good := "name: a\ndistributor: [d:1]\n"
	if _, err := Parse([]byte(good)); err != nil {
		t.Error(err)
	}
	for text, named := range map[string]string{
		"name: a":                               "distributor: it has none",
		"distributor: [d:1]":                    "name: \"\" is not a limiter's name",
		good + "grpc: here":                     "grpc: \"here\" is not HOST:PORT",
		good + "data: ''":                       "data: it has none",
		good + "listen: a:1":                    "'listen' is not a key here; expected one of grpc",
		good + "domains: {e: [{}]}":             "domains: e: rule 1: when: it has no entries",
		good + "domains: {e: [{when: {a: b}}]}": "domains: e: rule 1: bucket",
		good + "domains: {e: [{when: {a: b}, bucket: c, rate: 1/s}]}": "'rate' is not a key here; expected one of when, bucket",
		"name: a\ndistributor: [nowhere]":                             "distributor: \"nowhere\" is not HOST:PORT",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
