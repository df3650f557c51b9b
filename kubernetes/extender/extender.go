// SPDX-License-Identifier: Apache-2.0

// Package extender is what a stock kube-scheduler asks over HTTP before it places a pod: which nodes can keep its promise
// (filter), where most is left then (prioritize), and to bind it, admitted by the planner at that instant (bind).
//
// It decides nothing itself: ledger and planner do. A pod without a promise passes as if it were not asked.
package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"giusto.dev/kubernetes/ledger"
	"giusto.dev/kubernetes/planner"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// largest is how many bytes a question may have: a pod, and the names of 10,000 nodes.
	largest = 16 << 20
	// again is how soon it is told once more why a pod fits nowhere, atOnce of how many pods it is found out at once.
	again  = 10 * time.Second
	atOnce = 1
)

// Extender answers. Client reads from a cache, and binds; Live asks the API server itself.
type Extender struct {
	Ledger *ledger.Ledger
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	// Ready tells whether all objects of the cluster are in the ledger.
	Ready func() bool

	lock   sync.Mutex
	told   map[types.UID]told
	asking map[types.UID]struct{}
	// The pod that was asked about last, and what is left of nodes that take it: kube-scheduler asks for scores next.
	last types.UID
	left map[string]int64
}

// told is why a pod fits nowhere.
type told struct {
	at   time.Time
	text string
}

// Handler is the extender over HTTP.
func (e *Extender) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", answer(e, e.Filter))
	mux.HandleFunc("POST /prioritize", answer(e, e.Prioritize))
	mux.HandleFunc("POST /bind", answer(e, e.Bind))
	mux.HandleFunc("GET /readyz", func(to http.ResponseWriter, _ *http.Request) {
		if !e.Ready() {
			http.Error(to, "the cluster's objects are not all known yet", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func answer[Q, A any](e *Extender, to func(context.Context, *Q) A) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		// kube-scheduler takes that for a failure, and tries the pod again.
		if !e.Ready() {
			http.Error(response, "the cluster's objects are not all known yet", http.StatusServiceUnavailable)
			return
		}
		question := new(Q)
		if err := json.NewDecoder(http.MaxBytesReader(response, request.Body, largest)).Decode(question); err != nil {
			http.Error(response, "expected the question of a kube-scheduler: "+err.Error(), http.StatusBadRequest)
			return
		}
		response.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(response).Encode(to(request.Context(), question))
	}
}

// Filter says which nodes take a pod, and why the others do not.
func (e *Extender) Filter(ctx context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	if args.Pod == nil || args.NodeNames == nil {
		return &extenderv1.ExtenderFilterResult{Error: "expected a pod and names of nodes: set nodeCacheCapable: true"}
	}
	pod, nodes := args.Pod, *args.NodeNames
	asked, err := e.Ledger.Asks(ctx, pod)
	if err == nil && asked == nil {
		return &extenderv1.ExtenderFilterResult{NodeNames: &nodes}
	}
	var fit planner.Fit
	if err == nil {
		fit, err = e.Ledger.Fit(asked, nodes)
	}
	var refused *planner.Refused
	if err != nil && !errors.As(err, &refused) {
		e.tell(pod, "Unplanned", err.Error())
	}
	if err != nil {
		no := extenderv1.FailedNodesMap{}
		for _, name := range nodes {
			no[name] = "giusto: " + err.Error()
		}
		return &extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedAndUnresolvableNodes: no}
	}
	e.lock.Lock()
	e.last, e.left = pod.UID, fit.Left
	e.lock.Unlock()
	result := extenderv1.ExtenderFilterResult{
		NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	for _, name := range nodes {
		switch why, no := fit.Refused[name]; {
		case !no:
			*result.NodeNames = append(*result.NodeNames, name)
		case e.Ledger.Knows(name):
			result.FailedNodes[name] = "giusto: " + why
		default:
			result.FailedAndUnresolvableNodes[name] = "giusto: " + why
		}
	}
	if len(*result.NodeNames) == 0 {
		e.nowhere(pod, asked, result.FailedNodes)
	} else {
		e.forget(pod.UID)
	}
	return &result
}

// nowhere tells in full, with the nearest fit, why a pod fits on no node: by the first one that could enforce it. That takes many
// plans, and kube-scheduler does not wait for it.
func (e *Extender) nowhere(pod *core.Pod, asked *ledger.Asked, failed extenderv1.FailedNodesMap) {
	nodes := make([]string, 0, len(failed))
	for name := range failed {
		nodes = append(nodes, name)
	}
	if len(nodes) == 0 {
		e.tell(pod, "NoAgent", "no node that it may be on has an agent of giusto that can enforce promises")
		return
	}
	name := slices.Min(nodes)
	if !e.begin(pod.UID) {
		return
	}
	go func() {
		defer e.done(pod.UID)
		if err := e.Ledger.Planner.Why(name, asked.Service, asked.Keys); err != nil {
			e.tell(pod, "DoesNotFit", fmt.Sprintf("on node %s, with this pod: %v", name, err))
		}
	}()
}

// begin tells whether it is to be found out now why a pod fits nowhere: not if that was told lately, and of so many at once.
func (e *Extender) begin(pod types.UID) bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	if _, is := e.asking[pod]; is || len(e.asking) >= atOnce || time.Since(e.told[pod].at) < again {
		return false
	}
	if e.asking == nil {
		e.asking = map[types.UID]struct{}{}
	}
	e.asking[pod] = struct{}{}
	return true
}

func (e *Extender) done(pod types.UID) {
	e.lock.Lock()
	defer e.lock.Unlock()
	delete(e.asking, pod)
}

// tell makes an event of why a pod is nowhere, and keeps it for the promise's status.
func (e *Extender) tell(pod *core.Pod, reason, text string) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.told == nil {
		e.told = map[types.UID]told{}
	}
	if time.Since(e.told[pod.UID].at) < again {
		return
	}
	e.told[pod.UID] = told{time.Now(), text}
	e.Events.Event(pod, core.EventTypeWarning, reason, text)
}

