// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Assumed is how long after its answer, or the lack of one, a binding may still be written: the API server itself gives up after
// 60 s (--request-timeout).
const Assumed = 70 * time.Second

// Bound tells that the API server was asked to bind a pod, and has answered or not.
func (l *Ledger) Bound(pod types.UID) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.entries[pod]; own != nil && !own.bound.IsZero() {
		own.bound, own.binding = time.Now(), false
	}
}

// Waits is where a pod was bound here and the API server has not told so yet, and whether it may still be written; "": nowhere.
func (l *Ledger) Waits(pod types.UID) (string, bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	own := l.entries[pod]
	if own == nil || own.bound.IsZero() {
		return "", false
	}
	return own.node, own.binding || time.Since(own.bound) < Assumed
}

// Settle asks the API server itself (live, no cache) about bindings without an answer that cannot be written any more. Errors:
// what is not known goes on to count.
func (l *Ledger) Settle(ctx context.Context, live client.Reader) error {
	l.lock.Lock()
	late := map[types.UID]types.NamespacedName{}
	for uid, own := range l.entries {
		if !own.bound.IsZero() && !own.binding && time.Since(own.bound) > Assumed {
			late[uid] = own.pod
		}
	}
	l.lock.Unlock()
	var failed error
	for uid, name := range late {
		var pod core.Pod
		err := live.Get(ctx, name, &pod)
		switch {
		case apierrors.IsNotFound(err), err == nil && (pod.UID != uid || pod.Spec.NodeName == ""):
			err = l.unless(uid)
		case err == nil:
			err = l.Pod(ctx, &pod, false)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// unless drops a pod, unless it was bound once more meanwhile.
func (l *Ledger) unless(pod types.UID) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if own := l.entries[pod]; own == nil || own.binding || time.Since(own.bound) < Assumed {
		return nil
	}
	return l.drop(pod)
}

// Counted are the pods of which the API server has told: who sweeps asks for them before it looks which there are.
func (l *Ledger) Counted() []types.UID {
	l.lock.Lock()
	defer l.lock.Unlock()
	var all []types.UID
	for uid, own := range l.entries {
		if own.bound.IsZero() {
			all = append(all, uid)
		}
	}
	return all
}

// Sweep forgets those that were counted and are not there any more.
func (l *Ledger) Sweep(counted []types.UID, there map[types.UID]bool) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	var failed error
	for _, uid := range counted {
		if own := l.entries[uid]; own != nil && own.bound.IsZero() && !there[uid] {
			failed = errors.Join(failed, l.drop(uid))
		}
	}
	return failed
}
