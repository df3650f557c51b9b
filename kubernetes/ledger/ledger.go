// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the planner's picture of the cluster: which nodes there are, and which pods with promises are on them.
//
// It follows the API server's objects, and is ahead of them by what was bound and not told back yet. Of what is in force on a
// node its agent is right: it tells what it has admitted of each pod, and which change it has refused. What a node has no room
// for (another scheduler put it there) is not counted: its agent does not enforce it either.
package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	"giusto.dev/kubernetes/promises"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// keys are those that count there.
	keys json.RawMessage
	// no is why the node does not count it.
	no error
	// undecided: these keys were admitted here, and what its agent tells may be from before.
	undecided bool
	// bound is when it was bound by this process, until the API server has told so; binding: that is on the way.
	bound   time.Time
	binding bool
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
	var wrong error // the controller tells it
	there := !gone && pod.Spec.NodeName != "" && !promises.Finished(pod)
	if there {
		asked, wrong = l.Asks(ctx, pod)
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if err := l.another(pod); err != nil {
		return err
	}
	own := l.entries[pod.UID]
	if own != nil && !gone && pod.Spec.NodeName == "" && !own.bound.IsZero() {
		return nil // a cache may be behind: Settle asks the API server itself
	}
	if own != nil && there && own.node == pod.Spec.NodeName && own.no == nil {
		own.bound, own.binding = time.Time{}, false
		switch {
		case wrong != nil:
			return nil // a promise that makes no sense any more changes nothing
		case asked != nil:
			return l.change(pod.UID, own, asked.Keys)
		}
	}
	if err := l.drop(pod.UID); err != nil || asked == nil || wrong != nil {
		return err
	}
	if err := l.put(pod, pod.Spec.NodeName, asked); err != nil {
		return err
	}
	return l.change(pod.UID, l.entries[pod.UID], asked.Keys)
}

// another forgets the pod that had the name of this one before: a StatefulSet's next pod has the name of the last one.
func (l *Ledger) another(pod *core.Pod) error {
	if old, there := l.names[client.ObjectKeyFromObject(pod)]; there && old != pod.UID {
		return l.drop(old)
	}
	return nil
}

// change counts other keys of a pod that counts. Where they do not fit, or its agent has refused them, it has what it had.
func (l *Ledger) change(pod types.UID, own *entry, keys json.RawMessage) error {
	if own.no != nil || bytes.Equal(own.keys, keys) || bytes.Equal(l.of(own.node, pod).refused, keys) {
		return nil
	}
	err := l.Planner.Put(own.node, own.service, keys)
	if err == nil {
		own.keys, own.undecided = keys, true
	}
	if no(err) {
		return nil
	}
	return err
}

// no tells whether the planner has refused, or whether there is another error or none.
func no(err error) bool {
	var refused *planner.Refused
	var input *planner.Input
	return errors.As(err, &refused) || errors.As(err, &input)
}

// Runs tells whether a pod is on a node whose agent has admitted it.
func (l *Ledger) Runs(pod *core.Pod) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.of(pod.Spec.NodeName, pod.UID).admitted != nil
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

// put counts a pod on a node, or why not. What its agent has admitted counts in any case.
func (l *Ledger) put(pod *core.Pod, node string, asked *Asked) error {
	own := &entry{pod: client.ObjectKeyFromObject(pod), node: node, service: asked.Service, keys: asked.Keys}
	var err error
	if admitted := l.of(node, pod.UID).admitted; admitted != nil && l.nodes[node].ready {
		own.keys = admitted
		err = l.Planner.Runs(node, own.service, admitted)
	} else {
		err = l.Planner.Put(node, own.service, own.keys)
		own.undecided = err == nil
	}
	if err != nil && !no(err) {
		return err
	}
	own.no = err
	l.entries[pod.UID], l.names[own.pod] = own, pod.UID
	return nil
}

// Bind admits a pod on a node before it is bound there. Errors: the node does not take it; then it counts nowhere. Else Bound or
// Unbind has to follow, unless the API server's objects tell of it before.
func (l *Ledger) Bind(pod *core.Pod, node string, asked *Asked) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if err := cmp.Or(l.another(pod), l.drop(pod.UID)); err != nil {
		return err
	}
	if err := l.put(pod, node, asked); err != nil {
		return err
	}
	own := l.entries[pod.UID]
	if own.no != nil {
		return errors.Join(own.no, l.drop(pod.UID))
	}
	own.bound, own.binding = time.Now(), true
	return nil
}

// Unbind takes back what Bind has admitted.
func (l *Ledger) Unbind(pod types.UID) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.drop(pod)
}

// Fit asks which of the nodes take a pod. Nodes whose agents are silent do not.
func (l *Ledger) Fit(asked *Asked, nodes []string) (planner.Fit, error) {
	l.lock.Lock()
	heard := make([]string, 0, len(nodes))
	var silent []string
	for _, name := range nodes {
		if own := l.nodes[name]; own != nil && own.ready && time.Since(own.heard) > Silent {
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

// No is why a pod that is on a node is not counted there; nil: it is, or is on none.
func (l *Ledger) No(pod types.UID) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.entries[pod]; own != nil {
		return own.no
	}
	return nil
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
