// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"giusto.dev/messaging/bucket"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

// Topic is how people spell what they ask for: {"rate": "11k/s", "depth": "26", "promise": {"p99": "1ms"}, "each": "10/s"}.
type Topic struct {
	Rate     settings.Rate                `yaml:"rate"`
	Depth    settings.Tokens              `yaml:"depth"`
	Promise  map[string]settings.Duration `yaml:"promise"`
	Each     settings.Rate                `yaml:"each"`
	Batch    int                          `yaml:"batch"`
	Periodic bool                         `yaml:"periodic"`
	Queue    int64                        `yaml:"queue"`
	Limit    string                       `yaml:"limit"`
	Gap      settings.Duration            `yaml:"gap"`
}

// mostEach is what a publisher may say of itself, too.
const mostEach = 1e12

var percentile = regexp.MustCompile(`^p\d{1,2}(\.\d{1,4})?$`)

// parseTopic reads a topic that people spelled.
func parseTopic(name string, text []byte) (w wire.Topic, err error) {
	var t Topic
	if err := settings.Decode(text, &t); err != nil {
		return w, err
	}
	w = wire.Topic{Name: name, Gap: time.Duration(t.Gap), Batch: t.Batch, Periodic: t.Periodic, Queue: t.Queue,
		Delivery: t.Limit == "" || t.Limit == settings.Delivery, Requests: t.Limit == settings.Requests}
	switch {
	case !settings.ValidName(name):
		return w, fmt.Errorf("%q is not a topic's name: 1 to 64 of . a-z A-Z 0-9 _ -, perhaps #ephemeral", name)
	case t.Rate.Num == 0:
		return w, fmt.Errorf("rate: it has none; expected one such as 11k/s")
	case t.Depth == 0:
		return w, fmt.Errorf("depth: it has none; expected a number of tokens such as 26")
	case t.Batch < 0 || t.Batch > 1<<20:
		return w, fmt.Errorf("batch: %d is not in 1 to %d", t.Batch, 1<<20)
	case t.Queue < 0 || t.Queue > 1<<24:
		return w, fmt.Errorf("queue: %d is not in 1 to %d", t.Queue, 1<<24)
	case t.Limit != "" && t.Limit != settings.Publishing && t.Limit != settings.Delivery && t.Limit != settings.Requests:
		return w, fmt.Errorf("limit: %q is none of %s, %s and %s", t.Limit, settings.Publishing, settings.Delivery, settings.Requests)
	case w.Requests && (len(t.Promise) > 0 || t.Each.Den > 0 || t.Batch != 0 || t.Periodic || t.Queue != 0 || t.Gap != 0):
		return w, fmt.Errorf("limit: %s: it has rate and depth, and nothing else: a request is granted or denied, and waits nowhere", settings.Requests)
	case w.Delivery && t.Queue > 0:
		return w, fmt.Errorf("queue: it is for limit: %s; what waits for delivery is in nsqd's queues", settings.Publishing)
	case len(t.Promise) > 1:
		return w, fmt.Errorf("promise: expected one percentile, such as {p99: 1ms}")
	}
	w.Depth = uint64(t.Depth)
	// What is finer than the unit is cut off, which never lets more through.
	rate := new(big.Int).SetUint64(t.Rate.Num)
	rate.Mul(rate, big.NewInt(wire.Unit)).Quo(rate, new(big.Int).SetUint64(t.Rate.Den))
	if !rate.IsUint64() || rate.Sign() == 0 {
		return w, fmt.Errorf("rate: expected at least a token in twelve days, and less than 2^32 a second")
	}
	w.Rate = rate.Uint64()
	// Brokers make buckets of it, and would refuse orders as a whole that have one that is none.
	if _, err := bucket.New(bucket.Rate{Num: w.Rate, Den: wire.Unit}, w.Depth, 0, 0); errors.Is(err, bucket.ErrRate) {
		return w, fmt.Errorf("rate: expected less than 2^32 tokens a second")
	} else if err != nil {
		return w, fmt.Errorf("depth: %w", err)
	}
	if t.Each.Den > 0 {
		w.Each = float64(t.Each.Num) / float64(t.Each.Den)
	}
	if !(w.Each >= 0 && w.Each <= mostEach) {
		return w, fmt.Errorf("each: %v is not in 0 to %v messages a second", w.Each, mostEach)
	}
	for key, objective := range t.Promise {
		if w.Percentile, err = strconv.ParseFloat(strings.TrimPrefix(key, "p"), 64); err != nil || !percentile.MatchString(key) || w.Percentile <= 0 {
			return w, fmt.Errorf("promise: %q is not a percentile; expected p50, p99 or p99.9", key)
		}
		w.Percentile, w.Objective = w.Percentile/100, time.Duration(objective)
		if objective <= 0 {
			return w, fmt.Errorf("promise: %s: a promise needs time", key)
		}
	}
	return w, nil
}
