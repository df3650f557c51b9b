// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

const (
	// reportEvery is how often a broker reports that has nothing new to tell.
	reportEvery = time.Second
	// acknowledgeAfter new orders the next report says that they are in force.
	acknowledgeAfter = 5 * time.Millisecond
	// retryAfter a report that failed.
	retryAfter = 250 * time.Millisecond
	// A distributor that does not answer for so long after it should have is taken for dead.
	answerWithin = 2 * time.Second
	largestReply = 64 << 20
)

// reporter tells distributors how the broker is, and what they answer to the follower.
type reporter struct {
	follower *follower
	client   *http.Client
	about    wire.Report // what does not change
	given    []string    // the distributors of the file
	turn     int         // the next of these to be tried
	to       string      // who answered last; empty: nobody does
	sent     atomic.Uint64
	failed   atomic.Uint64
	end      context.CancelFunc
	ended    chan struct{}
}

func (b *Broker) newFollower(s settings.Settings) (*follower, error) {
	incarnation, before, err := incarnate(s.Data)
	if err != nil {
		return nil, err
	}
	o := b.engine.options
	r := &reporter{given: s.Distributor, ended: make(chan struct{}), about: wire.Report{Broker: s.Name, Incarnation: incarnation,
		Replaces: before, V2: net.JoinHostPort(o.BroadcastAddress, strconv.Itoa(o.BroadcastTCPPort)),
		HTTP: net.JoinHostPort(o.BroadcastAddress, strconv.Itoa(o.BroadcastHTTPPort))},
		client: &http.Client{Timeout: reportEvery + answerWithin, Transport: &http.Transport{IdleConnTimeout: time.Minute}}}
	if r.about.Broker == "" {
		r.about.Broker = r.about.V2
	}
	if s.Capacity.Den > 0 {
		r.about.Capacity = float64(s.Capacity.Num) / float64(s.Capacity.Den)
	}
	f := &follower{broker: b, reporter: r, told: map[string]bool{}, tallies: map[string]*tally{}}
	r.follower = f
	return f, nil
}

// incarnate gives this start of the broker a name, and tells that of the one before, which is dead: nsqd has its directory's lock.
func incarnate(data string) (name, before string, err error) {
	path := filepath.Join(data, "giusto-broker.incarnation")
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
func (r *reporter) run(ctx context.Context) {
	defer close(r.ended)
	for told := false; ctx.Err() == nil; {
		began := time.Now()
		news, err := r.report(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := reportEvery - time.Since(began)
		switch {
		case err != nil:
			r.failed.Add(1)
			if !told {
				r.follower.broker.log("no orders from a distributor: %v", err)
			}
			told, pause, r.to = true, retryAfter, ""
		case told:
			r.follower.broker.log("%s gives orders again", r.to)
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

// stop ends the reports, also one that is under way.
func (r *reporter) stop() {
	r.end()
	<-r.ended
	r.client.CloseIdleConnections()
}

// farewell makes the last report, to who answered last or else to any.
func (r *reporter) farewell() (err error) {
	last := r.about
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
func (r *reporter) report(ctx context.Context) (news bool, err error) {
	f := r.follower
	if r.to == "" {
		r.to = "http://" + r.given[r.turn%len(r.given)]
		r.turn++
	}
	now := time.Now()
	asked := f.broker.leases(now)
	report, tallies := f.report(now)
	text, err := json.Marshal(report)
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", r.to+"/report", bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	r.sent.Add(1)
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
	if err := f.apply(asked, orders); err != nil {
		return false, fmt.Errorf("%s: %w", r.to, err)
	}
	r.to = "http://" + answer.Request.URL.Host // where it was sent on to
	for n, t := range tallies {
		if seconds := report.Topics[n].Seconds; len(seconds) > 0 {
			t.reported(seconds[len(seconds)-1].At)
		}
	}
	return orders.Epoch != report.Epoch || orders.Version != report.Seen, nil
}

// report is what the broker says now, and the tallies of its topics.
func (f *follower) report(now time.Time) (wire.Report, []*tally) {
	b, r := f.broker, f.reporter.about
	if b.leases(now) <= f.until.Load() {
		r.Wait = reportEvery // else it wants orders at once
	}
	r.Epoch, r.Seen = f.epoch.Load(), f.version.Load()
	topics, all := *b.topics.Load(), map[string]*tally{}
	f.mutex.Lock()
	for name, t := range f.tallies {
		if _, err := b.engine.GetExistingTopic(name); err != nil && topics[name] == nil {
			delete(f.tallies, name) // the topic was deleted
		} else {
			all[name] = t
		}
	}
	f.mutex.Unlock()
	waiting := map[string]int64{}
	for _, c := range b.all() {
		if _, has := f.atDelivery(c.topic); has && all[c.topic] != nil {
			used, waits := c.used()
			waiting[c.topic] = max(waiting[c.topic], waits)
			all[c.topic].came(b.clock.at(now), 0, true, used)
		}
	}
	var tallies []*tally
	for name, t := range all {
		told := wire.TopicReport{Topic: name, Kept: uint64(waiting[name]), Seconds: t.seconds(b.clock.at(now))}
		if limited := topics[name]; limited != nil {
			told.Kept = uint64(limited.kept())
		}
		b.installing.RLock()
		for _, topic := range b.engine.GetStats(name, "", false).Topics {
			for _, channel := range topic.Channels {
				if channel.ClientCount > 0 {
					told.Ready = append(told.Ready, channel.ChannelName)
				}
			}
		}
		b.installing.RUnlock()
		r.Topics, tallies = append(r.Topics, told), append(tallies, t)
	}
	return r, tallies
}
