// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// twain is two brokers that do what they are told, and a topic with ten publishers.
type twain struct {
	*testing.T
	c   *Control
	now time.Duration
	has map[string]*ordered
	at  map[string]string
}

// atRest is when there is nothing to do for the topic any more: its publishers are at one broker, which has all of it.
func atRest(t *testing.T) (w *twain, busy, idle string) {
	settings := Defaults()
	settings.Round, settings.Calm, settings.Prepare = time.Second, 0, 10*time.Second
	w = &twain{T: t, c: New(settings, 0, 1, nil), has: map[string]*ordered{}, at: map[string]string{}}
	if err := w.c.Put(0, wire.Topic{Name: "alarms", Share: wire.Share{Rate: 200 * wire.Unit, Depth: 20 * wire.Unit},
		Each: 10}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		w.seconds(0.1, "a", "b")
	}
	if !w.c.topics["alarms"].resting {
		t.Fatalf("the topic does not come to rest: %+v", w.c.TopicStatus(w.now, "alarms"))
	}
	for _, id := range w.at {
		busy = id
	}
	idle = map[string]string{"a": "b", "b": "a"}[busy]
	if w.share(busy) != 200*wire.Unit || w.share(idle) != 0 {
		t.Fatal(w.share(busy), w.share(idle))
	}
	return w, busy, idle
}

// report says what one does, and does what the answer says.
func (w *twain) report(id string, kept uint64) {
	has := w.has[id]
	if has == nil {
		has = &ordered{topics: map[string]wire.Order{}}
		w.has[id] = has
	}
	said := wire.Report{Broker: id, Incarnation: "1", V2: id, Epoch: has.epoch, Seen: has.version, Since: has.version}
	if kept > 0 {
		said.Topics = []wire.TopicReport{{Topic: "alarms", Kept: kept}}
	}
	if err := w.c.Report(w.now, said); err != nil {
		w.Fatal(err)
	}
	given, _ := w.c.Orders(w.now, id, said.Since)
	if _, right := given.Onto(has.epoch, has.version, has.topics); !right {
		w.Fatal("changes of other orders")
	}
	has.epoch, has.version = given.Epoch, given.Version
	w.c.Saved("alarms")
}

func (w *twain) share(id string) uint64 { return w.has[id].topics["alarms"].Rate }

// seconds pass, and these brokers report.
func (w *twain) seconds(of float64, alive ...string) {
	w.now += time.Duration(of * float64(time.Second))
	for _, id := range alive {
		w.report(id, 0)
	}
	for n := range 10 {
		who := fmt.Sprint("p", n)
		if a, err := w.c.Assign(w.now, wire.Ask{Topic: "alarms", Publisher: who, At: w.at[who]}); err == nil {
			w.at[who] = a.Broker
		}
	}
	w.c.Tick(w.now)
}

// A broker whose lease has run out has nothing any more, and is told so when it is back, also where it says that it has
// its orders still and asks for what has changed alone, and nothing else has happened to its topic since: no client had
// time to give its share away.
func TestABrokerThatIsBackAfterItsLeaseIsToldThatItHasNothing(t *testing.T) {
	w, busy, idle := atRest(t)
	for end := w.now + lasts(Defaults().Lease); w.now < end+time.Second; w.now += time.Second / 2 {
		w.report(idle, 0)
	}
	w.report(busy, 0)
	if books, _ := w.c.topics["alarms"].book.Current(w.c.brokers[busy].holder); w.share(busy) != books.Rate {
		t.Errorf("it has %d/s, and %d/s by the books", w.share(busy)/wire.Unit, books.Rate/wire.Unit)
	}
}

// What waits at a broker without a share ends the rest of its topic at once: the next orders that can are those of a
// share, not those of a second later.
func TestWhatWaitsEndsARest(t *testing.T) {
	w, busy, idle := atRest(t)
	w.c.Tick(w.now)
	for turn := range 4 { // less is told, that is acknowledged, and more may be given
		w.report(idle, 50)
		w.report(busy, 0)
		if w.share(idle) > 0 {
			return
		}
		w.now += time.Millisecond
		if turn == 3 {
			t.Errorf("nothing of the topic's %d is where its messages wait", w.share(busy)/wire.Unit)
		}
	}
}
