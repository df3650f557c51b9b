// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// What a report may say at most: far more than any broker does, and so little that nothing that is made of it can overflow.
const (
	mostSeconds  = 60
	mostMessages = 1 << 40
	mostUsed     = 1 << 62
	mostCapacity = 1e12
	// lastBin ends after more than two months.
	lastBin = 1500
)

var (
	// Topic and channel names as nsqd 1.3.0 has them.
	name = regexp.MustCompile(`^[.a-zA-Z0-9_-]+(#ephemeral)?$`)
	// Names of brokers: also HOST:PORT.
	id = regexp.MustCompile(`^[.a-zA-Z0-9_:\[\]-]{1,255}$`)
)

// ValidName says whether a topic or channel may be called so.
func ValidName(text string) bool {
	return len(text) >= 1 && len(text) <= 64 && name.MatchString(text)
}

// ValidBroker says whether a broker, or an incarnation of one, may be called so.
func ValidBroker(text string) bool { return id.MatchString(text) }

// Check says what no broker would report. A distributor keeps what a report says, and reckons with it.
func (r *Report) Check() error {
	switch {
	case !ValidBroker(r.Broker):
		return fmt.Errorf("broker: %.300q is not a broker's name: 1 to 255 of . a-z A-Z 0-9 _ - : [ ]", r.Broker)
	case !ValidBroker(r.Incarnation):
		return fmt.Errorf("incarnation: %.300q is not 1 to 255 of . a-z A-Z 0-9 _ - : [ ]", r.Incarnation)
	case r.Replaces != "" && !ValidBroker(r.Replaces):
		return fmt.Errorf("replaces: %.300q is not 1 to 255 of . a-z A-Z 0-9 _ - : [ ]", r.Replaces)
	case r.V2 == "" && !r.Limiter:
		return errors.New("v2: it has none; expected where producers connect, HOST:PORT")
	case !(r.Capacity >= 0 && r.Capacity <= mostCapacity):
		return fmt.Errorf("capacity: %v is not in 0 to %v messages a second", r.Capacity, mostCapacity)
	}
	told := map[string]bool{}
	for n := range r.Topics {
		t := &r.Topics[n]
		if !ValidName(t.Topic) || told[t.Topic] {
			return fmt.Errorf("topics: %.300q is not a topic's name, or is there twice", t.Topic)
		}
		told[t.Topic] = true
		if err := t.check(); err != nil {
			return fmt.Errorf("topics: %s: %w", t.Topic, err)
		}
	}
	return nil
}

func (t *TopicReport) check() error {
	if len(t.Seconds) > mostSeconds {
		return fmt.Errorf("%d seconds are more than %d", len(t.Seconds), mostSeconds)
	}
	if t.Kept > mostMessages {
		return fmt.Errorf("kept: %d is more than %d", t.Kept, uint64(mostMessages))
	}
	for _, channel := range t.Ready {
		if !ValidName(channel) {
			return fmt.Errorf("ready: %.300q is not a channel's name", channel)
		}
	}
	for _, channel := range t.Unready {
		if !slices.Contains(t.Ready, channel) {
			return fmt.Errorf("unready: %.300q is not one of ready", channel)
		}
	}
	for _, s := range t.Seconds {
		switch {
		case s.Messages > mostMessages || s.Unmanaged > mostMessages:
			return fmt.Errorf("%d messages in a second, %d of them unmanaged, are more than %d", s.Messages, s.Unmanaged, uint64(mostMessages))
		case s.Used > mostUsed:
			return fmt.Errorf("used: %d is more than %d", s.Used, uint64(mostUsed))
		}
		for bin, count := range s.Delivery {
			if bin < 0 || bin > lastBin || count > mostMessages {
				return fmt.Errorf("delivery: bin %d with %d messages is not in bins 0 to %d with at most %d", bin, count, lastBin, uint64(mostMessages))
			}
		}
	}
	return nil
}
