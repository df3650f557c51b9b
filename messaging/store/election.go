// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	leaderPath = Root + "/leader"
	beatPath   = Root + "/beat"
	// How much longer who waits counts a term than who leads.
	patience = 1.01
)

// title is the leader's znode.
type title struct {
	Epoch   uint64 `json:"epoch"`
	Address string `json:"address"`
	// ID tells whose it is, when the answer to writing it was lost.
	ID string `json:"id"`
	// Home is where its death can be proved; see proof.go.
	Home string `json:"home,omitempty"`
}

// glance is how often who waits looks whether the leader of the same home lives.
const glance = 20 * time.Millisecond

// beat is the beat's znode. No term: the leader has resigned.
type beat struct {
	Term time.Duration `json:"term"`
}

// Lead waits until there is no leader, and leads.
//
// Why two never lead at once: a leader counts its term from when it sent its last beat that succeeded. Who waits counts it from when it
// read the beat's version, which is later, and 1 % longer; and its takeover fails unless the version is still that one, so no beat
// succeeded in between; and every beat after it fails, because the takeover raised the fence. Where both have the same kernel, it tells
// that the leader's process is dead, which ends its term.
func (z *ZooKeeper) Lead(ctx context.Context, address string) (Leadership, error) {
	id := make([]byte, 16)
	rand.Read(id)
	mine := title{Address: address, ID: fmt.Sprintf("%x", id)}
	proof := prove(mine.ID)
	if proof != nil {
		mine.Home = home()
	}
	leading := false
	defer func() {
		if !leading && proof != nil {
			proof.Close()
		}
	}()
	seen, since := int32(-1), time.Duration(0)
	for ctx.Err() == nil {
		if z.closed.Load() {
			return nil, zk.ErrClosing
		}
		last, changed, err := z.watch(ctx)
		if err != nil {
			pause(ctx, look)
			continue
		}
		if last.version != seen {
			seen, since = last.version, Now()
		}
		fence, err := z.get(ctx, leaderPath)
		if err != nil {
			pause(ctx, look)
			continue
		}
		var now title
		json.Unmarshal(fence.data, &now) // nothing at the very first
		var its beat
		json.Unmarshal(last.data, &its)
		free := since + time.Duration(patience*float64(its.Term))
		z.leader.Store(&known{now.Address, free})
		near := now.Home != "" && now.Home == mine.Home
		if wait := free - Now(); wait > 0 && !(near && dead(now.ID)) {
			if near {
				wait = min(wait, glance)
			}
			select {
			case <-changed:
			case <-time.After(wait):
			case <-ctx.Done():
			}
			continue
		}
		mine.Epoch = now.Epoch + 1
		if len(fence.data) == 0 {
			mine.Epoch = first() + 1
		}
		if l := z.take(ctx, mine, proof, fence.version, last.version); l != nil {
			leading = true
			return l, nil
		}
	}
	return nil, ctx.Err()
}

// watch reads the beat, and is told when it changes; it makes what is not there.
func (z *ZooKeeper) watch(ctx context.Context) (node, <-chan zk.Event, error) {
	type both struct {
		node
		events <-chan zk.Event
	}
	got, err := ask(ctx, z, func() (both, error) {
		data, stat, events, err := z.conn.GetW(beatPath)
		if err != nil {
			return both{}, err
		}
		return both{node{data, stat.Version}, events}, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		for _, path := range []string{"/giusto", Root, leaderPath, beatPath} {
			if made := z.make(ctx, path); made != nil {
				return node{}, nil, made
			}
		}
	}
	return got.node, got.events, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// take tries to become the leader; nil: another was faster, or the outcome is unknown.
func (z *ZooKeeper) take(ctx context.Context, mine title, proof net.Listener, fence, last int32) Leadership {
	text, _ := json.Marshal(mine)
	sent := Now()
	_, failed, err := z.multi(ctx, &zk.SetDataRequest{Path: leaderPath, Data: text, Version: fence},
		&zk.SetDataRequest{Path: beatPath, Data: z.beat(z.term), Version: last})
	if err != nil && failed >= 0 {
		return nil
	}
	// Where the answer was lost the znode says who it was; its next version is this one's if so.
	for err != nil && ctx.Err() == nil {
		var found node
		var now title
		if found, err = z.get(ctx, leaderPath); err == nil {
			if json.Unmarshal(found.data, &now); now.ID != mine.ID || now.Epoch != mine.Epoch {
				return nil
			}
		} else {
			pause(ctx, look)
		}
	}
	if err != nil {
		return nil
	}
	l := &inZooKeeper{loss: newLoss(), of: z, proof: proof, epoch: mine.Epoch, address: mine.Address, fence: fence + 1}
	l.until.Store(int64(sent + z.term))
	l.ended, l.end = context.WithCancel(context.Background())
	z.leads.Store(l)
	go l.keep()
	return l
}

func (z *ZooKeeper) beat(term time.Duration) []byte {
	text, _ := json.Marshal(beat{term})
	return text
}

// inZooKeeper is a leadership there.
type inZooKeeper struct {
	loss
	of      *ZooKeeper
	proof   net.Listener // kept while the process lives, or until it has resigned
	epoch   uint64
	address string
	fence   int32
	until   atomic.Int64
	turned  atomic.Int64 // when Turn was called last; 0: never
	ended   context.Context
	end     func()
	records keeper
}

func (l *inZooKeeper) Epoch() uint64 { return l.epoch }

func (l *inZooKeeper) Until() time.Duration {
	if l.gone() {
		return 0
	}
	return time.Duration(l.until.Load())
}

// Turn is looked at before each beat.
func (l *inZooKeeper) Turn() { l.turned.Store(int64(Now())) }

// keep beats four times a term, and more often when one failed.
func (l *inZooKeeper) keep() {
	defer l.lose()
	wait := l.of.term / 4
	for {
		// Until has to be looked at when it passes, not when the next beat is due.
		pause(l.ended, min(wait, l.Until()-Now()))
		sent := Now()
		if l.ended.Err() != nil || sent >= l.Until() {
			return
		}
		if turned := time.Duration(l.turned.Load()); turned > 0 && sent-turned > l.of.term {
			return
		}
		err := l.fenced(l.ended, &zk.SetDataRequest{Path: beatPath, Data: l.of.beat(l.of.term), Version: -1})
		switch {
		case err == nil:
			l.until.Store(int64(sent + l.of.term))
			wait = l.of.term / 4
		case errors.Is(err, ErrFenced):
			return
		default:
			wait = l.of.term / 40
		}
	}
}

// fenced does operations if this leader is still the last one.
func (l *inZooKeeper) fenced(ctx context.Context, operations ...any) error {
	check := &zk.CheckVersionRequest{Path: leaderPath, Version: l.fence}
	_, failed, err := l.of.multi(ctx, append([]any{check}, operations...)...)
	if failed == 0 {
		l.lose()
		return ErrFenced
	}
	return err
}

// Resign writes a beat without a term, if the ensemble answers at once; else others wait for the term to pass.
func (l *inZooKeeper) Resign() {
	if l.proof != nil {
		defer l.proof.Close()
	}
	if l.gone() {
		return
	}
	l.lose()
	l.end()
	l.fenced(context.Background(), &zk.SetDataRequest{Path: beatPath, Data: l.of.beat(0), Version: -1})
}
