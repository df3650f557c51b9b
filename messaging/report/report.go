// SPDX-License-Identifier: Apache-2.0

// Package report is the side of a broker that talks to a distributor: it tells how the broker is, and hands over
// the orders that are the answer.
package report

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"giusto.dev/messaging/clock"
	"giusto.dev/messaging/wire"
)

const (
	// Every so often a broker reports that has nothing new to tell.
	Every = time.Second
	// acknowledgeAfter new orders the next report says that they are in force.
	acknowledgeAfter = 5 * time.Millisecond
	// retryAfter a report that failed.
	retryAfter = 250 * time.Millisecond
	// AnswerWithin: a distributor that does not answer for so long after it should have is taken for dead.
	AnswerWithin = 2 * time.Second
	largestReply = 64 << 20
)

// Holder is who holds shares by the orders.
type Holder interface {
	// Report is what there is to say now, besides what does not change; taken is called once a distributor has it.
	Report(now time.Time) (r wire.Report, taken func())
	// Apply does what orders say that answer a report sent when the leases' time was `asked`.
	Apply(asked uint64, o wire.Orders) error
}

// Reporter tells distributors how a holder is, and what they answer to the holder.
type Reporter struct {
	About  wire.Report // what does not change
	Sent   atomic.Uint64
	Failed atomic.Uint64

	holder Holder
	clock  *clock.Clock
	log    func(format string, words ...any)
	client *http.Client
	given  []string // the distributors of the file
	turn   int      // the next of these to be tried
	to     string   // which answered last; empty: none does
	orders struct { // in force, whole
		epoch, version uint64
		topics         map[string]wire.Order
	}
	end   context.CancelFunc
	ended chan struct{}
}

// New is a reporter to these distributors, which does not report yet. log gets a line for what an operator should know.
func New(about wire.Report, distributors []string, clock *clock.Clock, log func(format string, words ...any)) *Reporter {
	return &Reporter{About: about, given: distributors, clock: clock, log: log, ended: make(chan struct{}),
		client: &http.Client{Timeout: Every + AnswerWithin, Transport: &http.Transport{IdleConnTimeout: time.Minute}}}
}

// Start begins to report.
func (r *Reporter) Start(holder Holder) {
	ctx, end := context.WithCancel(context.Background())
	r.holder, r.end = holder, end
	go r.run(ctx)
}

// Incarnate gives this start of a broker a name, and tells that of the one before, which is dead: the caller has
// its directory's lock.
func Incarnate(path string) (name, before string, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", err
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", "", err
	}
	name = fmt.Sprintf("%x", random)
	if err := os.WriteFile(path+".new", []byte(name+"\n"), 0o600); err != nil {
		return "", "", err
	}
	return name, strings.TrimSpace(string(text)), os.Rename(path+".new", path)
}

// run reports until it is ended.
func (r *Reporter) run(ctx context.Context) {
	defer close(r.ended)
	for told := false; ctx.Err() == nil; {
		began := time.Now()
		news, err := r.report(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := Every - time.Since(began)
		switch {
		case err != nil:
			r.Failed.Add(1)
			if !told {
				r.log("no orders from a distributor: %v", err)
			}
			told, pause, r.to = true, retryAfter, ""
		case told:
			r.log("%s gives orders again", r.to)
			told = false
		}
		if err == nil && news {
			pause = acknowledgeAfter
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Stop ends the reports, also one that is under way.
func (r *Reporter) Stop() {
	r.end()
	<-r.ended
	r.client.CloseIdleConnections()
}

// Farewell makes the last report, to who answered last or else to any.
func (r *Reporter) Farewell() (err error) {
	last := r.About
	last.Leaves = true
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: time.Second}
	to := r.given
	if r.to != "" {
		to = append([]string{strings.TrimPrefix(r.to, "http://")}, to...)
	}
	for _, address := range to[:min(len(to), 3)] {
		answer, failed := client.Post("http://"+address+"/report", "application/json", bytes.NewReader(text))
		if failed == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			failed = errors.New(answer.Status)
		}
		err = fmt.Errorf("%s: %w", address, failed)
	}
	return err
}

// report makes one report and does what the answer says; news: that is other than before.
func (r *Reporter) report(ctx context.Context) (news bool, err error) {
	if r.to == "" {
		r.to = "http://" + r.given[r.turn%len(r.given)]
		r.turn++
	}
	now := time.Now()
	asked := r.clock.Leases(now)
	report, taken := r.holder.Report(now)
	if report.Epoch == r.orders.epoch && report.Seen == r.orders.version {
		report.Since = report.Seen
	}
	text, err := json.Marshal(report)
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", r.to+"/report", bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	r.Sent.Add(1)
	answer, err := r.client.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestReply))
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.to, err)
	}
	if answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s: %s: %.200s", r.to, answer.Status, bytes.TrimSpace(body))
	}
	var orders wire.Orders
	if err := json.Unmarshal(body, &orders); err != nil {
		return false, fmt.Errorf("%s: what it says is no orders: %w", r.to, err)
	}
	base := r.orders
	r.orders.epoch, r.orders.version = 0, 0 // until these are in force
	if base.topics == nil {
		base.topics = map[string]wire.Order{}
	}
	whole, right := orders.Onto(base.epoch, base.version, base.topics)
	if !right {
		return false, fmt.Errorf("%s: changes of orders (epoch %d, version %d) that are not at hand", r.to, orders.Epoch, orders.Since)
	}
	if err := r.holder.Apply(asked, whole); err != nil {
		return false, fmt.Errorf("%s: %w", r.to, err)
	}
	base.epoch, base.version = orders.Epoch, orders.Version
	r.orders = base
	r.to = "http://" + answer.Request.URL.Host // where it was sent on to
	taken()
	return orders.Epoch != report.Epoch || orders.Version != report.Seen, nil
}