func (e *Extender) forget(pod types.UID) {
	e.lock.Lock()
	defer e.lock.Unlock()
	delete(e.told, pod)
}

// Nowhere is why a pod fitted on no node when that was asked last; "": it did, or was not asked for.
func (e *Extender) Nowhere(pod types.UID) string {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.told[pod].text
}

// Told are the pods of which it is kept why they fit nowhere: who sweeps asks for them before it looks which there are.
func (e *Extender) Told() []types.UID {
	e.lock.Lock()
	defer e.lock.Unlock()
	return slices.Collect(maps.Keys(e.told))
}

// Sweep forgets those that are not there any more.
func (e *Extender) Sweep(told []types.UID, there map[types.UID]bool) {
	for _, pod := range told {
		if !there[pod] {
			e.forget(pod)
		}
	}
}

// Prioritize prefers nodes of which most is left.
func (e *Extender) Prioritize(ctx context.Context, args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	list := extenderv1.HostPriorityList{}
	if args.Pod == nil || args.NodeNames == nil {
		return list
	}
	left := e.lately(args.Pod.UID)
	if left == nil {
		if asked, err := e.Ledger.Asks(ctx, args.Pod); err == nil && asked != nil {
			if fit, err := e.Ledger.Fit(asked, *args.NodeNames); err == nil {
				left = fit.Left
			}
		}
	}
	for _, name := range *args.NodeNames {
		var score int64
		if capacity := e.Ledger.Capacity(name); capacity > 0 {
			score = left[name] * extenderv1.MaxExtenderPriority / capacity
		}
		list = append(list, extenderv1.HostPriority{Host: name, Score: score})
	}
	return list
}

// lately is what is left of nodes that take a pod, as its last filter said; nil: others were asked about since then.
func (e *Extender) lately(pod types.UID) map[string]int64 {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.last != pod {
		return nil
	}
	return e.left
}

// Bind binds a pod, once the node's plan has it.
func (e *Extender) Bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) *extenderv1.ExtenderBindingResult {
	if err := e.bind(ctx, args); err != nil {
		return &extenderv1.ExtenderBindingResult{Error: err.Error()}
	}
	return &extenderv1.ExtenderBindingResult{}
}

func (e *Extender) bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) error {
	var pod core.Pod
	if err := e.Client.Get(ctx, types.NamespacedName{Namespace: args.PodNamespace, Name: args.PodName}, &pod); err != nil {
		return err
	}
	if pod.UID != args.PodUID {
		return fmt.Errorf("pod %s/%s is another one now", args.PodNamespace, args.PodName)
	}
	asked, err := e.Ledger.Asks(ctx, &pod)
	if err != nil {
		return err
	}
	if asked != nil {
		if done, err := e.before(ctx, args); done || err != nil {
			return err
		}
		if err := e.Ledger.Bind(&pod, args.Node, asked); err != nil {
			return fmt.Errorf("giusto: %w", err)
		}
		defer e.Ledger.Bound(args.PodUID)
	}
	binding := &core.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     core.ObjectReference{Kind: "Node", Name: args.Node},
	}
	err = e.Client.SubResource("binding").Create(ctx, &pod, binding)
	if err == nil || asked == nil {
		return err
	}
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return errors.Join(err, e.Ledger.Unbind(args.PodUID))
	}
	if !apierrors.IsConflict(err) {
		return err // it may be bound: it counts until the API server tells (ledger.Settle)
	}
	switch done, known := e.where(ctx, args); {
	case known != nil:
		return errors.Join(err, known)
	case done == "":
		return errors.Join(err, e.Ledger.Unbind(args.PodUID))
	case done == args.Node:
		return nil
	}
	return err
}

// before looks at what became of a binding of this pod that had no answer. It tells whether it is done.
func (e *Extender) before(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (bool, error) {
	on, open := e.Ledger.Waits(args.PodUID)
	if on == "" {
		return false, nil
	}
	switch done, err := e.where(ctx, args); {
	case err != nil:
		return false, err
	case done == args.Node:
		return true, nil
	case done != "":
		return false, fmt.Errorf("giusto: the pod is on node %s", done)
	case open && on != args.Node:
		return false, fmt.Errorf("giusto: it is not known yet whether the pod was bound to node %s", on)
	}
	return false, nil
}

// where asks the API server itself on which node a pod is, and tells the ledger; "": it is on none.
func (e *Extender) where(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (string, error) {
	// Who asked may have gone already.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var pod core.Pod
	err := e.Live.Get(ctx, types.NamespacedName{Namespace: args.PodNamespace, Name: args.PodName}, &pod)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if pod.UID != args.PodUID || pod.Spec.NodeName == "" {
		return "", nil
	}
	return pod.Spec.NodeName, e.Ledger.Pod(ctx, &pod, false)
}
