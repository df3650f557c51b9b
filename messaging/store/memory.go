// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory keeps records in this process alone: for tests, and for one distributor that may forget.
type Memory struct {
	turn chan struct{} // holds one token while there is no leader

	mutex   sync.Mutex
	epoch   uint64
	leader  string
	records map[string][]byte
}

// NewMemory is empty.
func NewMemory() *Memory {
	m := &Memory{turn: make(chan struct{}, 1), records: map[string][]byte{}, epoch: first()}
	m.turn <- struct{}{}
	return m
}

// Lead waits for the leader before to resign.
func (m *Memory) Lead(ctx context.Context, address string) (Leadership, error) {
	select {
	case <-m.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.epoch++
	m.leader = address
	return &inMemory{loss: newLoss(), of: m, epoch: m.epoch}, nil
}

// Leader is who leads.
func (m *Memory) Leader() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.leader
}

// Close does nothing: the memory goes with the process.
func (m *Memory) Close() error { return nil }

type inMemory struct {
	loss
	of    *Memory
	epoch uint64
}

func (l *inMemory) Epoch() uint64        { return l.epoch }
func (l *inMemory) Until() time.Duration { return until(&l.loss) }

// until is that of a leadership that only its end ends.
func until(l *loss) time.Duration {
	if l.gone() {
		return 0
	}
	return Forever
}

func (l *inMemory) Load(context.Context) ([]Record, error) {
	l.of.mutex.Lock()
	defer l.of.mutex.Unlock()
	if l.gone() {
		return nil, ErrFenced
	}
	return sorted(l.of.records), nil
}

func (l *inMemory) Save(_ context.Context, records ...Record) error {
	l.of.mutex.Lock()
	defer l.of.mutex.Unlock()
	if l.gone() {
		return ErrFenced
	}
	changed, err := with(l.of.records, records)
	if err == nil {
		l.of.records = changed
	}
	return err
}

func (l *inMemory) Resign() {
	l.of.mutex.Lock()
	defer l.of.mutex.Unlock()
	if !l.gone() {
		l.lose()
		l.of.leader = ""
		l.of.turn <- struct{}{}
	}
}

// sorted is a map's records by key.
func sorted(of map[string][]byte) []Record {
	var records []Record
	for _, key := range slices.Sorted(maps.Keys(of)) {
		records = append(records, Record{key, bytes.Clone(of[key])})
	}
	return records
}

// with is a copy of the map with records changed.
func with(of map[string][]byte, records []Record) (map[string][]byte, error) {
	changed := maps.Clone(of)
	for _, r := range records {
		if _, _, err := split(r.Key); err != nil {
			return nil, err
		}
		if r.Value == nil {
			delete(changed, r.Key)
		} else {
			changed[r.Key] = bytes.Clone(r.Value)
		}
	}
	return changed, nil
}
