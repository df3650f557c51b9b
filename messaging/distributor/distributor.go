// SPDX-License-Identifier: Apache-2.0

// Package distributor is the daemon around package control: HTTP, the store, and being the leader or not. Brokers POST /report, publishers
// GET /assign, people and their tools PUT, GET and DELETE /topics.
package distributor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"giusto.dev/messaging/control"
	"giusto.dev/messaging/store"
)

// Distributor is a running one.
type Distributor struct {
	settings Settings
	address  string // for others
	log      func(string, ...any)
	store    store.Store
	listener net.Listener
	server   *http.Server
	term     atomic.Pointer[term] // nil while it does not lead
	metrics  *metrics
	ended    context.Context
	end      func()
	failed   chan error
	stood    chan struct{} // closed when it does not stand for election any more
}

// Start begins to answer, and to stand for election.
func Start(s Settings, log func(string, ...any)) (*Distributor, error) {
	kept, err := s.open(log)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return begin(s, kept, log)
}

func begin(s Settings, kept store.Store, log func(string, ...any)) (d *Distributor, err error) {
	d = &Distributor{settings: s, log: log, store: kept, failed: make(chan error, 1), stood: make(chan struct{})}
	if d.listener, err = net.Listen("tcp", s.Listen); err != nil {
		kept.Close()
		return nil, err
	}
	d.address = s.Announce
	if d.address == "" {
		d.address = d.listener.Addr().String()
	}
	d.ended, d.end = context.WithCancel(context.Background())
	d.metrics = newMetrics(d)
	d.server = &http.Server{Handler: d.routes(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			d.failed <- err
		}
	}()
	go func() { defer close(d.stood); d.stand() }()
	return d, nil
}

// Addr is where it answers.
func (d *Distributor) Addr() string { return d.listener.Addr().String() }

// Failed tells why it cannot go on.
func (d *Distributor) Failed() <-chan error { return d.failed }

// Stop resigns at once, so that another leads, and ends.
func (d *Distributor) Stop() {
	d.end()
	if t := d.term.Load(); t != nil {
		<-t.over
	}
	d.store.Close()
	d.server.Close()
	select {
	case <-d.stood:
	case <-time.After(5 * time.Second): // its store hangs
	}
}

// stand stands for election, and leads, again and again.
func (d *Distributor) stand() {
	for d.ended.Err() == nil {
		l, err := d.store.Lead(d.ended, d.address)
		if err != nil && d.ended.Err() == nil {
			d.log("election: %v", err)
			select {
			case <-time.After(time.Second):
			case <-d.ended.Done():
			}
		}
		if err != nil {
			continue
		}
		d.log("leads: epoch %d", l.Epoch())
		d.metrics.takeovers.Inc()
		t := newTerm(d, l)
		d.term.Store(t)
		err = t.run(d.ended)
		d.term.Store(nil)
		d.metrics.count(control.Status{}) // the next leader's are elsewhere
		close(t.over)
		d.log("leads no more: %v", err)
		if errors.Is(err, errUnreadable) {
			d.failed <- err
			return
		}
	}
}
