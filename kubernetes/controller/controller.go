// SPDX-License-Identifier: Apache-2.0

// Package controller follows the cluster's objects: it keeps the ledger, writes the status of promises, and publishes what nodes
// have for promises as the extended resource giusto.io/cpu. It is the only one that writes these.
package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/extender"
	"giusto.dev/kubernetes/ledger"
	"giusto.dev/kubernetes/promises"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Owner is the field manager of what is written here.
const Owner = client.FieldOwner("giusto-controller")

// Controller follows.
type Controller struct {
	client.Client
	Ledger   *ledger.Ledger
	Extender *extender.Extender

	live  client.Reader
	ready atomic.Bool
	needs needs
}

// Ready tells whether all objects that there were at the start are in the ledger.
func (c *Controller) Ready() bool { return c.ready.Load() }

// AddTo registers it with a manager.
func (c *Controller) AddTo(m manager.Manager) error {
	c.Client, c.live = m.GetClient(), m.GetAPIReader()
	options := controller.Options{MaxConcurrentReconciles: 4}
	ofPod := handler.EnqueueRequestsFromMapFunc(c.promisesOf)
	ofNode := handler.EnqueueRequestsFromMapFunc(c.promisesOn)
	ofName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, node client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node.GetName()}}}
	})
	podsOf := handler.EnqueueRequestsFromMapFunc(c.podsOf)
	// What this controller itself writes, the status, changes nothing for pods.
	asked := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	for _, err := range []error{
		ctrl.NewControllerManagedBy(m).Named("pods").For(&core.Pod{}).Watches(&api.Promise{}, podsOf, asked).
			WithOptions(options).Complete(reconcile.Func(c.pod)),
		ctrl.NewControllerManagedBy(m).Named("nodes").For(&api.GiustoNode{}).Watches(&core.Node{}, ofName).
			Complete(reconcile.Func(c.node)),
		ctrl.NewControllerManagedBy(m).Named("promises").For(&api.Promise{}, asked).Watches(&core.Pod{}, ofPod).
			Watches(&api.GiustoNode{}, ofNode).WithOptions(options).Complete(reconcile.Func(c.promise)),
		m.Add(manager.RunnableFunc(c.load)),
		m.Add(manager.RunnableFunc(c.sweeps)),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// load puts all objects into the ledger, in the order in which they came, before anything is asked.
func (c *Controller) load(ctx context.Context) error {
	var nodes api.GiustoNodeList
	var pods core.PodList
	if err := c.List(ctx, &nodes); err != nil {
		return err
	}
	for at := range nodes.Items {
		if _, err := c.Ledger.Node(&nodes.Items[at], false); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "a node is passed over", "node", nodes.Items[at].Name)
		}
	}
	if err := c.List(ctx, &pods); err != nil {
		return err
	}
	// What runs first: that counts in any case.
	first := func(pod *core.Pod) int {
		if c.Ledger.Runs(pod) {
			return -1
		}
		return 0
	}
	slices.SortFunc(pods.Items, func(one, other core.Pod) int {
		return cmp.Or(cmp.Compare(first(&one), first(&other)),
			one.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(one.UID, other.UID))
	})
	for at := range pods.Items {
		if err := c.Ledger.Pod(ctx, &pods.Items[at], false); err != nil {
			return err
		}
	}
	c.ready.Store(true)
	return nil
}

// pod follows a pod.
func (c *Controller) pod(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var pod core.Pod
	err := c.Get(ctx, request.NamespacedName, &pod)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, c.Ledger.Unbind(c.Ledger.Named(request.NamespacedName))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.Ledger.Pod(ctx, &pod, false)
}

// sweep is how often it is looked for what was not told: pods that have vanished, bindings without an answer.
const sweep = 10 * time.Second

func (c *Controller) sweeps(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweep):
		}
		if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "what is not known any more is looked for again later")
		}
	}
}

func (c *Controller) sweep(ctx context.Context) error {
	counted, told := c.Ledger.Counted(), c.Extender.Told()
	var pods core.PodList
	if err := c.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	there := make(map[types.UID]bool, len(pods.Items))
	for at := range pods.Items {
		there[pods.Items[at].UID] = true
	}
	c.Extender.Sweep(told, there)
	return errors.Join(c.Ledger.Sweep(counted, there), c.Ledger.Settle(ctx, c.live))
}

