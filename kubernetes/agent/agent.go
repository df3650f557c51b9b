// SPDX-License-Identifier: Apache-2.0

// Package agent enforces promises on one node: it finds the containers of pods with promises, admits them by the planner, has
// `giusto run` enforce the plan of all of them, and tells how they stand in the status of the node's GiustoNode.
//
// What is in force stays in force: a pod that does not fit beside the others has no share, and is told so. If this process ends,
// or the API server is away, giusto run goes on.
package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	"giusto.dev/kubernetes/promises"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// node is what the planner calls the only node here.
	node = "node"
	// probes is how often the machine is probed again: others take cores, and give them back.
	probes = 30 * time.Second
)

// Agent is that of one node.
type Agent struct {
	// Node is the node's name.
	Node string
	// Cores is which cores promises may use, KeepFree the share of each that stays free.
	Cores, KeepFree string
	// Kubelet is the folder of kubelet's state; "": its CPU manager is not looked at.
	Kubelet string
	// Reserved are the cores that kubelet gives to no container (reservedSystemCPUs), where its CPU manager is static.
	Reserved string

	Client  client.Client
	Planner *planner.Planner
	Giusto  *Giusto
	Cgroups Cgroups

	facts       json.RawMessage
	probed      time.Time
	changes     int // of what the planner was told
	thousandths int64
	wrong       error // why nothing can be enforced here
	services    map[types.UID]*service
	inForce     []byte   // the site
	leaving     []string // cgroups of containers that are let go
	running     *Status
	told        told
}

// service is that of a pod.
type service struct {
	pod      *core.Pod
	promise  string
	name     string
	keys     json.RawMessage // in force, or to be; nil: none
	cgroup   string          // of the container that is adopted
	id       string          // of that container
	no       error           // why it is not in force as its promise says
	reason   string
	promised string

	// What was refused, why, and after how many changes: it is asked again after the next.
	refused json.RawMessage
	why     error
	after   int
}

// Step looks at the pods of the node, and does what is to be done.
func (a *Agent) Step(ctx context.Context) error {
	if time.Since(a.probed) > probes {
		if err := a.probe(); err != nil {
			return err
		}
	}
	if err := a.follow(ctx); err != nil {
		return err
	}
	failed := a.enforce(ctx)
	if failed == nil {
		for _, cgroup := range a.leaving {
			failed = errors.Join(failed, a.Cgroups.Back(cgroup))
		}
		a.leaving = nil
	}
	status, err := a.Giusto.Status()
	if err != nil && !errors.Is(err, ErrNotRunning) {
		failed = cmp.Or(failed, err)
	}
	if err != nil {
		status = nil
	}
	a.running = status
	return errors.Join(failed, a.tell(ctx, failed))
}

// probe asks what this machine is.
func (a *Agent) probe() error {
	facts, err := a.Planner.Facts(a.Giusto.Backend)
	if err != nil {
		return err
	}
	a.wrong = a.manager()
	if !bytes.Equal(facts, a.facts) {
		if a.thousandths, err = a.Planner.Node(node, a.Cores, a.KeepFree, facts); err != nil {
			return err
		}
		a.changes++
	}
	if a.services == nil {
		a.services = map[types.UID]*service{}
	}
	a.facts, a.probed = facts, time.Now()
	return nil
}

// follow takes pods in that came, and those out that went.
func (a *Agent) follow(ctx context.Context) error {
	var pods core.PodList
	var all api.PromiseList
	if err := a.Client.List(ctx, &pods); err != nil {
		return err
	}
	if err := a.Client.List(ctx, &all); err != nil {
		return err
	}
	// What is in force stays so, also after a restart of the agent, when nothing is admitted yet: then the oldest first.
	waits := map[string]int{}
	if status, err := a.Giusto.Status(); err == nil {
		for _, own := range status.Services {
			waits[own.Name] = -1
		}
	}
	slices.SortFunc(pods.Items, func(one, other core.Pod) int {
		first := cmp.Compare(waits[promises.Service(&one)], waits[promises.Service(&other)])
		return cmp.Or(first, one.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(one.UID, other.UID))
	})
	there := map[types.UID]bool{}
	for at := range pods.Items {
		pod := &pods.Items[at]
		if pod.Spec.NodeName != a.Node || promises.Finished(pod) {
			continue
		}
		promise, err := promises.Of(pod, all.Items)
		if promise == nil && err == nil {
			continue
		}
		there[pod.UID] = true
		if a.services[pod.UID] == nil {
			a.services[pod.UID] = &service{name: promises.Service(pod)}
		}
		a.services[pod.UID].pod = pod
		a.one(a.services[pod.UID], promise, err)
	}
	for uid, own := range a.services {
		if !there[uid] {
			delete(a.services, uid)
			if own.cgroup != "" {
				a.leaving = append(a.leaving, own.cgroup)
			}
			if own.keys != nil {
				if err := a.Planner.Remove(node, own.name); err != nil {
					return err
				}
				a.changes++
			}
		}
	}
	return nil
}

