// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the planner's picture of the cluster: which nodes there are, and which pods with promises are on them.
//
// It follows the API server's objects, and is ahead of them by what was bound and not told back yet. What a node has no room for
// (another scheduler put it there) is not counted: its agent does not enforce it either.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	"giusto.dev/kubernetes/promises"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Silent is how long an agent may say nothing before its node gets no more pods.
	Silent = 30 * time.Second
	// Assumed is how long a binding may take to come back from the API server.
	Assumed = 30 * time.Second
)

// Asked is what a pod asks of the node that it will be on.
type Asked struct {
	Promise *api.Promise
	Service string
	Keys    json.RawMessage
}

type entry struct {
	pod           types.NamespacedName
	node, service string
	keys          json.RawMessage
	// bound is when it was bound by this process, until the API server has told so.
	bound time.Time
	// no is why the node does not count it.
	no error
}

type node struct {
	cores, keepFree string
	facts           json.RawMessage
	capacity        int64
	// What it wrote last by its own clock, and when that came by this one.
	heartbeat time.Time
	heard     time.Time
}

// Ledger is the picture. Its methods may be called at the same time.
type Ledger struct {
	Planner *planner.Planner
	Reader  client.Reader

	lock    sync.Mutex
	entries map[types.UID]*entry
	names   map[types.NamespacedName]types.UID
	nodes   map[string]*node
}

// New is an empty one, that reads promises from reader.
func New(planner *planner.Planner, reader client.Reader) *Ledger {
	return &Ledger{Planner: planner, Reader: reader, entries: map[types.UID]*entry{},
		names: map[types.NamespacedName]types.UID{}, nodes: map[string]*node{}}
}

// Asks is what a pod asks; nil: it has no promise. Errors: what is wrong with its promise, in words.
func (l *Ledger) Asks(ctx context.Context, pod *core.Pod) (*Asked, error) {
	var all api.PromiseList
	if err := l.Reader.List(ctx, &all, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	promise, err := promises.Of(pod, all.Items)
	if promise == nil || err != nil {
		return nil, err
	}
	if _, err := promises.Container(pod, promise); err != nil {
		return &Asked{Promise: promise}, err
	}
	keys, err := promises.Keys(promise)
	return &Asked{promise, promises.Service(pod), keys}, err
}

// Pod tells how a pod is now; gone: it is not there any more.
func (l *Ledger) Pod(ctx context.Context, pod *core.Pod, gone bool) error {
	var asked *Asked
	if !gone && pod.Spec.NodeName != "" && !promises.Finished(pod) {
		var err error
		if asked, err = l.Asks(ctx, pod); err != nil {
			asked = nil // the controller tells why
		}
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	// A StatefulSet's next pod has the name of the last one.
	if old := l.names[client.ObjectKeyFromObject(pod)]; old != "" && old != pod.UID {
		if err := l.drop(old); err != nil {
			return err
		}
	}
	own := l.entries[pod.UID]
	if own != nil && !gone && pod.Spec.NodeName == "" && !own.bound.IsZero() && time.Since(own.bound) < Assumed {
		return nil
	}
	if own != nil && asked != nil && own.node == pod.Spec.NodeName && own.no == nil && bytes.Equal(own.keys, asked.Keys) {
		own.bound = time.Time{}
		return nil
	}
	if err := l.drop(pod.UID); err != nil || asked == nil {
		return err
	}
	return l.put(pod, pod.Spec.NodeName, asked, time.Time{})
}

// drop counts a pod no longer, if it was.
func (l *Ledger) drop(pod types.UID) error {
	own := l.entries[pod]
	if own == nil {
		return nil
	}
	delete(l.entries, pod)
	if l.names[own.pod] == pod {
		delete(l.names, own.pod)
	}
	if own.no != nil {
		return nil
	}
	return l.Planner.Remove(own.node, own.service)
}

// put counts a pod on a node, or why not.
func (l *Ledger) put(pod *core.Pod, node string, asked *Asked, bound time.Time) error {
	no := l.Planner.Put(node, asked.Service, asked.Keys)
	l.entries[pod.UID] = &entry{
		pod: client.ObjectKeyFromObject(pod), node: node, service: asked.Service, keys: asked.Keys, bound: bound, no: no,
	}
	var refused *planner.Refused
	var input *planner.Input
	if no == nil || errors.As(no, &refused) || errors.As(no, &input) {
		l.names[client.ObjectKeyFromObject(pod)] = pod.UID
		return nil
	}
	delete(l.entries, pod.UID)
	return no
}

// Bind admits a pod on a node before it is bound there. Errors: the node does not take it; then nothing has changed.
func (l *Ledger) Bind(pod *core.Pod, node string, asked *Asked) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if err := l.drop(pod.UID); err != nil {
		return err
	}
	if err := l.put(pod, node, asked, time.Now()); err != nil {
		return err
	}
	if no := l.entries[pod.UID].no; no != nil {
		return errors.Join(no, l.drop(pod.UID))
	}
	return nil
}

// Unbind takes back what Bind has admitted.
func (l *Ledger) Unbind(pod types.UID) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.drop(pod)
}

