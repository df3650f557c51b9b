// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"giusto.dev/kubernetes/ledger"
	"giusto.dev/kubernetes/planner"
	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// cluster is an extender over objects in memory.
type cluster struct {
	t      testing.TB
	client client.Client
	plans  *planner.Planner
	books  *ledger.Ledger
	events *record.FakeRecorder
	own    *Extender
	http   *httptest.Server
	nodes  []string
	took   []time.Duration // by filter calls
	beat   time.Time
	refuse bool // the API server refuses bindings
	lose   bool // it binds, and its answer is lost
}

func newCluster(t testing.TB, nodes int, promises ...client.Object) *cluster {
	c := &cluster{t: t, plans: objects.Planner(t), events: record.NewFakeRecorder(1 << 20), beat: time.Now()}
	bind := func(
		ctx context.Context, to client.Client, _ string, pod, binding client.Object, _ ...client.SubResourceCreateOption,
	) error {
		if c.refuse {
			return apierrors.NewConflict(core.Resource("pods"), pod.GetName(), errors.New("conflict"))
		}
		own := pod.DeepCopyObject().(*core.Pod)
		if own.Spec.NodeName != "" {
			return apierrors.NewConflict(core.Resource("pods"), pod.GetName(), errors.New("already assigned"))
		}
		own.Spec.NodeName = binding.(*core.Binding).Target.Name
		if err := to.Update(ctx, own); err != nil || !c.lose {
			return err
		}
		return apierrors.NewTimeoutError("no answer", 1)
	}
	// A tracker of field managers takes longer for each object than a placement does.
	scheme := objects.Scheme(t)
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	c.client = fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(promises...).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: bind}).Build()
	c.books = ledger.New(c.plans, c.client)
	c.own = &Extender{
		Ledger: c.books, Client: c.client, Live: c.client, Events: c.events, Ready: func() bool { return true },
	}
	c.http = httptest.NewServer(c.own.Handler())
	t.Cleanup(c.http.Close)
	for number := range nodes {
		c.node(fmt.Sprintf("node-%d", number))
	}
	return c
}

func (c *cluster) node(name string) {
	c.t.Helper()
	if _, err := c.books.Node(objects.Node(name), false); err != nil {
		c.t.Fatal(err)
	}
	c.nodes = append(c.nodes, name)
}

// ask asks as kube-scheduler does.
func ask[A any](c *cluster, verb string, question any) A {
	c.t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		c.t.Fatal(err)
	}
	begin := time.Now()
	response, err := http.Post(c.http.URL+"/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", verb, response.Status)
	}
	var answer A
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	if verb == "filter" {
		c.took = append(c.took, time.Since(begin))
	}
	return answer
}

func (c *cluster) create(object client.Object) {
	c.t.Helper()
	if err := c.client.Create(context.Background(), object); err != nil {
		c.t.Fatal(err)
	}
}

// place creates a pod and places it as kube-scheduler would: on the node with the highest score. "": no node takes it.
func (c *cluster) place(pod *core.Pod) (string, extenderv1.ExtenderFilterResult) {
	c.t.Helper()
	c.create(pod)
	return c.again(pod)
}