// one admits a pod, if it is not, and finds its container. What is wrong stays with it, and is told.
func (a *Agent) one(own *service, promise *api.Promise, err error) {
	own.no, own.reason = err, "Ambiguous"
	if a.wrong != nil {
		own.no, own.reason = a.wrong, "NodeNotReady"
		return
	}
	if err != nil {
		return
	}
	own.promise, own.promised = promise.Name, promises.Promised(promise)
	name, err := promises.Container(own.pod, promise)
	if err != nil {
		own.no = err
		return
	}
	keys, err := promises.Keys(promise)
	switch {
	case err != nil || bytes.Equal(keys, own.keys):
	case bytes.Equal(keys, own.refused) && own.after == a.changes:
		err = own.why
	default:
		if err = a.Planner.Put(node, own.name, keys); err == nil {
			own.keys = keys
			a.changes++
		} else {
			own.refused, own.why, own.after = keys, err, a.changes
		}
	}
	if err != nil {
		// What it had before stays in force.
		own.no, own.reason = err, "DoesNotFit"
		var input *planner.Input
		if errors.As(err, &input) {
			own.reason = "BadInput"
		}
	}
	id := ""
	for _, one := range own.pod.Status.ContainerStatuses {
		if one.Name == name && one.State.Running != nil {
			id = one.ContainerID
		}
	}
	switch {
	case id == "" && own.no == nil:
		own.no, own.reason = fmt.Errorf("container '%s' does not run", name), "NotRunning"
	case id != "" && id != own.id:
		cgroup, err := a.Cgroups.Find(own.pod, id)
		if err != nil {
			if own.no == nil {
				own.no, own.reason = err, "NoCgroup"
			}
			return
		}
		own.cgroup, own.id = cgroup, id
	}
}

// Site is what is to be in force, in the order in which the scheduler's planner counts: that of the keys. Nil: nothing.
func (a *Agent) site() ([]byte, error) {
	var all []*service
	for _, own := range a.services {
		if own.keys != nil && own.cgroup != "" {
			all = append(all, own)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortFunc(all, func(one, other *service) int {
		return cmp.Or(bytes.Compare(one.keys, other.keys), cmp.Compare(one.name, other.name))
	})
	host := map[string]any{"cores": a.Cores}
	if a.KeepFree != "" {
		host["keep-free"] = a.KeepFree
	}
	text, err := json.Marshal(host)
	if err != nil {
		return nil, err
	}
	var site bytes.Buffer
	fmt.Fprintf(&site, "# Written by giusto's agent for Kubernetes: what it knows of the pods of node %s.\n", a.Node)
	fmt.Fprintf(&site, "{\"giusto\": 1,\n\"hosts\": {%q: %s},\n\"services\": {", node, text)
	for at, own := range all {
		var keys map[string]any
		if err := json.Unmarshal(own.keys, &keys); err != nil {
			return nil, err
		}
		keys["adopt"] = map[string]string{"cgroup": own.cgroup}
		text, err := json.Marshal(keys)
		if err != nil {
			return nil, err
		}
		separator := ",\n"
		if at == 0 {
			separator = "\n"
		}
		fmt.Fprintf(&site, "%s%q: %s", separator, own.name, text)
	}
	site.WriteString("\n}}\n")
	return site.Bytes(), nil
}

// enforce puts what follow found in force. Errors: what was in force still is.
func (a *Agent) enforce(ctx context.Context) error {
	if a.wrong != nil {
		return nil
	}
	site, err := a.site()
	if err != nil {
		return err
	}
	status, err := a.Giusto.Status()
	runs := !errors.Is(err, ErrNotRunning)
	if runs && err != nil {
		return err
	}
	if site == nil {
		a.inForce = nil
		if runs {
			slog.Info("no pod with a promise is left: giusto run ends")
			return a.Giusto.Stop(ctx)
		}
		return nil
	}
	for _, own := range a.services {
		if own.keys != nil && own.cgroup != "" {
			if err := a.Cgroups.Free(own.cgroup); err != nil {
				return fmt.Errorf("pod %s: its processes cannot leave their cpu cgroup, "+
					"which allows no real-time priority: %w", own.pod.Name, err)
			}
		}
	}
	if runs && bytes.Equal(site, a.inForce) && status.State != "stopping" {
		return nil
	}
	begin := time.Now()
	if err := a.Giusto.Enforce(ctx, site); err != nil {
		a.inForce = nil
		return err
	}
	a.inForce = site
	slog.Info("in force", "services", bytes.Count(site, []byte(`"adopt"`)), "took", time.Since(begin).Round(time.Millisecond))
	return nil
}
