// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"giusto.dev/messaging/control"
	"giusto.dev/messaging/store"
	"giusto.dev/messaging/wire"
)

// Topics' records in the store, by name below this folder.
const folder = "topics/"

var (
	errUnreadable = errors.New("the store has a record that is none of a distributor's")
	errResigned   = errors.New("it was told to end")
	errPassed     = errors.New("its term has passed")
)

const (
	tick = 100 * time.Millisecond
	// patience with the store, before it is tried again.
	patience = time.Second
	// batch is how many bytes are saved at once: ZooKeeper takes no request of more than 1 MiB.
	batch = 256 << 10
)

// question is something that is asked of the core, and may wait for its answer.
type question struct {
	ctx context.Context
	// key of who asks and waits; an earlier question of the same is answered.
	key  string
	wait time.Duration
	// try asks; nil: there is nothing new yet. Last: the answer must be given now.
	try   func(t *term, now time.Duration, last bool) *answer
	reply chan *answer
	asked time.Duration
	given *answer
}

// answer is what HTTP is to say.
type answer struct {
	status int
	body   any
	// again is what the same asker was told before, and may be told again while nothing can be saved; nil: there is nothing.
	again any
	// leaves, if not nil, is called when the body leaves.
	leaves func()
}

func done(body any) *answer { return &answer{status: http.StatusOK, body: body} }

func refused(status int, err error) *answer {
	return &answer{status: status, body: map[string]string{"error": err.Error()}}
}

// granted is what a broker was told, in an unbroken row of leases.
type granted struct {
	incarnation string
	at, lease   time.Duration         // when its lease was made to begin last, and how long that was
	version     uint64                // of the orders that left last; 0: none did
	topics      map[string]wire.Order // these
	stand       bool                  // they are what is saved asks of it
}

// term is one time of leading. One goroutine, run's, has the core.
type term struct {
	of         *Distributor
	leadership store.Leadership
	core       *control.Control
	questions  chan *question
	waiting    map[string]*question
	answered   []*question // whose answers leave when all is saved
	over       chan struct{}
	sent       map[string]uint64 // the version of each broker's last orders
	granted    map[string]*granted
	behind     []string // brokers with new orders that did not ask for them, sorted
}

func newTerm(d *Distributor, l store.Leadership) *term {
	return &term{of: d, leadership: l, questions: make(chan *question), waiting: map[string]*question{}, over: make(chan struct{}), sent: map[string]uint64{},
		granted: map[string]*granted{}}
}