func (c *cluster) again(pod *core.Pod) (string, extenderv1.ExtenderFilterResult) {
	c.t.Helper()
	if time.Since(c.beat) > ledger.Silent/3 { // agents tell that they are there
		c.beat = time.Now()
		for _, name := range c.nodes {
			if !c.books.Knows(name) {
				continue
			}
			if _, err := c.books.Node(objects.Node(name), false); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	args := &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &c.nodes}
	filtered := ask[extenderv1.ExtenderFilterResult](c, "filter", args)
	if filtered.Error != "" || len(*filtered.NodeNames) == 0 {
		return "", filtered
	}
	args.NodeNames = filtered.NodeNames
	scores := ask[extenderv1.HostPriorityList](c, "prioritize", args)
	best := slices.MaxFunc(scores, func(one, other extenderv1.HostPriority) int { return int(one.Score - other.Score) })
	if no := c.bind(pod, best.Host); no != "" {
		c.t.Fatalf("%s fitted on %s and was not bound: %s", pod.Name, best.Host, no)
	}
	return best.Host, filtered
}

// law: on no core of any node is more reserved than its capacity, by the plan of all that was admitted there.
func (c *cluster) law() {
	c.t.Helper()
	c.lawOf(c.nodes)
}

func (c *cluster) lawOf(nodes []string) {
	c.t.Helper()
	for _, node := range nodes {
		planned, err := c.plans.Plan(node)
		if err != nil {
			c.t.Fatalf("%s: what was admitted has no plan: %v", node, err)
		}
		cores := map[int32]float64{}
		for _, one := range planned {
			cores[one.Core] += float64(one.Server.Budget) / float64(one.Server.Period)
		}
		for core, reserved := range cores {
			if reserved > 0.93 {
				c.t.Fatalf("%s: %.3f of core %d is reserved", node, reserved, core)
			}
		}
		if on := c.books.On(node); on != len(planned) {
			c.t.Fatalf("%s: %d pods are counted, %d planned", node, on, len(planned))
		}
	}
}

const third = `{"promise": {"supply": "3ms/10ms"}}`
const whole = `{"promise": "as-if-alone", "tasks": [{"wcet": "1ms", "period": "10ms"}]}`

func TestPodsArePlacedUntilNoNodeKeepsTheirPromise(t *testing.T) {
	c := newCluster(t, 2, objects.Promise(t, "web", third))
	on := map[string]int{}
	var last extenderv1.ExtenderFilterResult
	for number := 0; ; number++ {
		node, filtered := c.place(objects.Pod("web", number))
		if node == "" {
			last = filtered
			break
		}
		on[node]++
		c.law()
	}
	if on["node-0"] != 12 || on["node-1"] != 12 { // three a core
		t.Errorf("placed: %v", on)
	}
	for _, node := range c.nodes {
		if why := last.FailedNodes[node]; !strings.HasPrefix(why, "giusto: ") {
			t.Errorf("%s: %q", node, why)
		}
	}
	event := <-c.events.Events
	if !strings.Contains(event, "DoesNotFit") || !strings.Contains(event, "it fits with") {
		t.Errorf("expected the reason and the nearest fit; the event is %s", event)
	}
	for c.own.Nowhere(objects.Pod("web", 24).UID) == "" {
		time.Sleep(time.Millisecond) // for the promise's status
	}
}

func TestWhatGoesLeavesItsRoomAndWhatIsBoundTwiceCountsOnce(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, 1, objects.Promise(t, "db", whole))
	var pods []*core.Pod
	for number := range 4 {
		pod := objects.Pod("db", number)
		if node, filtered := c.place(pod); node == "" {
			t.Fatal(filtered)
		}
		pods = append(pods, pod)
	}
	waits := objects.Pod("db", 4)
	if node, _ := c.place(waits); node != "" {
		t.Fatal("five whole cores of four")
	}
	// The API server tells of a pod before and after its binding; then it is asked again where it already is.
	for _, bound := range []string{"", "node-0"} {
		pods[0].Spec.NodeName = bound
		if err := c.books.Pod(ctx, pods[0], false); err != nil {
			t.Fatal(err)
		}
	}
	args := &extenderv1.ExtenderArgs{Pod: pods[0], NodeNames: &c.nodes}
	if again := ask[extenderv1.ExtenderFilterResult](c, "filter", args); len(*again.NodeNames) != 1 {
		t.Errorf("a pod does not fit beside itself: %v", again.FailedNodes)
	}
	pods[1].Spec.NodeName, pods[1].Status.Phase = "node-0", core.PodSucceeded
	if err := c.books.Pod(ctx, pods[1], false); err != nil {
		t.Fatal(err)
	}
	if node, _ := c.again(waits); node == "" {
		t.Error("a finished pod still has its core")
	}
	c.law()
}

// Between filter and bind another pod may have come, and the API server may refuse.
func TestBindingIsTheAdmission(t *testing.T) {
	c := newCluster(t, 1, objects.Promise(t, "db", whole))
	for number := range 3 {
		c.place(objects.Pod("db", number))
	}
	var late []*core.Pod
	for number := 3; number < 6; number++ {
		late = append(late, objects.Pod("db", number))
		c.create(late[number-3])
		args := &extenderv1.ExtenderArgs{Pod: late[number-3], NodeNames: &c.nodes}
		if fits := ask[extenderv1.ExtenderFilterResult](c, "filter", args); len(*fits.NodeNames) != 1 {
			t.Fatal("one core is left, and no pod is bound there")
		}
	}
	c.refuse = true
	if no := c.bind(late[0], "node-0"); !strings.Contains(no, "conflict") || c.books.On("node-0") != 3 {
		t.Errorf("%d pods count; the API server refused: %q", c.books.On("node-0"), no)
	}
	c.refuse = false
	if no := c.bind(late[1], "node-0"); no != "" {
		t.Error(no)
	}
	if no := c.bind(late[2], "node-0"); !strings.Contains(no, "does not fit") {
		t.Errorf("the fifth whole core of four: %q", no)
	}
	c.law()
}

