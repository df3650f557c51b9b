// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
	"golang.org/x/sys/unix"
)

// distributor answers reports as a test wants: with its orders, or else as `answer` does.
type distributor struct {
	*httptest.Server
	mutex   sync.Mutex
	orders  wire.Orders
	changed bool // told yet?
	answer  func(w http.ResponseWriter, r *http.Request)
	reports []wire.Report
}

func distribute(t testing.TB) *distributor {
	d := &distributor{orders: wire.Orders{Epoch: 1, Version: 1, Lease: time.Minute}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *distributor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var report wire.Report
	text, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(text, &report); err != nil || r.Method != "POST" || r.URL.Path != "/report" {
		panic(fmt.Sprint(r.Method, r.URL, err))
	}
	d.mutex.Lock()
	d.reports = append(d.reports, report)
	answer := d.answer
	d.mutex.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	for end := time.Now().Add(report.Wait); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		d.mutex.Lock()
		news := d.orders.Epoch != report.Epoch || d.orders.Version != report.Seen
		d.mutex.Unlock()
		if news || r.Context().Err() != nil {
			break
		}
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	json.NewEncoder(w).Encode(d.orders)
}

// say changes what is answered; nil: the orders.
func (d *distributor) say(answer func(w http.ResponseWriter, r *http.Request)) {
	d.mutex.Lock()
	d.answer = answer
	d.mutex.Unlock()
}

// order gives shares, and waits until the broker says that they are in force.
func (d *distributor) order(t testing.TB, lease time.Duration, topics ...wire.Order) {
	t.Helper()
	d.mutex.Lock()
	d.orders = wire.Orders{Epoch: d.orders.Epoch, Version: d.orders.Version + 1, Lease: lease, Topics: topics}
	version := d.orders.Version
	d.mutex.Unlock()
	settled(t, "reports lacking", 0, func() int {
		if d.last().Seen == version {
			return 0
		}
		return 1
	})
}

func (d *distributor) last() (last wire.Report) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if len(d.reports) > 0 {
		last = d.reports[len(d.reports)-1]
	}
	return last
}

func (d *distributor) file() string {
	return "announce: 127.0.0.1\ndrain: 500ms\ndistributor: [" + d.Listener.Addr().String() + "]\n"
}

func share(topic string, rate, depth float64) wire.Order {
	return wire.Order{Topic: topic, Share: wire.Share{Rate: uint64(rate * wire.Unit), Depth: uint64(depth * wire.Unit)}}
}

// within counts what comes in a time.
func within(got chan received, d time.Duration) (n int) {
	for end := time.After(d); ; n++ {
		select {
		case <-got:
		case <-end:
			return n
		}
	}
}

// take waits for so many.
func take(t testing.TB, got chan received, count int) (first, last received) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for n := range count {
		select {
		case last = <-got:
		case <-patience:
			t.Fatalf("%d of %d messages came", n, count)
		}
		if n == 0 {
			first = last
		}
	}
	return first, last
}

