// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Of a core of a stock machine .93 can be had: two thirds of one fit once on each core.
const (
	small = `{"promise":{"supply":"1ms/10ms"}}`
	large = `{"promise":{"supply":"6ms/10ms"}}`
)

// books is a ledger with a node of four cores, over objects in memory.
type books struct {
	*Ledger
	t      *testing.T
	client client.Client
}

func open(t *testing.T, all ...client.Object) *books {
	t.Helper()
	to := fake.NewClientBuilder().WithScheme(objects.Scheme(t)).WithObjects(all...).Build()
	b := &books{New(objects.Planner(t), to), t, to}
	b.node(objects.Node("node-0"))
	return b
}

func (b *books) node(node *api.GiustoNode) {
	b.t.Helper()
	if _, err := b.Node(node, false); err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) pod(pod *core.Pod) {
	b.t.Helper()
	if err := b.Pod(context.Background(), pod, false); err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) counts(expected int, why string) {
	b.t.Helper()
	planned, err := b.Planner.Plan("node-0")
	if on := b.On("node-0"); on != expected || err != nil || len(planned) != expected {
		b.t.Errorf("%s: %d pods count, %d are planned (%v); expected %d", why, on, len(planned), err, expected)
	}
}

// fits tells whether another pod with these keys fits.
func (b *books) fits(keys string) bool {
	b.t.Helper()
	fit, err := b.Fit(&Asked{Service: "asked", Keys: []byte(keys)}, []string{"node-0"})
	if err != nil {
		b.t.Fatal(err)
	}
	return len(fit.Refused) == 0
}

func (b *books) change(promise *api.Promise, keys string) {
	b.t.Helper()
	changed := objects.Promise(b.t, promise.Name, keys)
	promise.Spec = changed.Spec
	if err := b.client.Update(context.Background(), promise); err != nil {
		b.t.Fatal(err)
	}
}

func on(pod *core.Pod, node string) *core.Pod {
	pod.Spec.NodeName = node
	return pod
}

