// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/wire"
)

// A broker that was killed comes back without a token and holds until it has orders; it says which incarnation is dead.
func TestNothingOfAShareSurvivesAKill(t *testing.T) {
	d, data := distribute(t), t.TempDir()
	command, address, _ := child(t, data, d.file())
	d.order(t, time.Minute, share("a", 100, 100))
	first := d.last().Incarnation
	time.Sleep(1100 * time.Millisecond)
	_, got := consume(t, address, "a", nil)
	publish(t, address, "a", 10)
	take(t, got, 10)
	time.Sleep(300 * time.Millisecond) // what is not finished comes again
	end(command)
	d.say(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not now", 503) })
	command, address, _ = child(t, data, d.file())
	_, got = consume(t, address, "a", nil)
	publish(t, address, "a", 60)
	if n := within(got, 300*time.Millisecond); n > 0 {
		t.Errorf("%d without orders", n)
	}
	if d.last().Replaces != first || d.last().Incarnation == first || d.last().Seen != 0 {
		t.Errorf("%+v, first %s", d.last(), first)
	}
	d.say(nil)
	began := time.Now()
	_, last := take(t, got, 50)
	if took := last.at.Sub(began); took < 470*time.Millisecond {
		t.Errorf("50 messages at 100/s took %v", took)
	}
	// After SIGTERM it says once, to a distributor that does not answer, that it leaves, and nothing else.
	d.say(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	time.Sleep(100 * time.Millisecond)
	publish(t, address, "a", 50)
	d.mutex.Lock()
	before := len(d.reports)
	d.mutex.Unlock()
	command.Process.Signal(syscall.SIGTERM)
	command.Wait()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, r := range d.reports[min(len(d.reports), before+1):] { // one may have been under way
		if !r.Leaves {
			t.Errorf("after SIGTERM it reports %+v", r)
		}
	}
	if last := d.reports[len(d.reports)-1]; !last.Leaves {
		t.Errorf("its last report is %+v", last)
	}
}

// Whatever a distributor answers, orders in force stay in force until their lease ends, and the next one is asked.
func TestAnswersThatAreNoOrders(t *testing.T) {
	d := distribute(t)
	leads := distribute(t)
	// The second is never reached as long as the first answers: it sends on to the leader, though.
	d.say(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, leads.URL+"/report", 307) })
	b := start(t, "announce: 127.0.0.1\ndrain: 0s\ndistributor: ["+d.Listener.Addr().String()+", "+leads.Listener.Addr().String()+"]\n")
	defer b.Stop()
	leads.order(t, time.Minute, share("a", 1000, 10))
	d.mutex.Lock()
	sent := len(d.reports)
	d.mutex.Unlock()
	if sent != 1 {
		t.Errorf("%d reports went by way of another", sent)
	}
	whole := `{"epoch":1,"version":9,"lease":60000000000,"topics":[{"topic":"a","rate":0,"depth":0%s}]}`
	answers := map[string]string{
		"empty": "", "null": "null", "no orders": "{}", "a list": "[]", "text": "never", "half": whole[:40],
		"a rate that is text":         `{"epoch":1,"version":9,"lease":1,"topics":[{"topic":"a","rate":"7"}]}`,
		"less than nothing":           `{"epoch":1,"version":9,"lease":1,"topics":[{"topic":"a","rate":-7}]}`,
		"a fraction":                  `{"epoch":1,"version":9,"lease":1,"topics":[{"topic":"a","rate":1.5}]}`,
		"more than there is":          `{"epoch":1,"version":9,"lease":1,"topics":[{"topic":"a","rate":99999999999999999999}]}`,
		"a rate too large":            `{"epoch":1,"version":9,"lease":1,"topics":[{"topic":"a","rate":9999999999999999}]}`,
		"a lease of less":             `{"epoch":1,"version":9,"lease":-1}`,
		"a queue of less":             fmt.Sprintf(whole, `,"queue":-5`),
		"twice":                       `{"epoch":1,"version":9,"lease":1,"topics":[{"topic":"a"},{"topic":"a"}]}`,
		"two answers":                 fmt.Sprintf(whole, "") + fmt.Sprintf(whole, ""),
		"orders of a leader long ago": `{"epoch":0,"version":9,"lease":60000000000}`,
	}
	_, got := consume(t, b.Addr().String(), "a", nil)
	for name, text := range answers {
		asked := make(chan struct{}, 100)
		spoil := func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(text)); asked <- struct{}{} }
		d.say(spoil)
		leads.say(spoil)
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Fatal("not asked again after ", name)
		}
	}
	publish(t, b.Addr().String(), "a", 20)
	if take(t, got, 20); int(b.follower.reporter.Failed.Load()) < len(answers)-1 {
		t.Error("some answers were taken for orders")
	}
	// An answer that takes too long, one that never ends, and one that is too large.
	slow := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.Write(bytes.Repeat([]byte(" "), 1<<20))
		}
	}
	failed := b.follower.reporter.Failed.Load()
	d.say(endless)
	leads.say(slow)
	time.Sleep(report.Every + report.AnswerWithin + 500*time.Millisecond)
	d.say(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, leads.URL+"/report", 307) })
	leads.say(nil)
	leads.order(t, time.Minute, share("a", 500, 10))
	if b.follower.reporter.Failed.Load() == failed {
		t.Error("slow answers are no failures")
	}
}

