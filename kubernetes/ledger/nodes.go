// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"encoding/json"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// Silent is how long an agent may say nothing: then its node gets no more pods, and what it told is not known any more.
const Silent = 30 * time.Second

// decided is what an agent has told of a pod: the keys that it has admitted, and those that it has refused.
type decided struct{ admitted, refused json.RawMessage }

type node struct {
	// ready: its agent can enforce promises.
	ready           bool
	cores, keepFree string
	facts           json.RawMessage
	capacity        int64
	pods            map[types.UID]decided
	// What it wrote last by its own clock, and when that came by this one.
	heartbeat time.Time
	heard     time.Time
}

// Node tells how a node is now; gone: it can enforce nothing. It returns whether what it is has changed.
func (l *Ledger) Node(object *api.GiustoNode, gone bool) (bool, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	name, status := object.Name, &object.Status
	own := l.nodes[name]
	if gone {
		delete(l.nodes, name)
		return own != nil, l.lost(name, own)
	}
	if own == nil {
		// What it says now may be long ago: where its clock is behind, it is heard as soon as it says something again.
		own = &node{heartbeat: status.Heartbeat.Time, heard: time.Now()}
		if own.heartbeat.Before(own.heard) {
			own.heard = own.heartbeat
		}
		l.nodes[name] = own
	}
	if !own.heartbeat.Equal(status.Heartbeat.Time) {
		own.heartbeat, own.heard = status.Heartbeat.Time, time.Now()
	}
	own.pods = map[types.UID]decided{}
	for _, pod := range status.Pods {
		own.pods[types.UID(pod.UID)] = decided{canonical(pod.Admitted), canonical(pod.Refused)}
	}
	if status.Facts == nil || !meta.IsStatusConditionTrue(status.Conditions, api.Ready) {
		was := own.ready
		return was, l.lost(name, own)
	}
	keepFree, facts := string(status.KeepFree), canonical(status.Facts)
	changed := !own.ready || own.cores != status.Cores || own.keepFree != keepFree || !bytes.Equal(own.facts, facts)
	if changed {
		capacity, err := l.Planner.Node(name, status.Cores, keepFree, facts)
		if err != nil {
			return false, err
		}
		own.ready, own.cores, own.keepFree, own.facts, own.capacity = true, status.Cores, keepFree, facts, capacity
	}
	return changed, l.follow(name, own)
}

// canonical is JSON as promises.Keys writes it, whatever became of it on its way; nil: none, or it is none.
func canonical(text *apiextensions.JSON) json.RawMessage {
	var value any
	if text == nil || json.Unmarshal(text.Raw, &value) != nil || value == nil {
		return nil
	}
	written, _ := json.Marshal(value) // what was read can be written
	return written
}

// lost is of a node that can enforce nothing any more.
func (l *Ledger) lost(name string, own *node) error {
	if own == nil || !own.ready {
		return nil
	}
	own.ready = false
	for _, one := range l.entries {
		if one.node == name && one.no == nil {
			one.no = &planner.Input{Reason: "the node can enforce nothing"}
		}
	}
	return l.Planner.Gone(name)
}

// follow counts what the agent has admitted.
func (l *Ledger) follow(name string, own *node) error {
	for uid, its := range own.pods {
		one := l.entries[uid]
		if one == nil || one.node != name || its.admitted == nil {
			continue
		}
		same := bytes.Equal(one.keys, its.admitted)
		if one.no == nil && (same || one.undecided && !bytes.Equal(one.keys, its.refused)) {
			one.undecided = one.undecided && !same
			continue
		}
		err := l.Planner.Runs(name, one.service, its.admitted)
		if no(err) {
			continue // words of an agent of another version: the other pods count all the same
		}
		if err != nil {
			return err
		}
		one.keys, one.no, one.undecided = its.admitted, nil, false
	}
	return nil
}

// SilentFor is how long a node's agent has written nothing; 0: it is not known.
func (l *Ledger) SilentFor(node string) time.Duration {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.nodes[node]; own != nil {
		return time.Since(own.heard)
	}
	return 0
}

// Knows tells whether a node's agent has told what it is, and can enforce promises.
func (l *Ledger) Knows(node string) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.nodes[node] != nil && l.nodes[node].ready
}

// Capacity is what reservations may take of a node, in thousandths of a core; 0: its agent is not there, or can enforce nothing.
func (l *Ledger) Capacity(node string) int64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.nodes[node]; own != nil && own.ready {
		return own.capacity
	}
	return 0
}

// of is what a node's agent has decided of a pod.
func (l *Ledger) of(node string, pod types.UID) decided {
	if own := l.nodes[node]; own != nil {
		return own.pods[pod]
	}
	return decided{}
}
