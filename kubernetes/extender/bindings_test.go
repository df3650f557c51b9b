// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"strings"
	"testing"

	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func (c *cluster) bind(pod *core.Pod, node string) string {
	c.t.Helper()
	args := extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
	return ask[extenderv1.ExtenderBindingResult](c, "bind", args).Error
}

func (c *cluster) on(expected ...int) {
	c.t.Helper()
	for at, node := range c.nodes {
		if on := c.books.On(node); on != expected[at] {
			c.t.Errorf("%d pods count on %s; expected %d", on, node, expected[at])
		}
	}
	c.law()
}

// A pod whose binding had no answer counts where it is, whatever kube-scheduler asks for next.
func TestABindingWhoseAnswerIsLost(t *testing.T) {
	c := newCluster(t, 2, objects.Promise(t, "db", whole))
	pod := objects.Pod("db", 0)
	c.create(pod)
	c.lose = true
	if no := c.bind(pod, "node-0"); no == "" {
		t.Error("a binding without an answer has not failed")
	}
	c.on(1, 0)
	c.lose = false
	if no := c.bind(pod, "node-1"); !strings.Contains(no, "node-0") {
		t.Errorf("it is on node-0 already; bind to node-1 said %q", no)
	}
	c.on(1, 0)
	if no := c.bind(pod, "node-0"); no != "" {
		t.Errorf("it is on node-0 as asked, and bind said %q", no)
	}
	c.on(1, 0)
}

// It may still be bound where it was asked for first: there its room is kept, and no other node takes it meanwhile.
func TestABindingThatMayStillBeWrittenKeepsItsRoom(t *testing.T) {
	c := newCluster(t, 2, objects.Promise(t, "db", whole))
	pod := objects.Pod("db", 0)
	c.create(pod)
	asked, err := c.books.Asks(context.Background(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.books.Bind(pod, "node-0", asked); err != nil {
		t.Fatal(err)
	}
	if no := c.bind(pod, "node-1"); !strings.Contains(no, "not known yet") {
		t.Errorf("it may be on its way to node-0; bind to node-1 said %q", no)
	}
	c.on(1, 0)
	if no := c.bind(pod, "node-0"); no != "" {
		t.Error(no)
	}
	c.on(1, 0)
}

// The API server refuses as the pod is bound already, by someone else.
func TestAPodThatIsBoundElsewhereCountsThere(t *testing.T) {
	c := newCluster(t, 2, objects.Promise(t, "db", whole))
	pod := objects.Pod("db", 0)
	behind := pod.DeepCopy() // what a cache has
	pod.Spec.NodeName = "node-1"
	c.create(pod)
	if no := c.bind(behind, "node-0"); !strings.Contains(no, "already assigned") {
		t.Error(no)
	}
	c.on(0, 1)
	if no := c.bind(behind, "node-1"); no != "" {
		t.Errorf("it is where it was to be, and bind said %q", no)
	}
	c.on(0, 1)
}

// Pods that fitted nowhere and are gone were never counted: why is forgotten all the same.
func TestWhyIsForgottenOfPodsThatAreGone(t *testing.T) {
	c := newCluster(t, 0, objects.Promise(t, "db", whole))
	c.nodes = []string{"strange"} // without an agent
	for number := range 3 {
		c.place(objects.Pod("db", number))
	}
	told := c.own.Told()
	if len(told) != 3 {
		t.Fatalf("why is known of %d pods; expected 3", len(told))
	}
	c.place(objects.Pod("db", 3)) // comes while the others are looked for
	c.own.Sweep(told, map[types.UID]bool{objects.Pod("db", 1).UID: true})
	if left := c.own.Told(); len(left) != 2 {
		t.Errorf("%v", left)
	}
}
