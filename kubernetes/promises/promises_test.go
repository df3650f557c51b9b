// SPDX-License-Identifier: Apache-2.0

package promises_test

import (
	"regexp"
	"strings"
	"testing"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/promises"
	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

func TestServicesHaveNamesThatASiteFileTakes(t *testing.T) {
	form := regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_-]{0,63}$`)
	seen := map[string]bool{}
	for _, name := range []string{"a", "web-7d9f.example", strings.Repeat("x", 253)} {
		for _, uid := range []string{"0a1b2c3d-0000-4000-8000-123456789abc", "0a1b2c3d-0000-4000-8000-123456789abd"} {
			pod := objects.Pod("web", 0)
			pod.Name, pod.UID = name, types.UID(uid)
			service := promises.Service(pod)
			if !form.MatchString(service) || seen[service] {
				t.Errorf("%s", service)
			}
			seen[service] = true
		}
	}
}

func TestThePromiseOfAPodAndItsContainer(t *testing.T) {
	pod := objects.Pod("web", 0)
	pod.Spec.InitContainers = []core.Container{{Name: "init"}}
	web := objects.Promise(t, "web", `{"promise": "leftovers"}`)
	elsewhere := objects.Promise(t, "web", `{"promise": "leftovers"}`)
	elsewhere.Namespace = "other"
	all := []api.Promise{*elsewhere, *web, *objects.Promise(t, "db", `{"promise": "leftovers"}`)}
	found, err := promises.Of(pod, all)
	if err != nil || found == nil || found.Namespace != "default" || found.Name != "web" {
		t.Fatal(found, err)
	}
	for _, one := range []struct {
		asked      string
		containers []string
		name, why  string
	}{
		{"", []string{"main"}, "main", ""},
		{"", []string{"main", "sidecar"}, "", "does not say which"},
		{"sidecar", []string{"main", "sidecar"}, "sidecar", ""},
		{"init", []string{"main"}, "", "no container 'init'"},
	} {
		pod.Spec.Containers = nil
		for _, name := range one.containers {
			pod.Spec.Containers = append(pod.Spec.Containers, core.Container{Name: name})
		}
		found.Spec.Container = one.asked
		name, err := promises.Container(pod, found)
		if name != one.name || (err == nil) != (one.why == "") || err != nil && !strings.Contains(err.Error(), one.why) {
			t.Errorf("%+v: %q, %v", one, name, err)
		}
	}
}

// Where threads have real-time priorities the kernel's quota does not hold them: what nothing else would hold is refused.
func TestLimitsThatWouldNotHold(t *testing.T) {
	for _, one := range []struct{ keys, limit, why string }{
		{`{"promise": {"supply": "1ms/10ms"}}`, "cpu", ""},
		{`{"promise": {"supply": "1ms/10ms"}, "cap": "soft"}`, "memory", ""},
		{`{"promise": {"supply": "1ms/10ms"}, "cap": "soft"}`, "cpu", "limits.cpu"},
		{`{"promise": {"supply": "1ms/10ms"}, "criticality": "low"}`, "cpu", "limits.cpu"},
		{`{"promise": "leftovers"}`, "cpu", "at-most"},
		{`{"promise": "leftovers"}`, "memory", ""},
	} {
		pod := objects.Pod("web", 0)
		pod.Spec.Containers[0].Resources.Limits = core.ResourceList{core.ResourceName(one.limit): resource.MustParse("1")}
		_, err := promises.Container(pod, objects.Promise(t, "web", one.keys))
		if (err == nil) != (one.why == "") || err != nil && !strings.Contains(err.Error(), one.why) {
			t.Errorf("%+v: %v", one, err)
		}
	}
}

// The keys decide in which order services are planned: they are the same for the same promise, in whatever
// order it was written.
func TestKeysHaveOneOrder(t *testing.T) {
	one, err := promises.Keys(objects.Promise(t, "web", `{"promise": {"p99": "9ms", "p50": "1ms"},
		"execution": {"wcet": "2ms", "mean": "1ms"}, "arrivals": {"poisson": "4/s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := promises.Keys(objects.Promise(t, "web", `{"arrivals": {"poisson": "4/s"},
		"execution": {"mean": "1ms", "wcet": "2ms"}, "promise": {"p50": "1ms", "p99": "9ms"}}`))
	if err != nil || string(one) != string(other) {
		t.Errorf("%s\n%s %v", one, other, err)
	}
	words := promises.Promised(objects.Promise(t, "web", `{"promise": {"p99": "9ms", "p50": "1ms"}}`))
	if words != "p50 1ms, p99 9ms" {
		t.Error(words)
	}
}
