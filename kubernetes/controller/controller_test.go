// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/extender"
	"giusto.dev/kubernetes/ledger"
	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const third = `{"promise": {"supply": "3ms/10ms"}}`

// following is a controller over objects in memory.
func following(t *testing.T, all ...client.Object) *Controller {
	t.Helper()
	to := fake.NewClientBuilder().WithScheme(objects.Scheme(t)).WithObjects(all...).
		WithStatusSubresource(&api.Promise{}, &api.GiustoNode{}, &core.Node{}).
		WithIndex(&core.Pod{}, NodeField, nodeOf).Build()
	c := &Controller{Client: to, live: to, Ledger: ledger.New(objects.Planner(t), to)}
	c.Extender = &extender.Extender{
		Ledger: c.Ledger, Client: to, Live: to, Events: record.NewFakeRecorder(100), Ready: c.Ready,
	}
	if err := c.load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Controller) do(t *testing.T, to reconcile.Func, object client.Object) {
	t.Helper()
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	if _, err := to(context.Background(), request); err != nil {
		t.Fatal(err)
	}
}

// conditions of a promise, after it was looked at.
func (c *Controller) conditions(t *testing.T, promise *api.Promise) []metav1.Condition {
	t.Helper()
	c.do(t, c.promise, promise)
	var own api.Promise
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(promise), &own); err != nil {
		t.Fatal(err)
	}
	return own.Status.Conditions
}

// enforcing is a node whose agent says that a pod has its share.
func enforcing(name string, pod *core.Pod) *api.GiustoNode {
	node := objects.Node(name)
	node.Status.Pods = []api.PodStatus{{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Enforced: true,
		Reason: "Enforced", Verdict: "kept", Now: "p99 1ms"}}
	return node
}

func requires(t *testing.T, conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	own := meta.FindStatusCondition(conditions, kind)
	if own == nil || own.Status != status || own.Reason != reason {
		t.Errorf("%s: %+v; expected %s, %s", kind, own, status, reason)
	}
}

// Of a pod its own node's agent tells, as long as it says something.
func TestWhatAnAgentSaysHoldsForItsNodeAndForHalfAMinute(t *testing.T) {
	web := objects.Promise(t, "web", third)
	pod := objects.Pod("web", 0)
	pod.Spec.NodeName = "node-0"
	for _, one := range []struct {
		what            string
		nodes           []*api.GiustoNode
		age             time.Duration
		enforced, kept  metav1.ConditionStatus
		reason, reason2 string
	}{
		{"its agent says so", []*api.GiustoNode{enforcing("node-0", pod)}, 0, "True", "True", "Enforced", "Kept"},
		{"its agent is silent", []*api.GiustoNode{enforcing("node-0", pod)}, 2 * ledger.Silent, "Unknown", "Unknown",
			"AgentSilent", "NotEnforced"},
		{"another node's agent says so", []*api.GiustoNode{objects.Node("node-0"), enforcing("node-1", pod)}, 0,
			"False", "Unknown", "Starting", "NotEnforced"},
		{"its node has no agent", []*api.GiustoNode{enforcing("node-1", pod)}, 0,
			"False", "Unknown", "NoAgent", "NotEnforced"},
	} {
		t.Run(one.what, func(t *testing.T) {
			all := []client.Object{web.DeepCopy(), pod.DeepCopy()}
			for _, node := range one.nodes {
				node.Status.Heartbeat.Time = node.Status.Heartbeat.Add(-one.age)
				all = append(all, node)
			}
			c := following(t, all...)
			told := c.conditions(t, web)
			requires(t, told, api.Enforced, one.enforced, one.reason)
			requires(t, told, api.Kept, one.kept, one.reason2)
		})
	}
}

// A node that cannot enforce promises has none of the resource, which is not the same as nothing of it: kubelet would reject pods
// that run.
func TestTheResourceIsThereAsLongAsAnAgentIs(t *testing.T) {
	ctx := context.Background()
	own := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	plain := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	agent := objects.Node("node-0")
	c := following(t, own, plain, agent)
	published := func(node *core.Node) (string, bool) {
		t.Helper()
		c.do(t, c.node, node)
		var now core.Node
		if err := c.Get(ctx, client.ObjectKeyFromObject(node), &now); err != nil {
			t.Fatal(err)
		}
		quantity, there := now.Status.Allocatable[api.Resource]
		if _, too := now.Status.Capacity[api.Resource]; too != there {
			t.Error("capacity and allocatable differ")
		}
		return quantity.String(), there
	}
	if much, there := published(own); !there || much != "3720" {
		t.Errorf("%s, %v", much, there)
	}
	if much, there := published(plain); there {
		t.Errorf("a node without an agent has %s", much)
	}
	agent.Status.Conditions[0].Status = "False"
	if err := c.Status().Update(ctx, agent); err != nil {
		t.Fatal(err)
	}
	if much, there := published(own); there {
		t.Errorf("a node that can enforce nothing has %s", much)
	}
}

// What vanished while nothing was told, and what was bound without an answer.
func TestWhatIsNotThereIsSwept(t *testing.T) {
	ctx := context.Background()
	pod := objects.Pod("web", 0)
	pod.Spec.NodeName = "node-0"
	c := following(t, objects.Promise(t, "web", third), objects.Node("node-0"), pod)
	if err := c.sweep(ctx); err != nil || c.Ledger.On("node-0") != 1 {
		t.Fatalf("%d pods count (%v); expected 1", c.Ledger.On("node-0"), err)
	}
	if err := c.Delete(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := c.sweep(ctx); err != nil || c.Ledger.On("node-0") != 0 {
		t.Errorf("%d pods count (%v); expected none", c.Ledger.On("node-0"), err)
	}
}

// The scheduler starts again: of a pod whose promise was raised beyond what fits what it had before counts, ahead of pods that
// came earlier and have nothing yet.
func TestAtItsStartWhatRunsCountsFirst(t *testing.T) {
	db := objects.Promise(t, "db", `{"promise": {"supply": "99ms/100ms"}}`)
	rest := objects.Promise(t, "rest", `{"promise": {"supply": "8ms/10ms"}}`)
	node := objects.Node("node-0")
	all := []client.Object{db, rest, node}
	for number := range 4 {
		early := objects.Pod("rest", number)
		early.Spec.NodeName, early.CreationTimestamp = "node-0", metav1.NewTime(time.Now().Add(-time.Hour))
		late := objects.Pod("db", number)
		late.Spec.NodeName, late.CreationTimestamp = "node-0", metav1.Now()
		all = append(all, early, late)
		own := enforcing("node-0", late).Status.Pods[0]
		own.Admitted = &promiseKeys
		node.Status.Pods = append(node.Status.Pods, own)
	}
	c := following(t, all...)
	for number := range 4 {
		if err := c.Ledger.No(objects.Pod("db", number).UID); err != nil {
			t.Errorf("it runs, and does not count: %v", err)
		}
		err := c.Ledger.No(objects.Pod("rest", number).UID)
		if err == nil || !strings.Contains(err.Error(), "does not fit") {
			t.Errorf("what is not in force has taken the room: %v", err)
		}
	}
}

var promiseKeys = apiextensions.JSON{Raw: []byte(`{"promise":{"supply":"8ms/10ms"}}`)}