func publish(t testing.TB, address, topic string, count int) {
	t.Helper()
	p := producer(t, address, nil)
	defer p.Stop()
	for n := range count {
		if err := p.Publish(topic, []byte(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
}

// A broker without orders holds all but the topics of its file; with the first, topics have their shares, from an empty bucket on, those
// that are not named no limit. Channels exist before the first consumer subscribes.
func TestOrdersAreDone(t *testing.T) {
	d := distribute(t)
	d.say(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no distributor leads", 503) })
	b := start(t, d.file()+"name: edge\ncapacity: 5k/s\ntopics: {own: {rate: 1k/s, depth: 50, limit: publishing}}")
	defer b.Stop()
	address := b.Addr().String()
	channels := map[string]chan received{}
	for _, topic := range []string{"own", "shared", "free"} {
		_, channels[topic] = consume(t, address, topic, nil)
		publish(t, address, topic, 20)
	}
	post(t, b.HTTPAddr().String(), "/pub?topic=free", "one")
	take(t, channels["own"], 20) // a topic of the file needs no orders
	if n := within(channels["shared"], 100*time.Millisecond) + within(channels["free"], 100*time.Millisecond); n > 0 {
		t.Errorf("%d passed without orders", n)
	}
	d.say(nil)
	before := time.Now()
	order := share("shared", 20, 10)
	order.Channels, order.Queue = []string{"first", "second"}, 33
	own := share("own", 1, 1)
	d.order(t, time.Minute, order, own)
	take(t, channels["free"], 21)
	// Of 20 at 20/s from an empty bucket the last passes after one second.
	if _, last := take(t, channels["shared"], 20); last.at.Sub(before) < 990*time.Millisecond {
		t.Errorf("20 at 20/s came in %v", last.at.Sub(before))
	}
	publish(t, address, "own", 20)
	take(t, channels["own"], 20)
	report, stats := d.last(), get(t, b.HTTPAddr().String(), "/stats?format=json&topic=shared")
	if report.Broker != "edge" || report.Capacity != 5000 || report.V2 != address || report.HTTP != b.HTTPAddr().String() || report.Epoch != 1 {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(stats, `"channel_name":"first"`) || !strings.Contains(stats, `"channel_name":"second"`) {
		t.Error(stats)
	}
	metrics := get(t, b.HTTPAddr().String(), "/metrics")
	for _, line := range []string{"giusto_broker_share_rate{topic=\"shared\"} 20\n", "giusto_broker_share_depth{topic=\"shared\"} 10\n",
		"giusto_broker_orders_version 2\n", "giusto_broker_orders_epoch 1\n", "giusto_broker_lease_seconds 5", "giusto_broker_reports_total{result=\"failed\"}",
		"giusto_broker_queue_limit{topic=\"shared\"} 33\n"} {
		if !strings.Contains(metrics, line) {
			t.Error("no ", line)
		}
	}
	if strings.Contains(metrics, "share_rate{topic=\"own\"}") {
		t.Error("the file's topic has a share")
	}
}

// A smaller share is in force when it is acknowledged, also for what waits already; older orders change nothing.
func TestAShrinkTakesEffectBeforeItIsAcknowledged(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	d.order(t, time.Minute, share("a", 100, 5))
	_, got := consume(t, b.Addr().String(), "a", nil)
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	if err := p.MultiPublish("a", slices.Repeat([][]byte{[]byte("x")}, 3000)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	d.order(t, time.Minute, share("a", 0, 0))
	took := time.Since(began)
	within(got, 300*time.Millisecond) // what was on its way
	if n := within(got, 300*time.Millisecond); n > 0 {
		t.Errorf("%d after the share was given up", n)
	}
	d.mutex.Lock()
	d.orders.Version, d.orders.Topics = 1, []wire.Order{share("a", 100, 5)}
	d.mutex.Unlock()
	if n := within(got, 500*time.Millisecond); n > 0 || d.last().Seen != 3 {
		t.Errorf("%d passed by older orders, seen is %d", n, d.last().Seen)
	}
	d.mutex.Lock()
	d.orders.Version = 3
	d.mutex.Unlock()
	began = time.Now()
	d.order(t, time.Minute, share("a", 100, 50))
	if _, last := take(t, got, 50); last.at.Sub(began) < 490*time.Millisecond {
		t.Errorf("50 at 100/s from an empty bucket came in %v", last.at.Sub(began))
	}
	d.order(t, time.Minute, share("a", 0, 0)) // nsqd's end races with messages in flight
	within(got, 300*time.Millisecond)
	fmt.Printf("broker: a shrink was acknowledged after %v\n", took.Round(time.Millisecond))
}

// Without a distributor the broker goes on until its lease ends, and holds then; a new lease begins with an empty bucket.
func TestALeaseEnds(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	address := b.Addr().String()
	d.order(t, 3*time.Second, share("a", 100, 100))
	time.Sleep(1100 * time.Millisecond) // the bucket is full
	d.say(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "gone", 502) })
	lost := time.Now()
	_, got := consume(t, address, "a", nil)
	p := producer(t, address, nil)
	defer p.Stop()
	send := func(n int) {
		for range n {
			if err := p.Publish("a", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(20)
	take(t, got, 20) // it goes on without its distributor
	time.Sleep(time.Until(lost.Add(3100 * time.Millisecond)))
	send(150)
	if n := within(got, 500*time.Millisecond); n > 0 {
		t.Errorf("%d after the lease", n)
	}
	if left := get(t, b.HTTPAddr().String(), "/metrics"); !strings.Contains(left, "giusto_broker_lease_seconds -") {
		t.Error("the lease is not told to be over")
	}
	seen := d.last().Seen
	d.say(nil)
	began := time.Now()
	// At 100/s from an empty bucket they take 1.5 s.
	first, last := take(t, got, 150)
	if last.at.Sub(began) < 1500*time.Millisecond || first.at.Sub(began) > 5*time.Second {
		t.Errorf("the first of 150 messages came after %v, the last after %v", first.at.Sub(began), last.at.Sub(began))
	}
	if seen != 2 || d.last().Incarnation == "" || d.last().Replaces != "" {
		t.Errorf("%+v", d.last())
	}
}

// When the lease is over, topics that the orders did not name are held, too: they may have been given a limit that this broker did not hear
// of. Those of the file go on.
func TestWithoutALeaseAllIsHeld(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file()+"topics: {own: {rate: 1k/s, depth: 50, limit: publishing}}")
	defer b.Stop()
	d.order(t, time.Second, share("named", 1000, 10))
	channels := map[string]chan received{}
	for _, topic := range []string{"own", "free", "web"} {
		_, channels[topic] = consume(t, b.Addr().String(), topic, nil)
	}
	// The connection stays the same over all that happens.
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	send := func() {
		for _, topic := range []string{"own", "free"} {
			if err := p.Publish(topic, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		post(t, b.HTTPAddr().String(), "/pub?topic=web", "x")
	}
	send()
	for _, got := range channels {
		take(t, got, 1)
	}
	d.say(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "gone", 502) })
	time.Sleep(1200 * time.Millisecond)
	send()
	take(t, channels["own"], 1)
	if n := within(channels["free"], 300*time.Millisecond) + within(channels["web"], 0); n > 0 {
		t.Errorf("%d passed without a lease", n)
	}
	d.say(nil)
	d.order(t, time.Minute, share("named", 1000, 10))
	take(t, channels["free"], 1)
	take(t, channels["web"], 1)
}

// What cannot be called so is left out of orders, and tells so once; the rest is done, and the lease goes on.
func TestABadNameDoesNotSpoilTheOrders(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	good := share("good", 1000, 10)
	good.Channels = []string{"first", "no channel", "second"}
	d.order(t, time.Minute, share("no topic", 1, 1), good)
	publish(t, b.Addr().String(), "good", 3)
	for _, name := range []string{"first", "second"} {
		stats := get(t, b.HTTPAddr().String(), "/stats?format=json&topic=good&channel="+name)
		if !strings.Contains(stats, `"channel_name":"`+name+`"`) {
			t.Error(stats)
		}
	}
	if stats := get(t, b.HTTPAddr().String(), "/stats?format=json"); strings.Contains(stats, "no ") {
		t.Error(stats)
	}
}

// A topic with a share needs no file of its own: it has its limit also where there are no more.
func TestATopicsLimitNeedsNoFile(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	d.order(t, time.Minute)
	_, got := consume(t, b.Addr().String(), "late", nil)
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	if err := p.Publish("late", []byte("x")); err != nil {
		t.Fatal(err)
	}
	take(t, got, 1) // it has no limit
	b.follower.reporter.Stop()
	orders := wire.Orders{Epoch: 1, Version: 3, Lease: time.Minute, Topics: []wire.Order{share("late", 20, 10)}}
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max})
	err := b.follower.Apply(b.leases(time.Now()), orders)
	began := time.Now()
	refused := p.Publish("late", []byte("x"))
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	if err != nil || refused != nil {
		t.Error(err, refused)
	}
	if take(t, got, 1); time.Since(began) < 45*time.Millisecond {
		t.Errorf("of an empty bucket of 20/s one came after %v", time.Since(began))
	}
}