// What a broker counts: messages and those of clients that follow no assignment, the bucket in use, how long messages took, and which
// channels have consumers. go-nsq as it is works beside clients that follow.
func TestWhatIsReported(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	d.order(t, time.Minute, share("a", 100, 40), share("idle", 1, 1))
	time.Sleep(500 * time.Millisecond)
	_, got := consume(t, b.Addr().String(), "a", nil)
	config := nsq.NewConfig()
	config.UserAgent = "giusto/1.0"
	follows := producer(t, b.Addr().String(), config)
	defer follows.Stop()
	for range 30 {
		if err := follows.Publish("a", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, b.Addr().String(), "a", 12)
	post(t, b.HTTPAddr().String(), "/pub?topic=a", "one")
	publish(t, b.Addr().String(), "free", 5)
	take(t, got, 43)
	time.Sleep(2500 * time.Millisecond)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	total, ready := map[string]*wire.Second{}, map[string]bool{}
	seconds := map[string]int{}
	for _, report := range d.reports {
		for _, topic := range report.Topics {
			if total[topic.Topic] == nil {
				total[topic.Topic] = &wire.Second{Delivery: wire.Histogram{}}
			}
			for _, channel := range topic.Ready {
				ready[topic.Topic+":"+channel] = true
			}
			sum := total[topic.Topic]
			for _, second := range topic.Seconds {
				if second.At <= sum.At {
					t.Errorf("second %d is told after %d", second.At, sum.At)
				}
				seconds[topic.Topic]++
				sum.At, sum.Used = second.At, max(sum.Used, second.Used)
				sum.Messages, sum.Unmanaged = sum.Messages+second.Messages, sum.Unmanaged+second.Unmanaged
				sum.Delivery.Add(second.Delivery)
			}
		}
	}
	a := total["a"]
	if a.Messages != 43 || a.Unmanaged != 13 || a.Delivery.Count() != 43 || total["free"].Unmanaged != 5 || !ready["a:test"] || len(ready) != 1 {
		t.Errorf("%+v %+v %v", a, total["free"], ready)
	}
	// 43 at once, or nearly, of a bucket of 40 that gains 100/s.
	if used := float64(a.Used) / wire.Unit; used < 20 || used > 43 {
		t.Errorf("%.1f tokens used", used)
	}
	if most := a.Delivery.Percentile(1); most < 50*time.Microsecond || most > 2*time.Second {
		t.Errorf("delivered within %v", most)
	}
	if idle := total["idle"]; idle == nil || seconds["idle"] < 2 || idle.Messages > 0 {
		t.Errorf("idle: %+v, %d seconds", idle, seconds["idle"])
	}
	fmt.Printf("broker: reported %d messages, %.1f tokens used, p50 %v, p100 %v\n", a.Messages, float64(a.Used)/wire.Unit, a.Delivery.Percentile(.5), a.Delivery.Percentile(1))
}

// A channel is unready while all of its consumers have an RDY of 0.
func TestConsumersThatTakeNothingAreReported(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	d.order(t, time.Minute, share("a", 1000, 10))
	publish(t, b.Addr().String(), "a", 1)
	first, _ := consume(t, b.Addr().String(), "a", nil)
	reported := func(when, wanted string) {
		t.Helper()
		told := ""
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			told = ""
			for _, topic := range d.last().Topics {
				if topic.Topic == "a" {
					told = fmt.Sprint(topic.Ready, topic.Unready)
				}
			}
			if told == wanted {
				return
			}
		}
		t.Errorf("%s: %s, expected %s", when, told, wanted)
	}
	reported("with RDY 200", "[test] []")
	first.ChangeMaxInFlight(0)
	reported("with RDY 0", "[test] [test]")
	second, _ := consume(t, b.Addr().String(), "a", nil)
	reported("beside another", "[test] []")
	second.Stop()
	reported("alone again", "[test] [test]")
	first.ChangeMaxInFlight(1)
	reported("with RDY 1", "[test] []")
	first.Stop()
	reported("gone", "[] []")
}

// While the machine sleeps the lease goes on, and the gates' clock does not: what was slept is over.
func TestALeaseGoesOnWhileTheMachineSleeps(t *testing.T) {
	d := distribute(t)
	b := start(t, d.file())
	defer b.Stop()
	d.order(t, 30*time.Second, share("a", 1000, 10))
	_, got := consume(t, b.Addr().String(), "a", nil)
	publish(t, b.Addr().String(), "a", 10)
	take(t, got, 10)
	d.say(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	b.clock.Slept.Add(int64(31 * time.Second)) // as the next look would say
	publish(t, b.Addr().String(), "a", 10)
	if n := within(got, 200*time.Millisecond); n > 0 {
		t.Errorf("%d after a sleep", n)
	}
}