// node follows a node and its agent.
func (c *Controller) node(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var node core.Node
	var own api.GiustoNode
	noNode, noAgent := c.Get(ctx, request.NamespacedName, &node), c.Get(ctx, request.NamespacedName, &own)
	if err := cmp.Or(client.IgnoreNotFound(noNode), client.IgnoreNotFound(noAgent)); err != nil {
		return reconcile.Result{}, err
	}
	own.Name = request.Name
	changed, err := c.Ledger.Node(&own, noNode != nil || noAgent != nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	if changed {
		if err := c.count(ctx, request.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case noNode != nil && noAgent == nil:
		return reconcile.Result{}, client.IgnoreNotFound(c.Delete(ctx, &own))
	case noNode != nil:
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.publish(ctx, &node, c.Ledger.Capacity(request.Name))
}

// count counts the pods of a node anew.
func (c *Controller) count(ctx context.Context, name string) error {
	var pods core.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{NodeField: name}); err != nil {
		return err
	}
	for at := range pods.Items {
		if err := c.Ledger.Pod(ctx, &pods.Items[at], false); err != nil {
			return err
		}
	}
	return nil
}

// NodeField is the index of pods by their nodes.
const NodeField = "spec.nodeName"

// Index lets a manager's cache find pods by their nodes.
func Index(ctx context.Context, m manager.Manager) error {
	return m.GetFieldIndexer().IndexField(ctx, &core.Pod{}, NodeField, nodeOf)
}

func nodeOf(pod client.Object) []string { return []string{pod.(*core.Pod).Spec.NodeName} }

// publish writes the extended resource into the status of a node; 0: takes it out. Of a node that said that it has none of it,
// kubelet would reject, when it starts again, the pods that asked for it and run; of what a node does not tell it asks nothing.
// kubelet leaves it there, but for a reboot.
func (c *Controller) publish(ctx context.Context, node *core.Node, capacity int64) error {
	has := func(list core.ResourceList) bool {
		quantity, there := list[api.Resource]
		return there == (capacity != 0) && quantity.Value() == capacity
	}
	if has(node.Status.Capacity) && has(node.Status.Allocatable) {
		return nil
	}
	list := map[string]any{api.Resource: nil}
	if capacity != 0 {
		list[api.Resource] = resource.NewQuantity(capacity, resource.DecimalSI).String()
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": list, "allocatable": list}})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, patch), Owner)
}

// promisesOf are those that a pod may be of.
func (c *Controller) promisesOf(ctx context.Context, pod client.Object) []reconcile.Request {
	var all api.PromiseList
	if c.List(ctx, &all, client.InNamespace(pod.GetNamespace()), client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var found []reconcile.Request
	for at := range all.Items {
		selector, err := metav1.LabelSelectorAsSelector(&all.Items[at].Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.GetLabels())) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[at])})
		}
	}
	return found
}

// promisesOn are those of the pods that an agent tells of.
func (c *Controller) promisesOn(_ context.Context, node client.Object) []reconcile.Request {
	var found []reconcile.Request
	for _, pod := range node.(*api.GiustoNode).Status.Pods {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Promise}}
		if !slices.Contains(found, request) {
			found = append(found, request)
		}
	}
	return found
}

// podsOf are all pods of a promise's namespace: it may have selected others before.
func (c *Controller) podsOf(ctx context.Context, promise client.Object) []reconcile.Request {
	var pods core.PodList
	if c.List(ctx, &pods, client.InNamespace(promise.GetNamespace()), client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	found := make([]reconcile.Request, 0, len(pods.Items))
	for at := range pods.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[at])})
	}
	return found
}

// pods are those that a promise selects and that are not over.
func (c *Controller) pods(ctx context.Context, promise *api.Promise) ([]core.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(&promise.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var pods core.PodList
	err = c.List(ctx, &pods, client.InNamespace(promise.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod core.Pod) bool { return promises.Finished(&pod) }), nil
}
