// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"strings"
	"time"

	"giusto.dev/messaging/wire"
)

// stats of a topic at a broker: the last seconds, and what was delivered while it is measured.
type stats struct {
	seconds []wire.Second
	ready   []string
	unready time.Duration // since when a channel's consumers take nothing; 0: all take messages
	kept    uint64
	round   wire.Histogram
}

// count takes in what a broker tells of a topic.
func (c *Control) count(b *broker, told wire.TopicReport) {
	s, t := b.stats[told.Topic], c.topics[told.Topic]
	if s == nil {
		s = &stats{round: wire.Histogram{}}
		b.stats[told.Topic] = s
		if t != nil {
			t.stats[b.id] = s
		}
	}
	if s.kept = told.Kept; s.kept > 0 && t != nil {
		t.resting = false
	}
	if len(told.Unready) == 0 {
		s.unready = 0
	} else if s.unready == 0 {
		s.unready = max(c.now, 1)
	}
	var ready []string
	for _, channel := range told.Ready {
		if !strings.HasSuffix(channel, "#ephemeral") { // of an observer at one broker
			ready = append(ready, channel)
		}
	}
	if !slices.Equal(s.ready, ready) {
		s.ready = ready
		c.reconsume(told.Topic)
	}
	for _, second := range told.Seconds {
		if n := len(s.seconds); n > 0 && second.At <= s.seconds[n-1].At {
			continue
		}
		s.seconds = append(s.seconds, second)
		if t != nil && t.phase == measuring && c.now >= t.from {
			s.round.Add(second.Delivery)
		}
	}
	if more := len(s.seconds) - c.settings.Window; more > 0 {
		s.seconds = append([]wire.Second(nil), s.seconds[more:]...)
	}
}

func (s *stats) full(window int) bool { return len(s.seconds) >= window }

// mean is the messages a second of late.
func (s *stats) mean() float64 {
	sum := uint64(0)
	for _, second := range s.seconds {
		sum += second.Messages
	}
	return float64(sum) / float64(max(1, len(s.seconds)))
}

// unmanaged is the part of it that follows no assignment.
func (s *stats) unmanaged() float64 {
	sum := uint64(0)
	for _, second := range s.seconds {
		sum += second.Unmanaged
	}
	return float64(sum) / float64(max(1, len(s.seconds)))
}

// used is the most of the bucket that was in use of late.
func (s *stats) used() (most uint64) {
	for _, second := range s.seconds {
		most = max(most, second.Used)
	}
	return most
}

// delivery of late.
func (s *stats) delivery() wire.Histogram {
	all := wire.Histogram{}
	for _, second := range s.seconds {
		all.Add(second.Delivery)
	}
	return all
}
