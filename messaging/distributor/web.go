// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"giusto.dev/messaging/control"
	"giusto.dev/messaging/distribute"
	"giusto.dev/messaging/wire"
)

const (
	largestReport = 16 << 20
	largestTopic  = 64 << 10
	// longest is how long a question may wait at most; less than a publisher may be silent.
	longest = 30 * time.Second
)

func (d *Distributor) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /report", d.report)
	mux.HandleFunc("GET /assign", d.assign)
	mux.HandleFunc("PUT /topics/{name}", d.put)
	mux.HandleFunc("DELETE /topics/{name}", d.remove)
	mux.HandleFunc("GET /topics/{name}", d.topics)
	mux.HandleFunc("GET /topics", d.topics)
	mux.HandleFunc("GET /brokers", d.brokers)
	mux.HandleFunc("PUT /brokers/{name}/drain", d.drain)
	mux.HandleFunc("DELETE /brokers/{name}/drain", d.drain)
	mux.HandleFunc("PUT /brokers/{name}/dead", d.dead)
	mux.HandleFunc("GET /status", d.status)
	mux.Handle("GET /metrics", d.metrics.handler())
	return mux
}

// report is a broker's: orders, when they are other than those that it has, or after Wait.
func (d *Distributor) report(w http.ResponseWriter, r *http.Request) {
	var said wire.Report
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, largestReport)).Decode(&said); err != nil {
		say(w, refused(http.StatusBadRequest, fmt.Errorf("not a report: %w", err)))
		return
	}
	if err := said.Check(); err != nil {
		say(w, refused(http.StatusBadRequest, fmt.Errorf("not a report: %w", err)))
		return
	}
	taken := false
	d.ask(w, r, &question{key: ofBroker(said.Broker), wait: min(said.Wait, longest), try: func(t *term, now time.Duration, last bool) *answer {
		if !taken {
			if err := t.core.Report(now, said); err != nil {
				return refused(http.StatusConflict, err)
			}
			taken = true
			if said.Leaves {
				return done(wire.Orders{})
			}
			// Who has not what it was sent last is answered at once; who has is woken when there is something newer.
			if !last && said.Epoch == t.leadership.Epoch() && said.Seen == t.sent[said.Broker] {
				return nil
			}
		}
		return t.grant(now, said)
	}})
}

// assign is a publisher's question: where to send, when that is other than where it sends, or after Wait.
func (d *Distributor) assign(w http.ResponseWriter, r *http.Request) {
	asked, err := wire.ParseAsk(r.URL.Query())
	if err != nil {
		say(w, refused(http.StatusBadRequest, err))
		return
	}
	key := ofPublisher(asked.Topic + "/" + asked.Publisher)
	d.ask(w, r, &question{key: key, wait: min(asked.Wait, longest), try: func(t *term, now time.Duration, last bool) *answer {
		told, err := t.core.Assign(now, asked)
		switch {
		case errors.Is(err, control.ErrTopic):
			return refused(http.StatusNotFound, fmt.Errorf("%s: %w", asked.Topic, err))
		case err != nil:
			return refused(http.StatusServiceUnavailable, err)
		case told.Version != asked.Seen:
			return done(told)
		case !last:
			return nil
		}
		return &answer{status: http.StatusOK, body: told, again: told}
	}})
}

// put makes a topic or gives it another bucket and promise; with ?dry-run it only tells what would come of it.
func (d *Distributor) put(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestTopic))
	if err != nil {
		say(w, refused(http.StatusRequestEntityTooLarge, err))
		return
	}
	topic, err := parseTopic(r.PathValue("name"), text)
	if err != nil {
		say(w, refused(http.StatusBadRequest, err))
		return
	}
	query := r.URL.Query()
	dry := query.Has("dry-run")
	for key := range query {
		if key != "dry-run" && (key != "publishers" || !dry) { // else a slip of the pen would change the topic
			say(w, refused(http.StatusBadRequest, fmt.Errorf("%s: there is no such parameter; expected none, or dry-run and with it perhaps publishers", key)))
			return
		}
	}
	if dry {
		d.try(w, r, topic, query.Get("publishers"))
		return
	}
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		if err := t.core.Put(now, topic); err != nil {
			return refused(http.StatusConflict, err)
		}
		return done(t.core.TopicStatus(now, topic.Name))
	}})
}

