// SPDX-License-Identifier: Apache-2.0

// Package promises says which promise a pod has, and how its service is told to the planner. Scheduler and agent use the same
// functions, so that a node admits what the scheduler has admitted.
package promises

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	api "giusto.dev/kubernetes/api/v1alpha1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Of finds the promise of a pod among all of its namespace; nil: it has none. Errors: several select it, or a selector makes no
// sense.
func Of(pod *core.Pod, all []api.Promise) (*api.Promise, error) {
	var found *api.Promise
	for at := range all {
		one := &all[at]
		if one.Namespace != pod.Namespace || one.DeletionTimestamp != nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&one.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("promise '%s': its selector: %w", one.Name, err)
		}
		if selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if found != nil {
			names := []string{found.Name, one.Name}
			slices.Sort(names)
			return nil, fmt.Errorf("promises '%s' and '%s' both select this pod: a pod has one promise at most",
				names[0], names[1])
		}
		found = one
	}
	return found, nil
}

// Keys are the keys of a service, in one order.
func Keys(promise *api.Promise) (json.RawMessage, error) {
	text, err := json.Marshal(promise.Spec.Service)
	if err != nil {
		return nil, err
	}
	// Keys of objects in alphabetical order, also in those whose form is not known here.
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, err
	}
	return json.Marshal(keys)
}

// longest is how long a name of a service may be (formats/site.md).
const longest = 64

// Service is the name of a pod's service: of letters, digits and '-', the same wherever it is asked for, and no other pod's.
func Service(pod *core.Pod) string {
	name := []byte(pod.Name)
	for at, letter := range name {
		if letter == '.' {
			name[at] = '-'
		}
	}
	uid := "-" + string(pod.UID)
	return string(name[:min(len(name), max(1, longest-len(uid)))]) + uid
}

// Container is the container of a pod that its promise is about. Errors: it has none of that name, or several and the promise
// does not say which; or it has a limit that would not hold.
func Container(pod *core.Pod, promise *api.Promise) (string, error) {
	var names []string
	for at := range pod.Spec.Containers {
		one := &pod.Spec.Containers[at]
		if one.Name == promise.Spec.Container || promise.Spec.Container == "" && len(pod.Spec.Containers) == 1 {
			return one.Name, limited(one, &promise.Spec.Service)
		}
		names = append(names, one.Name)
	}
	if promise.Spec.Container != "" {
		return "", fmt.Errorf("it has no container '%s' that runs all the time; it has %s",
			promise.Spec.Container, strings.Join(names, ", "))
	}
	return "", fmt.Errorf("it has containers %s, and promise '%s' does not say which: name it under spec.container",
		strings.Join(names, ", "), promise.Name)
}

// limited says why a container's limits.cpu would not hold; nil: it has none, or its budget is a limit itself. Where threads have
// real-time priorities the kernel's quota does not hold them.
func limited(container *core.Container, service *api.Service) error {
	if _, is := container.Resources.Limits[core.ResourceCPU]; !is {
		return nil
	}
	switch {
	case service.Cap == "soft" || service.Criticality != "":
		return fmt.Errorf("container '%s' has limits.cpu, which would not hold it where its budget is a soft one: "+
			"leave limits.cpu out, or cap: soft and criticality", container.Name)
	case string(service.Promise.Raw) == `"leftovers"`:
		return fmt.Errorf("container '%s' has limits.cpu, which would not hold it as it has no budget: "+
			"say at-most in its promise, and leave limits.cpu out", container.Name)
	}
	return nil
}

// Finished tells whether nothing of a pod runs any more.
func Finished(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}

// Promised is what was promised, in a few words: "p99 50ms".
func Promised(promise *api.Promise) string {
	var value any
	if json.Unmarshal(promise.Spec.Service.Promise.Raw, &value) != nil {
		return string(promise.Spec.Service.Promise.Raw)
	}
	switch value := value.(type) {
	case string:
		return value
	case map[string]any:
		var words []string
		for key, of := range value {
			words = append(words, fmt.Sprintf("%s %v", key, of))
		}
		slices.Sort(words)
		return strings.Join(words, ", ")
	}
	return string(promise.Spec.Service.Promise.Raw)
}
