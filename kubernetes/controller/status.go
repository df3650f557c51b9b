// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/ledger"
	"giusto.dev/kubernetes/planner"
	"giusto.dev/kubernetes/promises"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// looks is how often a promise with pods is looked at where nothing is told of them: agents may be silent.
const looks = 5 * time.Second

// needs remembers what promises need where nothing else runs.
type needs struct {
	lock  sync.Mutex
	found map[string]need
}

type need struct {
	thousandths int64
	err         error
}

func (c *Controller) need(promise *api.Promise) (int64, error) {
	keys, err := promises.Keys(promise)
	if err != nil {
		return 0, err
	}
	c.needs.lock.Lock()
	defer c.needs.lock.Unlock()
	if found, there := c.needs.found[string(keys)]; there {
		return found.thousandths, found.err
	}
	var refused *planner.Refused
	var input *planner.Input
	thousandths, err := c.Ledger.Planner.Needs("pod", keys)
	if err != nil && !errors.As(err, &refused) && !errors.As(err, &input) {
		return 0, err
	}
	if c.needs.found == nil || len(c.needs.found) > 10_000 {
		c.needs.found = map[string]need{}
	}
	c.needs.found[string(keys)] = need{thousandths, err}
	return thousandths, err
}

// promise writes how a promise stands.
func (c *Controller) promise(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var promise api.Promise
	if err := c.Get(ctx, request.NamespacedName, &promise); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pods, err := c.pods(ctx, &promise)
	if err != nil {
		return reconcile.Result{}, err
	}
	status := api.PromiseStatus{ObservedGeneration: promise.Generation, Promised: promises.Promised(&promise)}
	status.Pods = int32(len(pods))
	for _, condition := range promise.Status.Conditions {
		status.Conditions = append(status.Conditions, *condition.DeepCopy())
	}
	set := func(kind string, is metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: is, Reason: reason, Message: short(message), ObservedGeneration: promise.Generation,
		})
	}
	c.planned(&promise, &status, set)
	c.placed(ctx, &promise, pods, set)
	c.enforced(ctx, pods, &status, set)
	var again reconcile.Result
	if len(pods) > 0 {
		again.RequeueAfter = looks
	}
	if equality.Semantic.DeepEqual(status, promise.Status) {
		return again, nil
	}
	applied := &api.Promise{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.Group.String(), Kind: "Promise"},
		ObjectMeta: metav1.ObjectMeta{Namespace: promise.Namespace, Name: promise.Name},
		Status:     status,
	}
	patch, err := statusOnly(applied)
	if err != nil {
		return again, err
	}
	err = c.Status().Patch(ctx, applied, patch, Owner, client.ForceOwnership)
	return again, client.IgnoreNotFound(err)
}

// short is a message that a condition can hold.
func short(message string) string {
	if len(message) > 2000 {
		message = strings.ToValidUTF8(message[:2000], "") + " ..."
	}
	return message
}

type setter func(kind string, is metav1.ConditionStatus, reason, message string)

func (c *Controller) planned(promise *api.Promise, status *api.PromiseStatus, set setter) {
	thousandths, err := c.need(promise)
	var refused *planner.Refused
	var input *planner.Input
	switch {
	case err == nil:
		status.Thousandths = thousandths
		set(api.Planned, metav1.ConditionTrue, "Planned",
			fmt.Sprintf("%d thousandths of a core for each pod, where it has a node to itself", thousandths))
	case errors.As(err, &refused) && refused.Exit == 1:
		set(api.Planned, metav1.ConditionFalse, "DoesNotFit", refused.Text)
	case errors.As(err, &refused), errors.As(err, &input):
		set(api.Planned, metav1.ConditionFalse, "BadInput", err.Error())
	default:
		set(api.Planned, metav1.ConditionUnknown, "NoPlanner", err.Error())
	}
}

