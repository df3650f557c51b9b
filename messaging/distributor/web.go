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
	taken := false
	d.ask(w, r, &question{key: ofBroker(said.Broker), wait: min(said.Wait, longest), try: func(c *control.Control, now time.Duration, last bool) *answer {
		if !taken {
			if err := c.Report(now, said); err != nil {
				return refused(http.StatusConflict, err)
			}
			taken = true
			if last = last || c.Behind(said); !last {
				return nil
			}
		}
		orders, _ := c.Orders(now, said.Broker)
		return &answer{http.StatusOK, orders}
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
	d.ask(w, r, &question{key: key, wait: min(asked.Wait, longest), try: func(c *control.Control, now time.Duration, last bool) *answer {
		told, err := c.Assign(now, asked)
		switch {
		case errors.Is(err, control.ErrTopic):
			return refused(http.StatusNotFound, fmt.Errorf("%s: %w", asked.Topic, err))
		case err != nil:
			return refused(http.StatusServiceUnavailable, err)
		case !last && told.Version == asked.Seen:
			return nil
		}
		return &answer{http.StatusOK, told}
	}})
}

// put makes a topic or gives it another bucket and promise; with ?dry-run it only tells what would be.
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
	dry := r.URL.Query().Has("dry-run")
	d.ask(w, r, &question{try: func(c *control.Control, now time.Duration, _ bool) *answer {
		places, err := c.Try(now, topic)
		if dry || err != nil {
			plan := map[string]any{"topic": topic, "fits": err == nil, "brokers": places}
			if err != nil {
				plan["error"] = err.Error()
			}
			if err != nil && !dry {
				return &answer{http.StatusConflict, plan}
			}
			return &answer{http.StatusOK, plan}
		}
		if err := c.Put(now, topic); err != nil {
			return refused(http.StatusConflict, err)
		}
		return &answer{http.StatusOK, find(c, topic.Name)}
	}})
}

func (d *Distributor) remove(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	d.ask(w, r, &question{try: func(c *control.Control, now time.Duration, _ bool) *answer {
		if !c.Remove(now, name) {
			return refused(http.StatusNotFound, fmt.Errorf("%s: %w", name, control.ErrTopic))
		}
		return &answer{http.StatusOK, map[string]string{"removed": name}}
	}})
}

func find(c *control.Control, name string) any {
	for _, t := range c.Topics() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (d *Distributor) topics(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	d.ask(w, r, &question{try: func(c *control.Control, _ time.Duration, _ bool) *answer {
		if name == "" {
			return &answer{http.StatusOK, c.Topics()}
		}
		if t := find(c, name); t != nil {
			return &answer{http.StatusOK, t}
		}
		return refused(http.StatusNotFound, fmt.Errorf("%s: %w", name, control.ErrTopic))
	}})
}

func (d *Distributor) brokers(w http.ResponseWriter, r *http.Request) {
	d.ask(w, r, &question{try: func(c *control.Control, _ time.Duration, _ bool) *answer { return &answer{http.StatusOK, c.Brokers()} }})
}

// status answers whether it leads or not.
func (d *Distributor) status(w http.ResponseWriter, _ *http.Request) {
	epoch := uint64(0)
	t := d.term.Load()
	if t != nil {
		epoch = t.leadership.Epoch()
	}
	say(w, &answer{http.StatusOK, map[string]any{"leads": t != nil, "epoch": epoch, "leader": d.store.Leader(), "address": d.address}})
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
	say(w, refused(http.StatusServiceUnavailable, errors.New("nobody leads just now")))
}

func say(w http.ResponseWriter, a *answer) {
	w.Header().Set("Content-Type", "application/json")
	if a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(1))
	}
	w.WriteHeader(a.status)
	json.NewEncoder(w).Encode(a.body)
}