// told is a node whose agent tells of a pod.
func told(pod *core.Pod, admitted, refused string) *api.GiustoNode {
	node := objects.Node("node-0")
	one := api.PodStatus{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
	if admitted != "" {
		one.Admitted = &apiextensions.JSON{Raw: []byte(admitted)}
	}
	if refused != "" {
		one.Refused = &apiextensions.JSON{Raw: []byte(refused)}
	}
	node.Status.Pods = []api.PodStatus{one}
	return node
}

// What a promise was before stays on its node where a change does not fit, and counts.
func TestARefusedChangeKeepsWhatWasAdmitted(t *testing.T) {
	web := objects.Promise(t, "web", large)
	b := open(t, web, objects.Promise(t, "rest", large))
	pod := on(objects.Pod("web", 0), "node-0")
	b.pod(pod)
	for number := range 3 {
		b.pod(on(objects.Pod("rest", number), "node-0"))
	}
	b.counts(4, "one on each core")
	b.change(web, `{"promise":{"supply":"99ms/100ms"}}`)
	b.pod(pod)
	b.counts(4, "the change does not fit")
	if b.fits(large) {
		t.Error("the room of what is in force was given to another")
	}
	// A change of unknown meaning is none either.
	b.change(web, `{"promise":"always"}`)
	b.pod(pod)
	b.counts(4, "the change makes no sense")
	too := objects.Promise(t, "too", small)
	too.Spec.Selector = web.Spec.Selector
	if err := b.client.Create(context.Background(), too); err != nil {
		t.Fatal(err)
	}
	b.pod(pod)
	b.counts(4, "two promises select it")
}

// The agent may know better: what it told that it has admitted counts, as soon as it has decided.
func TestTheNodeIsRightAboutWhatIsInForceThere(t *testing.T) {
	web := objects.Promise(t, "web", small)
	b := open(t, web)
	pod := on(objects.Pod("web", 0), "node-0")
	b.pod(pod)
	b.node(told(pod, small, ""))
	b.change(web, large)
	b.pod(pod)
	taken := func(keys string) bool {
		t.Helper()
		planned, err := b.Planner.Plan("node-0")
		if err != nil || len(planned) != 1 {
			t.Fatal(planned, err)
		}
		asked := map[string]int64{small: 1, large: 6}[keys]
		return planned[0].Server.Budget*10 == asked*planned[0].Server.Period
	}
	if !taken(large) {
		t.Error("it fits")
	}
	b.node(told(pod, small, "")) // from before the change
	if !taken(large) {
		t.Error("the agent has not decided yet, and what was admitted here is forgotten")
	}
	b.node(told(pod, small, large))
	if b.pod(pod); !taken(small) {
		t.Error("the agent has refused the change: what it had counts")
	}
	b.node(told(pod, large, ""))
	if !taken(large) {
		t.Error("the agent has admitted it after all")
	}
}

// What an agent of another version tells of one pod, and makes no sense here, hides nothing of the others.
func TestWordsThatAreNotKnownHarmOnePodAlone(t *testing.T) {
	b := open(t, objects.Promise(t, "web", small))
	one, other := on(objects.Pod("web", 0), "node-0"), on(objects.Pod("web", 1), "node-0")
	b.pod(one)
	b.pod(other)
	node := told(one, `{"promise":"of the future"}`, "")
	node.Status.Pods = append(node.Status.Pods, told(other, large, "").Status.Pods...)
	b.entries[one.UID].undecided, b.entries[other.UID].undecided = false, false
	b.node(node)
	b.counts(2, "one has what it had, and the other what its agent says")
	if string(b.entries[other.UID].keys) != large {
		t.Errorf("it counts with %s", b.entries[other.UID].keys)
	}
}

// After a restart what runs counts, before all that is asked anew.
func TestAfterARestartWhatRunsCounts(t *testing.T) {
	web := objects.Promise(t, "web", `{"promise":{"supply":"99ms/100ms"}}`) // raised beyond what fits
	b := open(t, web)
	pod := on(objects.Pod("web", 0), "node-0")
	b.node(told(pod, large, string(keys(t, web))))
	b.pod(pod)
	b.counts(1, "it runs with what was admitted before")
	if err := b.No(pod.UID); err != nil {
		t.Error(err)
	}
	// The node goes and comes back: the same.
	if _, err := b.Node(objects.Node("node-0"), true); err != nil {
		t.Fatal(err)
	}
	b.node(told(pod, large, string(keys(t, web))))
	b.pod(pod)
	b.counts(1, "it still runs")
}

// A name is given again before it is known that its last pod is gone.
func TestAPodOfTheSameNameIsAnother(t *testing.T) {
	b := open(t, objects.Promise(t, "web", large))
	old := on(objects.Pod("web", 0), "node-0")
	b.pod(old)
	fresh := objects.Pod("web", 0)
	fresh.UID = "another"
	asked, err := b.Asks(context.Background(), fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Bind(fresh, "node-0", asked); err != nil {
		t.Fatal(err)
	}
	b.counts(1, "the old one is gone as its name is another's")
	if err := b.Unbind(fresh.UID); err != nil {
		t.Fatal(err)
	}
	b.counts(0, "both are gone")
}

// What has vanished while nothing was told is found by its UID.
func TestVanishedPodsAreSwept(t *testing.T) {
	b := open(t, objects.Promise(t, "web", small))
	b.pod(on(objects.Pod("web", 0), "node-0"))
	b.pod(on(objects.Pod("web", 1), "node-0"))
	there := b.Counted()
	b.pod(on(objects.Pod("web", 2), "node-0")) // comes while the others are looked for
	if err := b.Sweep(there, map[types.UID]bool{objects.Pod("web", 1).UID: true}); err != nil {
		t.Fatal(err)
	}
	b.counts(2, "one has vanished")
}

// A binding without an answer counts until the API server itself says how the pod is, however long that takes.
func TestABindingWithoutAnAnswerCountsUntilItIsKnown(t *testing.T) {
	ctx := context.Background()
	pod := objects.Pod("web", 0)
	b := open(t, objects.Promise(t, "web", large), pod)
	bind := func() {
		t.Helper()
		asked, err := b.Asks(ctx, pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Bind(pod, "node-0", asked); err != nil {
			t.Fatal(err)
		}
	}
	age := func() { b.entries[pod.UID].bound = time.Now().Add(-10 * Assumed) }
	bind()
	age()
	b.pod(objects.Pod("web", 0)) // from a cache that is behind
	b.counts(1, "it may be bound, and the cache does not know")
	if err := b.Settle(ctx, b.client); err != nil {
		t.Fatal(err)
	}
	b.counts(1, "its binding is on the way")
	b.Bound(pod.UID)
	if err := b.Settle(ctx, b.client); err != nil {
		t.Fatal(err)
	}
	b.counts(1, "the API server may still write it")
	age()
	away := fake.NewClientBuilder().WithScheme(objects.Scheme(t)).WithInterceptorFuncs(away).Build()
	if err := b.Settle(ctx, away); err == nil {
		t.Error("the API server is away, and that is no error")
	}
	b.counts(1, "the API server is away")
	if err := b.Settle(ctx, b.client); err != nil {
		t.Fatal(err)
	}
	b.counts(0, "it was not bound, and cannot be any more")
	bind()
	b.Bound(pod.UID)
	if err := b.client.Update(ctx, on(pod, "node-0")); err != nil {
		t.Fatal(err)
	}
	age()
	if err := b.Settle(ctx, b.client); err != nil {
		t.Fatal(err)
	}
	b.counts(1, "it was bound")
	if node, _ := b.Waits(pod.UID); node != "" {
		t.Error("nothing is waited for")
	}
}

// An agent that has said nothing for so long is silent, also where this process has begun just now, or its node was not ready.
func TestSilence(t *testing.T) {
	b := open(t)
	if b.SilentFor("node-0") > time.Second*2 {
		t.Error("it has just been heard")
	}
	long := objects.Node("node-1")
	long.Status.Heartbeat.Time = time.Now().Add(-time.Hour)
	long.Status.Conditions[0].Status = "False"
	b.node(long)
	if b.SilentFor("node-1") < Silent {
		t.Error("its agent has said nothing for an hour")
	}
	long.Status.Heartbeat.Time = long.Status.Heartbeat.Add(time.Second) // by a clock that is wrong
	b.node(long)
	if b.SilentFor("node-1") > Silent {
		t.Error("it has just been heard")
	}
}

var errAway = errors.New("the API server is away")