// try tells where publishers would go: so many as are said, or as the topic has.
func (d *Distributor) try(w http.ResponseWriter, r *http.Request, topic wire.Topic, publishers string) {
	count, err := strconv.Atoi(publishers)
	if publishers != "" && (err != nil || count < 1 || count > 1<<20) {
		say(w, refused(http.StatusBadRequest, fmt.Errorf("publishers=%s: expected a number from 1 to %d", publishers, 1<<20)))
		return
	}
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		count, rate := count, topic.Each
		if has := t.core.TopicStatus(now, topic.Name); has != nil && count == 0 {
			count, rate = has.Publishers, 0
			for _, share := range has.Shares {
				rate += share.Assigned / float64(max(1, count))
			}
		}
		all := make([]distribute.Publisher, count)
		for n := range all {
			all[n] = distribute.Publisher{ID: strconv.Itoa(n), Rate: rate}
		}
		plan, err := t.core.Try(now, topic, all)
		if err != nil {
			return refused(http.StatusConflict, err)
		}
		return done(plan)
	}})
}

func (d *Distributor) remove(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		if !t.core.Remove(now, name) {
			return refused(http.StatusNotFound, fmt.Errorf("%s: %w", name, control.ErrTopic))
		}
		return done(map[string]string{"removed": name})
	}})
}

// drain is PUT to send publishers away from a broker, DELETE to let them come again.
func (d *Distributor) drain(w http.ResponseWriter, r *http.Request) {
	name, on := r.PathValue("name"), r.Method == http.MethodPut
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		if !t.core.Drain(now, name, on) {
			return refused(http.StatusNotFound, fmt.Errorf("%s: no such broker reports", name))
		}
		return done(map[string]any{"broker": name, "drained": on})
	}})
}

// dead takes an operator's word for it.
func (d *Distributor) dead(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		if !t.core.Dead(now, name) {
			return refused(http.StatusNotFound, fmt.Errorf("%s: no such broker; GET /brokers lists those that have reported", name))
		}
		return done(map[string]string{"dead": name})
	}})
}

func (d *Distributor) topics(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		if name == "" {
			return done(t.core.Status(now).Topics)
		}
		if one := t.core.TopicStatus(now, name); one != nil {
			return done(one)
		}
		return refused(http.StatusNotFound, fmt.Errorf("%s: %w", name, control.ErrTopic))
	}})
}

func (d *Distributor) brokers(w http.ResponseWriter, r *http.Request) {
	d.ask(w, r, &question{try: func(t *term, now time.Duration, _ bool) *answer {
		return done(t.core.Status(now).Brokers)
	}})
}

// status answers whether it leads or not.
func (d *Distributor) status(w http.ResponseWriter, _ *http.Request) {
	epoch := uint64(0)
	t := d.term.Load()
	if t != nil {
		epoch = t.leadership.Epoch()
	}
	say(w, done(map[string]any{"leads": t != nil, "epoch": epoch, "leader": d.store.Leader(), "address": d.address}))
}

// ask asks the core, if this distributor leads, and sends on to who leads else.
func (d *Distributor) ask(w http.ResponseWriter, r *http.Request, q *question) {
	q.ctx, q.reply = r.Context(), make(chan *answer, 1)
	if t := d.term.Load(); t != nil {
		select {
		case t.questions <- q:
			select {
			case given := <-q.reply:
				say(w, given)
				return
			case <-t.over:
			case <-q.ctx.Done():
				return
			}
		case <-t.over:
		case <-q.ctx.Done():
			return
		}
	}
	if leader := d.store.Leader(); leader != "" && leader != d.address {
		http.Redirect(w, r, "http://"+leader+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		return
	}
	say(w, refused(http.StatusServiceUnavailable, errors.New("no distributor leads just now")))
}

func say(w http.ResponseWriter, a *answer) {
	w.Header().Set("Content-Type", "application/json")
	if a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(1))
	}
	w.WriteHeader(a.status)
	json.NewEncoder(w).Encode(a.body)
}