func TestWithoutAPromiseOrAnAgentAndWithTwoPromises(t *testing.T) {
	other := objects.Promise(t, "other", third)
	other.Spec.Selector.MatchLabels = map[string]string{"app": "both"}
	bad := objects.Promise(t, "bad", `{"promise": "always"}`)
	c := newCluster(t, 1, objects.Promise(t, "both", third), other, bad)
	if node, _ := c.place(objects.Pod("plain", 0)); node == "" || c.books.On("node-0") != 0 {
		t.Error("a pod without a promise passes and counts for nothing")
	}
	for name, expected := range map[string]string{
		"both": "promises 'both' and 'other' both select this pod", "bad": "always",
	} {
		_, filtered := c.place(objects.Pod(name, 0))
		if why := filtered.FailedAndUnresolvableNodes["node-0"]; !strings.Contains(why, expected) {
			t.Errorf("%s: expected %q; it said %q", name, expected, why)
		}
	}
	c.nodes = []string{"strange"}
	c.create(objects.Promise(t, "web", third))
	_, filtered := c.place(objects.Pod("web", 0))
	if why := filtered.FailedAndUnresolvableNodes["strange"]; !strings.Contains(why, "agent") {
		t.Errorf("a node without an agent: %q", why)
	}
}

func TestAPlannerThatDiesIsStartedAndToldAgain(t *testing.T) {
	c := newCluster(t, 1, objects.Promise(t, "db", whole))
	for number := range 4 {
		c.place(objects.Pod("db", number))
		process, err := os.FindProcess(c.plans.Pid())
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if node, _ := c.place(objects.Pod("db", 4)); node != "" {
		t.Error("what was admitted before its death is forgotten")
	}
	c.law()
}

// What a scheduler of a large cluster asks: 1,000 nodes and 10,000 pods with twenty promises (GIUSTO_SOAK), then nodes that fail
// and come back, their pods placed anew. What it takes is printed, and no time is asserted.
func TestAtScale(t *testing.T) {
	nodes, pods, rounds := 40, 250, 8
	if os.Getenv("GIUSTO_SOAK") != "" {
		nodes, pods, rounds = 1000, 10_000, 100
	}
	seed, err := strconv.ParseUint(os.Getenv("GIUSTO_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("GIUSTO_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var all []client.Object
	for number := range 20 {
		keys := fmt.Sprintf(`{"promise": {"supply": "%dms/%dms"}}`, 1+number%4, 12+number)
		switch number % 5 {
		case 3:
			keys = fmt.Sprintf(`{"promise": "every-deadline", "tasks": [{"wcet": "1ms", "period": "%dms"}]}`,
				15+number)
		case 4:
			keys = fmt.Sprintf(`{"promise": {"p99": "%dms"}, "arrivals": {"poisson": "10/s"}, "execution": "2ms"}`,
				60+number)
		}
		all = append(all, objects.Promise(t, fmt.Sprintf("p%d", number), keys))
	}
	c := newCluster(t, nodes, all...)
	placed := map[*core.Pod]string{}
	begin, waiting := time.Now(), 0
	for number := range pods {
		pod := objects.Pod(fmt.Sprintf("p%d", random.IntN(len(all))), number)
		if node, _ := c.place(pod); node != "" {
			placed[pod] = node
		} else {
			waiting++
		}
	}
	took := time.Since(begin)
	slices.Sort(c.took)
	at := func(part float64) time.Duration { return c.took[int(part*float64(len(c.took)-1))] }
	t.Logf("SCALE: %d nodes, %d pods: %d placed, %d wait; %.0f placements/s; "+
		"a filter call p50 %v, p99 %v, at most %v; planner %d MB",
		nodes, pods, len(placed), waiting, float64(pods)/took.Seconds(), at(.5), at(.99), at(1), memory(t, c.plans.Pid()))
	// A plan with all its proofs takes long; so of some nodes.
	some := func() []string {
		var names []string
		for range 10 {
			names = append(names, c.nodes[random.IntN(len(c.nodes))])
		}
		return names
	}
	c.lawOf(some())
	var touched []string
	for range rounds {
		name := c.nodes[random.IntN(len(c.nodes))]
		gone := objects.Node(name)
		if len(touched) < 20 {
			touched = append(touched, name)
		}
		if _, err := c.books.Node(gone, true); err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 { // it comes back empty; else as it is, and its pods are counted again
			for pod, on := range placed {
				if on != name {
					continue
				}
				delete(placed, pod)
				if err := c.books.Pod(context.Background(), pod, true); err != nil {
					t.Fatal(err)
				}
				if err := c.client.Delete(context.Background(), pod); err != nil {
					t.Fatal(err)
				}
				fresh := objects.Pod(pod.Labels["app"], random.IntN(1<<40))
				if node, _ := c.place(fresh); node != "" {
					placed[fresh] = node
				}
			}
		}
		if _, err := c.books.Node(objects.Node(name), false); err != nil {
			t.Fatal(err)
		}
		for pod, on := range placed {
			if on == name {
				pod.Spec.NodeName = name
				if err := c.books.Pod(context.Background(), pod, false); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c.lawOf(append(some(), touched...))
}

// memory is what a process has in memory, in MB.
func memory(t *testing.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}