// Node tells how a node is now; gone: it can enforce nothing. It returns whether what it is has changed.
func (l *Ledger) Node(object *api.GiustoNode, gone bool) (bool, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	name, status := object.Name, &object.Status
	own := l.nodes[name]
	if gone || status.Facts == nil || !meta.IsStatusConditionTrue(status.Conditions, api.Ready) {
		if own == nil {
			return false, nil
		}
		delete(l.nodes, name)
		for _, one := range l.entries {
			if one.node == name && one.no == nil {
				one.no = &planner.Input{Reason: "the node can enforce nothing"}
			}
		}
		return true, l.Planner.Gone(name)
	}
	keepFree := string(status.KeepFree)
	if own != nil && own.cores == status.Cores && own.keepFree == keepFree && bytes.Equal(own.facts, status.Facts.Raw) {
		if !own.heartbeat.Equal(status.Heartbeat.Time) {
			own.heartbeat, own.heard = status.Heartbeat.Time, time.Now()
		}
		return false, nil
	}
	capacity, err := l.Planner.Node(name, status.Cores, keepFree, status.Facts.Raw)
	if err != nil {
		return false, err
	}
	l.nodes[name] = &node{status.Cores, keepFree, status.Facts.Raw, capacity, status.Heartbeat.Time, time.Now()}
	return true, nil
}

// Fit asks which of the nodes take a pod. Nodes whose agents are silent do not.
func (l *Ledger) Fit(asked *Asked, nodes []string) (planner.Fit, error) {
	l.lock.Lock()
	heard := make([]string, 0, len(nodes))
	var silent []string
	for _, name := range nodes {
		if own := l.nodes[name]; own != nil && time.Since(own.heard) > Silent {
			silent = append(silent, name)
		} else {
			heard = append(heard, name)
		}
	}
	l.lock.Unlock()
	fit, err := l.Planner.Fits(asked.Keys, heard, []string{asked.Service})
	if err != nil {
		return fit, err
	}
	for _, name := range silent {
		fit.Refused[name] = "its agent of giusto says nothing"
	}
	return fit, nil
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

// Knows tells whether a node's agent has told what it is.
func (l *Ledger) Knows(node string) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.nodes[node] != nil
}

// Capacity is what reservations may take of a node, in thousandths of a core.
func (l *Ledger) Capacity(node string) int64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.nodes[node]; own != nil {
		return own.capacity
	}
	return 0
}

// No is why a pod that is on a node is not counted there; nil: it is, or is on none.
func (l *Ledger) No(pod types.UID) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.entries[pod]; own != nil {
		return own.no
	}
	return nil
}

// Waits tells whether a pod was bound here and the API server has not told so yet.
func (l *Ledger) Waits(pod types.UID) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	own := l.entries[pod]
	return own != nil && !own.bound.IsZero()
}

// Named is the pod that is counted under this name; "": none.
func (l *Ledger) Named(name types.NamespacedName) types.UID {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.names[name]
}

// On are the pods that are counted on a node.
func (l *Ledger) On(node string) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	count := 0
	for _, one := range l.entries {
		if one.node == node && one.no == nil {
			count++
		}
	}
	return count
}