// run leads until it may not any more, and says why. The end of the term answers the requests that still wait.
func (t *term) run(ended context.Context) error {
	defer t.leadership.Resign()
	if err := t.load(ended); err != nil {
		return err
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	counted, costs, unsaved := time.Duration(0), time.Duration(0), false
	for {
		var first *question
		select {
		case first = <-t.questions:
		case <-ticker.C:
		case <-t.leadership.Lost():
			return errPassed
		case <-ended.Done():
			return errResigned
		}
		// The instant counts at which the core is asked: what it grants then is granted before another may lead, however late
		// it leaves.
		now := store.Now()
		if now >= t.leadership.Until() {
			return errPassed
		}
		t.leadership.Turn()
		if first != nil {
			t.ask(first, now)
			t.more(now)
		} else {
			t.core.Tick(now)
			t.expire(now)
		}
		t.wake(now)
		if err := t.save(ended); errors.Is(err, store.ErrFenced) {
			return err
		} else if err != nil {
			t.of.metrics.saves.WithLabelValues("failed").Inc()
			if !unsaved {
				t.of.log("not saved: %v; until it is, leases are renewed and nothing is changed", err)
			}
			unsaved = true
			t.stall(now, err)
			continue
		}
		unsaved = false
		for _, q := range t.answered {
			if q.given.leaves != nil {
				q.given.leaves()
			}
			q.reply <- q.given
		}
		t.answered = nil
		for id, g := range t.granted {
			_, behind := slices.BinarySearch(t.behind, id)
			g.stand = !behind && g.version > 0 && g.version == t.sent[id]
		}
		if now-counted > max(time.Second, 20*costs) { // a twentieth of the time at most
			counted = now
			t.of.metrics.count(t.core.Status(now))
			costs = store.Now() - now
		}
	}
}

// stall answers while nothing can be saved. What is new must not be seen, but what was told before rests on what is saved: it is told again, so that
// brokers keep their leases and publishers their places. All others are refused, after the store had some time to come back.
func (t *term) stall(now time.Duration, why error) {
	t.answered = slices.DeleteFunc(t.answered, func(q *question) bool {
		switch {
		case q.ctx.Err() != nil:
		case now < q.asked+max(q.wait, patience):
			return false
		case q.given.again != nil:
			q.reply <- done(q.given.again)
		default:
			q.reply <- refused(http.StatusServiceUnavailable, fmt.Errorf("not saved: %w. Make room, or mend the store: what was asked for is done as soon as it can be saved. Until then brokers keep their shares and publishers their brokers", why))
		}
		return true
	})
}

// grant answers a report. Orders that left before may leave again as long as no other broker can have been given what they grant:
// while the broker's lease, by the core, has gone on without a gap. Every call of the core's Orders begins it anew, whether the
// answer leaves or not. And what was saved must not be kept from a broker for longer than the lease that it has: not if they were
// behind when all was saved last.
func (t *term) grant(now time.Duration, said wire.Report) *answer {
	g := t.granted[said.Broker]
	if g == nil || g.incarnation != said.Incarnation || now-g.at > g.lease {
		g = &granted{incarnation: said.Incarnation, topics: map[string]wire.Order{}}
		t.granted[said.Broker] = g
	}
	since := said.Since
	if since != g.version {
		since = 0
	}
	orders, _ := t.core.Orders(now, said.Broker, since)
	t.sent[said.Broker] = orders.Version
	g.at, g.lease = now, orders.Lease
	given := &answer{status: http.StatusOK, body: orders, leaves: func() {
		orders.Onto(orders.Epoch, g.version, g.topics) // it is: an answer leaves before the next is made
		g.version = orders.Version
	}}
	if g.stand {
		again := wire.Orders{Epoch: orders.Epoch, Version: g.version, Lease: orders.Lease}
		if again.Since = said.Since; said.Epoch != orders.Epoch || said.Since != g.version {
			again.Since, again.Topics = 0, wire.All(g.topics)
		}
		given.again = again
	}
	return given
}

// load gives the core what leaders before saved.
func (t *term) load(ended context.Context) error {
	for {
		ctx, cancel := context.WithTimeout(ended, 10*patience)
		records, err := t.leadership.Load(ctx)
		cancel()
		switch {
		case err == nil:
			var saved []control.Record
			for _, r := range records {
				var one control.Record
				err := json.Unmarshal(r.Value, &one)
				isList := r.Key == folder+control.Drained || r.Key == folder+control.Leased
				if err != nil || !isList && (one.Book == nil || r.Key != folder+one.Topic.Name) {
					return fmt.Errorf("%w: %s: %v", errUnreadable, r.Key, err)
				}
				saved = append(saved, one)
			}
			t.core = control.New(t.of.settings.control(), store.Now(), t.leadership.Epoch(), saved)
			return nil
		case ended.Err() != nil:
			return errResigned
		case errors.Is(err, store.ErrFenced):
			return err
		}
		t.of.log("not loaded: %v", err)
		time.Sleep(tick)
	}
}

// more takes what else is asked by now, so that one save does for all.
func (t *term) more(now time.Duration) {
	for range 1000 {
		select {
		case q := <-t.questions:
			t.ask(q, now)
		default:
			return
		}
	}
}

func (t *term) ask(q *question, now time.Duration) {
	if q.ctx.Err() != nil {
		return // no client would get the answer
	}
	if before := t.waiting[q.key]; q.key != "" && before != nil {
		t.settle(before, refused(http.StatusConflict, fmt.Errorf("%s has asked again", q.key)))
	}
	q.asked = now
	if given := q.try(t, now, q.wait <= 0); given != nil {
		t.settle(q, given)
		return
	}
	t.waiting[q.key] = q
}

func (t *term) settle(q *question, given *answer) {
	if t.waiting[q.key] == q {
		delete(t.waiting, q.key)
	}
	q.given = given
	t.answered = append(t.answered, q)
}

// wake answers those for whom there is something new.
func (t *term) wake(now time.Duration) {
	brokers, publishers := t.core.Changed()
	t.behind = nil
	for _, id := range brokers {
		if q := t.waiting[ofBroker(id)]; q == nil || !t.last(q, now) {
			t.behind = append(t.behind, id)
		}
	}
	for _, id := range publishers {
		if q := t.waiting[ofPublisher(id)]; q != nil {
			t.last(q, now)
		}
	}
}

// expire answers those that have waited for long enough, and forgets those that hung up.
func (t *term) expire(now time.Duration) {
	for key, q := range t.waiting {
		if q.ctx.Err() != nil {
			delete(t.waiting, key)
		} else if now >= q.asked+q.wait {
			t.last(q, now)
		}
	}
}

// last answers who waits; false: it hung up.
func (t *term) last(q *question, now time.Duration) bool {
	if q.ctx.Err() != nil {
		delete(t.waiting, q.key)
		return false
	}
	t.settle(q, q.try(t, now, true))
	return true
}

func ofBroker(id string) string    { return "broker " + id }
func ofPublisher(id string) string { return "publisher " + id }

// save keeps what must be kept before any answer leaves. Each record stands for itself, so they need not be kept all at once.
func (t *term) save(ended context.Context) error {
	unsaved := t.core.Unsaved()
	var records []store.Record
	size := 0
	for _, name := range slices.Sorted(maps.Keys(unsaved)) {
		r := store.Record{Key: folder + name}
		if record := unsaved[name]; record != nil {
			text, err := json.Marshal(record)
			if err != nil {
				return err
			}
			r.Value = text
		}
		more := len(r.Key) + len(r.Value)
		if len(records) > 0 && size+more > batch {
			if err := t.keep(ended, records); err != nil {
				return err
			}
			records, size = nil, 0
		}
		records, size = append(records, r), size+more
	}
	if len(records) == 0 {
		return nil
	}
	return t.keep(ended, records)
}

// keep saves one batch.
func (t *term) keep(ended context.Context, records []store.Record) error {
	t.leadership.Turn()
	ctx, cancel := context.WithTimeout(ended, patience)
	defer cancel()
	if err := t.leadership.Save(ctx, records...); err != nil {
		return err
	}
	for _, r := range records {
		t.core.Saved(strings.TrimPrefix(r.Key, folder))
	}
	t.of.metrics.saves.WithLabelValues("ok").Inc()
	return nil
}
