// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"slices"
	"time"

	"giusto.dev/messaging/distribute"
)

// shelf is the coordination service: it keeps records, and lets one distributor lead for as long as it hears of it.
type shelf struct {
	node
	epoch   uint64
	leader  *distributor
	life    int // of the leader: started again it is another
	expires time.Duration
	records map[string][]byte
	bad     time.Duration // until when saves are slow, fail, or are done and said to have failed
}

const session = 800 * time.Millisecond

func (s *shelf) tick() {
	if s.leader != nil && s.w.now > s.expires {
		s.leader = nil
	}
	s.later(50*time.Millisecond, s.tick)
}

// keep takes nothing of whom it does not know as leader.
func (s *shelf) keep(d *distributor, records map[string][]byte) bool {
	if s.leader != d || s.life != d.life || s.epoch != d.control.epoch {
		s.w.counts["fenced"]++
		return false
	}
	for name, text := range records {
		s.records[name] = text
	}
	return true
}

func (s *shelf) load() (saved []Record) {
	for _, text := range s.records {
		if string(text) == "null" {
			continue
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			panic(err)
		}
		saved = append(saved, r)
	}
	return saved
}

// distributor runs a Control while it leads, as distributor.term does: one thing at a time, and while it saves, nothing.
type distributor struct {
	node
	lease    time.Duration
	control  *Control
	valid    time.Duration // of its clock: until then certainly no other leads
	waiting  []*request
	busy     bool     // it saves
	inbox    []func() // what came meanwhile
	answered []func() // answers that leave when all is saved
}

// request is one that waits for news.
type request struct {
	id     string // of a broker, or of "topic/publisher"
	end    time.Duration
	answer func()
}

const beat = session / 4

func (d *distributor) tick() {
	asked := d.clock()
	d.send(&d.w.store.node, func() {
		s := d.w.store
		if s.leader == nil {
			s.leader, s.life, s.epoch = d, d.life, s.epoch+1
			d.w.counts["leaders"]++
		}
		if s.leader != d || s.life != d.life {
			return
		}
		s.expires = s.w.now + session
		epoch := s.epoch
		s.send(&d.node, func() {
			if d.control != nil && d.control.epoch != epoch {
				d.end()
			}
			d.valid = max(d.valid, asked+session*95/100)
			if d.control == nil && d.leads() {
				d.begin(epoch)
			}
		})
	})
	if d.control != nil && !d.busy && d.leads() {
		d.control.Tick(d.clock())
		d.turn()
	}
	if d.control != nil && d.leads() {
		d.knows()
	}
	d.later(beat, d.tick)
}

// knows checks that the leader knows every broker that has orders in force, whichever leader gave them.
func (d *distributor) knows() {
	for _, b := range slices.Concat(d.w.brokers, d.w.twins) {
		if _, leased := d.control.leases[key(b.id, b.incarnation())]; !leased && !b.dead && b.holder.Until() > uint64(b.clock()) {
			d.w.counts["unknown leases"]++
		}
	}
}

func (d *distributor) begin(epoch uint64) {
	s := Settings{Lease: d.lease, Silent: 700 * time.Millisecond, Gone: 2 * time.Second, Gather: 300 * time.Millisecond,
		Round: time.Second, Calm: 200 * time.Millisecond, Prepare: prepare, Move: move, Window: 2, Capacity: 60, Kind: distribute.SRTM}
	saved := d.w.store.load()
	d.control = New(s, d.clock(), epoch, saved)
	d.control.forgotten = forgottenHere
	for _, b := range d.w.brokers { // it may be cut off from this leader, and hold orders of the one before
		if until := b.holder.Until(); len(saved) > 0 && until > 0 && !b.holds() && uint64(b.clock()) < until {
			d.w.counts["spare broker at a takeover"]++
		}
	}
}

func (d *distributor) end() {
	d.control, d.waiting, d.inbox, d.answered, d.busy = nil, nil, nil, nil, false
}

func (d *distributor) leads() bool { return d.clock() < d.valid }

// take does what is asked now, or when the save that is under way has ended.
func (d *distributor) take(do func()) {
	switch {
	case d.control == nil:
	case d.busy:
		d.inbox = append(d.inbox, func() { d.take(do) })
	case d.leads():
		do()
		d.turn()
	}
}

// turn answers who waits, where there is something new, and lets answers go when all that they rest on is saved.
func (d *distributor) turn() {
	brokers, publishers := d.control.Changed()
	var left []*request
	for _, r := range d.waiting {
		if d.w.now >= r.end || slices.Contains(brokers, r.id) || slices.Contains(publishers, r.id) {
			r.answer()
		} else {
			left = append(left, r)
		}
	}
	d.waiting = left
	records := map[string][]byte{}
	for name, record := range d.control.Unsaved() {
		text, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		records[name] = text
	}
	if len(records) == 0 {
		d.leave()
		return
	}
	s := d.w.store
	if d.w.now >= s.bad {
		d.saved(records, d.w.cut[[2]string{d.name, s.name}] == 0, true)
		return
	}
	kind := []string{"save slow", "save failed", "save late"}[d.w.random.IntN(3)]
	d.w.counts[kind]++
	d.busy = true
	c := d.control
	d.later(d.w.between(time.Millisecond, 1200*time.Millisecond), func() {
		if d.control != c {
			return
		}
		d.busy = false
		d.saved(records, kind != "save failed" && d.w.cut[[2]string{d.name, s.name}] == 0, kind != "save late")
		inbox := d.inbox
		d.inbox = nil
		for _, do := range inbox {
			do()
		}
	})
}

// saved ends a save: it reached the store or did not, and the distributor heard so or did not.
func (d *distributor) saved(records map[string][]byte, reached, heard bool) {
	if reached && !d.w.store.keep(d, records) {
		d.end()
		return
	}
	if reached && heard {
		for name := range records {
			d.control.Saved(name)
		}
		d.leave()
	}
}

func (d *distributor) leave() {
	for _, answer := range d.answered {
		answer()
	}
	d.answered = nil
}