func (c *Controller) placed(ctx context.Context, promise *api.Promise, pods []core.Pod, set setter) {
	waiting, why, wrong := 0, "", ""
	for at := range pods {
		if _, err := c.Ledger.Asks(ctx, &pods[at]); err != nil && wrong == "" {
			wrong = fmt.Sprintf("pod %s: %v", pods[at].Name, err)
		}
		if pods[at].Spec.NodeName != "" {
			continue
		}
		waiting++
		if why == "" {
			why = c.Extender.Nowhere(pods[at].UID)
		}
	}
	switch {
	case len(pods) == 0:
		set(api.Placed, metav1.ConditionUnknown, "NoPods", "no pod that it selects is there")
	case wrong != "":
		set(api.Placed, metav1.ConditionFalse, "Ambiguous", wrong)
	case waiting == 0:
		set(api.Placed, metav1.ConditionTrue, "Placed", fmt.Sprintf("%d of %d pods have a node", len(pods), len(pods)))
	case why != "":
		set(api.Placed, metav1.ConditionFalse, "DoesNotFit",
			fmt.Sprintf("%d of %d pods have no node: %s", waiting, len(pods), why))
	default:
		set(api.Placed, metav1.ConditionFalse, "Pending",
			fmt.Sprintf("%d of %d pods have no node yet", waiting, len(pods)))
	}
}

// enforced says what agents tell of the pods.
func (c *Controller) enforced(ctx context.Context, pods []core.Pod, status *api.PromiseStatus, set setter) {
	var reason, why, silent, missed, untold string
	kept, on := 0, 0
	for at := range pods {
		pod := &pods[at]
		if pod.Spec.NodeName == "" {
			continue
		}
		on++
		var node api.GiustoNode
		if err := c.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node); err != nil {
			reason, why = "NoAgent", fmt.Sprintf("node %s has no agent of giusto", pod.Spec.NodeName)
			continue
		}
		if c.Ledger.SilentFor(node.Name) > ledger.Silent {
			silent = fmt.Sprintf("the agent on node %s says nothing since %s",
				node.Name, node.Status.Heartbeat.UTC().Format(time.RFC3339))
			continue
		}
		own := find(node.Status.Pods, string(pod.UID))
		switch {
		case own == nil:
			reason = "Starting"
			why = fmt.Sprintf("pod %s on node %s: its agent has told nothing of it yet", pod.Name, node.Name)
			continue
		case !own.Enforced:
			reason, why = own.Reason, fmt.Sprintf("pod %s on node %s: %s", pod.Name, node.Name, own.Message)
			continue
		}
		status.Enforced++
		if status.Now == "" || own.Verdict == "missed" {
			status.Now = own.Now
		}
		switch own.Verdict {
		case "kept":
			kept++
		case "missed":
			missed = fmt.Sprintf("pod %s on node %s: %s, promised %s", pod.Name, node.Name, own.Now, own.Promised)
		default:
			untold = fmt.Sprintf("pod %s on node %s: too little was observed in the last minute", pod.Name, node.Name)
		}
	}
	count := fmt.Sprintf("%d of %d pods have their shares", status.Enforced, len(pods))
	switch {
	case on == 0:
		set(api.Enforced, metav1.ConditionFalse, "NotPlaced", "no pod of it has a node")
	case why != "":
		set(api.Enforced, metav1.ConditionFalse, reason, count+"; "+why)
	case silent != "":
		set(api.Enforced, metav1.ConditionUnknown, "AgentSilent", count+"; "+silent)
	case on < len(pods):
		set(api.Enforced, metav1.ConditionFalse, "NotPlaced", count)
	default:
		set(api.Enforced, metav1.ConditionTrue, "Enforced", count)
	}
	switch {
	case missed != "":
		set(api.Kept, metav1.ConditionFalse, "Missed", missed)
	case status.Enforced == 0 || int(status.Enforced) < len(pods):
		set(api.Kept, metav1.ConditionUnknown, "NotEnforced", count)
	case untold != "":
		set(api.Kept, metav1.ConditionUnknown, "CannotTell", untold)
	default:
		set(api.Kept, metav1.ConditionTrue, "Kept", fmt.Sprintf("of %d pods in the last minute", kept))
	}
}

func find(pods []api.PodStatus, uid string) *api.PodStatus {
	for at := range pods {
		if pods[at].UID == uid {
			return &pods[at]
		}
	}
	return nil
}

// statusOnly is a server-side apply of the status alone: the spec belongs to those who wrote it.
func statusOnly(promise *api.Promise) (client.Patch, error) {
	data, err := marshalStatus(promise)
	return client.RawPatch(types.ApplyPatchType, data), err
}

func marshalStatus(promise *api.Promise) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": promise.APIVersion, "kind": promise.Kind,
		"metadata": map[string]any{"namespace": promise.Namespace, "name": promise.Name},
		"status":   promise.Status,
	})
}
