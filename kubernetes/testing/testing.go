// SPDX-License-Identifier: Apache-2.0

// Package testing is what tests of several packages share: the planner that is built, and objects of a cluster in memory.
package testing

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/kubernetes/scheme"
)

// Facts are those of a stock machine with four cores, as formats/place.md has them.
const Facts = `{"host":null,"tick_ns":4000000,"deadline_period_max_ns":4194304000,"deadline_period_min_ns":100000,` +
	`"deadline_bandwidth_cap":"19/20","manager_cost":"1/50","period_cost_ns":45000,"loss_ns":100000,"lateness_ns":500000,` +
	`"manager":null,"latency":null,"cores":[0,1,2,3],"backends":[{"backend":"manager","available":true,"why_not":""}],` +
	`"held":[],"insist":null}`

// Giusto is the program that is built (GIUSTO, or target/release/giusto). Without it the test is skipped.
func Giusto(t testing.TB) string {
	t.Helper()
	program := os.Getenv("GIUSTO")
	if program == "" {
		target := os.Getenv("CARGO_TARGET_DIR")
		if target == "" {
			target = "../../target"
		}
		program = filepath.Join(target, "release/giusto")
	}
	// A test of the extender needs the built planner: without it nothing is tested, which is neither passed nor failed.
	// `make test` notices all the same: kubernetes/test.sh ends with 77 where giusto is not built.
	if _, err := os.Stat(program); err != nil {
		t.Skip("giusto is not built: cargo build --release, or name it in GIUSTO")
	}
	return program
}

// Planner is that of the built program.
func Planner(t testing.TB) *planner.Planner {
	t.Helper()
	plans := planner.New(Giusto(t))
	t.Cleanup(plans.Close)
	return plans
}

// Scheme is of all kinds.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgo.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// Promise selects pods with the label app: name. keys are those of its service.
func Promise(t testing.TB, name, keys string) *api.Promise {
	t.Helper()
	promise := &api.Promise{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1}}
	promise.Spec.Selector.MatchLabels = map[string]string{"app": name}
	if err := json.Unmarshal([]byte(keys), &promise.Spec.Service); err != nil {
		t.Fatal(err)
	}
	return promise
}

// Pod is one with the label app: of.
func Pod(of string, number int) *core.Pod {
	name := fmt.Sprintf("%s-%d", of, number)
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("uid-%s", name)),
			Labels: map[string]string{"app": of}},
		Spec: core.PodSpec{Containers: []core.Container{{Name: "main"}}},
	}
}

// Node is one with an agent that was heard just now.
func Node(name string) *api.GiustoNode {
	return &api.GiustoNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: api.GiustoNodeStatus{
		Cores: "0-3", KeepFree: "5%", Facts: &apiextensions.JSON{Raw: []byte(Facts)}, Heartbeat: metav1.Now(),
		Conditions: []metav1.Condition{{Type: api.Ready, Status: metav1.ConditionTrue, Reason: "Ready"}},
	}}
}
