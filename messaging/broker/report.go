// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"net"
	"path/filepath"
	"strconv"
	"time"

	"giusto.dev/messaging/report"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

func (b *Broker) newFollower(s settings.Settings) (*follower, error) {
	incarnation, before, err := report.Incarnate(filepath.Join(s.Data, "giusto-broker.incarnation")) // nsqd has the directory's lock
	if err != nil {
		return nil, err
	}
	o := b.engine.options
	about := wire.Report{Broker: s.Name, Incarnation: incarnation, Replaces: before,
		V2:   net.JoinHostPort(o.BroadcastAddress, strconv.Itoa(o.BroadcastTCPPort)),
		HTTP: net.JoinHostPort(o.BroadcastAddress, strconv.Itoa(o.BroadcastHTTPPort))}
	if about.Broker == "" {
		about.Broker = about.V2
	}
	if s.Capacity.Den > 0 {
		about.Capacity = float64(s.Capacity.Num) / float64(s.Capacity.Den)
	}
	return &follower{broker: b, reporter: report.New(about, s.Distributor, b.clock, b.log), told: map[string]bool{}, tallies: map[string]*report.Tally{}}, nil
}

// Report is what the broker says now.
func (f *follower) Report(now time.Time) (r wire.Report, taken func()) {
	b := f.broker
	r = f.reporter.About
	if b.leases(now) <= f.until.Load() {
		r.Wait = report.Every // else it wants orders at once
	}
	r.Epoch, r.Seen = f.epoch.Load(), f.version.Load()
	topics, all := *b.topics.Load(), map[string]*report.Tally{}
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
			all[c.topic].Came(b.clock.At(now), 0, true, used)
		}
	}
	var tallies []*report.Tally
	for name, t := range all {
		told := wire.TopicReport{Topic: name, Kept: uint64(waiting[name]), Seconds: t.Seconds(b.clock.At(now))}
		if limited := topics[name]; limited != nil {
			told.Kept = uint64(limited.kept())
		}
		b.installing.RLock()
		for _, topic := range b.engine.GetStats(name, "", false).Topics {
			for _, channel := range topic.Channels {
				if channel.ClientCount > 0 {
					told.Ready = append(told.Ready, channel.ChannelName)
					if c := b.channels[name+":"+channel.ChannelName]; c != nil && c.ready.Load() == 0 {
						told.Unready = append(told.Unready, channel.ChannelName)
					}
				}
			}
		}
		b.installing.RUnlock()
		r.Topics, tallies = append(r.Topics, told), append(tallies, t)
	}
	return r, func() {
		for n, t := range tallies {
			if seconds := r.Topics[n].Seconds; len(seconds) > 0 {
				t.Reported(seconds[len(seconds)-1].At)
			}
		}
	}
}
