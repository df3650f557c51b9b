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
	"maps"
	"slices"
	"strings"
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
	// Host is the folder of a giusto run that is not this agent's (giusto.service); "": none is looked for.
	Host string

	Client  client.Client
	Planner *planner.Planner
	Giusto  *Giusto
	Cgroups Cgroups

	facts       json.RawMessage
	probed      time.Time
	changes     int // of what the planner was told
	thousandths int64
	wrong       *wrong
	services    map[types.UID]*service
	restored    bool
	memory      memory
	written     []byte // of the memory
	explained   chan explained
	explaining  bool
	running     *Status
	failed      error
	told        told
}

// wrong is why nothing can be enforced here.
type wrong struct {
	reason string
	error
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

	// What was refused, why, and after how many changes: it is asked again after the next. Full: with what would fit.
	refused json.RawMessage
	why     error
	full    bool
	after   int

	// What giusto run could not take, why, and until when it is left alone: the others do not wait for it.
	bad   placed
	cause error
	until time.Time
}

// Step looks at the pods of the node, and does what is to be done.
func (a *Agent) Step(ctx context.Context) error {
	// What has ended is told before it is mended, which takes a while.
	unknown := a.look()
	if a.services != nil {
		_ = a.tell(ctx, cmp.Or(unknown, a.failed)) // it is told again below
	}
	a.failed = a.step(ctx, unknown)
	if a.services == nil {
		return a.failed
	}
	unknown = a.look()
	a.failed = cmp.Or(a.failed, unknown)
	return errors.Join(a.failed, a.tell(ctx, a.failed))
}

// look asks giusto run how it stands. Errors: it does not say; that it does not run is none.
func (a *Agent) look() error {
	var err error
	if a.running, err = a.Giusto.Status(); errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

func (a *Agent) step(ctx context.Context, unknown error) error {
	failed := a.probe()
	if a.facts == nil {
		return failed
	}
	if !a.restored {
		if err := a.restore(); err != nil {
			return err
		}
		a.restored = true
	}
	if err := cmp.Or(a.follow(ctx), unknown); err != nil {
		return err
	}
	a.explain()
	return cmp.Or(a.enforce(ctx), failed, a.save())
}

// probe asks what this machine is, if that was some time ago.
func (a *Agent) probe() error {
	if time.Since(a.probed) < probes {
		return nil
	}
	facts, err := a.Planner.Facts(a.Giusto.Backend)
	if err != nil {
		return err
	}
	a.wrong = nil
	if err := a.manager(); err != nil {
		a.wrong = &wrong{"CPUManager", err}
	} else if err := a.another(); err != nil {
		a.wrong = &wrong{"AnotherGiusto", err}
	}
	if !bytes.Equal(facts, a.facts) {
		if a.thousandths, err = a.Planner.Node(node, a.Cores, a.KeepFree, facts); err != nil {
			return err
		}
		a.changes++
	}
	a.facts, a.probed = facts, time.Now()
	return nil
}

// another says which giusto run of the host's own enforces here: two would promise the same time twice. Nil: none.
func (a *Agent) another() error {
	if a.Host == "" {
		return nil
	}
	status, err := (&Giusto{State: a.Host}).Status()
	switch {
	case errors.Is(err, ErrNotRunning):
		return nil
	case err != nil:
		return fmt.Errorf("a giusto run of this host's own (%s) does not answer: %w", a.Host, err)
	}
	return fmt.Errorf("process %d is a giusto run of this host's own (%s), which is not touched: end it "+
		"(systemctl disable --now giusto.service), or let no agent run on this node", status.Pid, a.Host)
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
	slices.SortFunc(pods.Items, func(one, other core.Pod) int {
		return cmp.Or(one.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(one.UID, other.UID))
	})
	if a.services == nil {
		a.services = map[types.UID]*service{}
	}
	type its struct {
		promise *api.Promise
		err     error
	}
	there := map[types.UID]its{}
	for at := range pods.Items {
		pod := &pods.Items[at]
		if pod.Spec.NodeName != a.Node || promises.Finished(pod) {
			continue
		}
		promise, err := promises.Of(pod, all.Items)
		if promise == nil && err == nil {
			continue
		}
		there[pod.UID] = its{promise, err}
		if a.services[pod.UID] == nil {
			a.services[pod.UID] = a.remembered(promises.Service(pod))
		}
		a.services[pod.UID].pod = pod
	}
	// Those that went leave their room to those that came.
	maps.DeleteFunc(a.services, func(uid types.UID, _ *service) bool {
		_, is := there[uid]
		return !is
	})
	if err := a.forget(); err != nil {
		return err
	}
	for at := range pods.Items {
		if its, is := there[pods.Items[at].UID]; is {
			a.one(a.services[pods.Items[at].UID], its.promise, its.err)
		}
	}
	a.remember()
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
	a.admit(own, promise)
	id := ""
	for _, one := range own.pod.Status.ContainerStatuses {
		if one.Name == name && one.State.Running != nil {
			id = one.ContainerID
		}
	}
	switch {
	case id == "" && own.no == nil:
		own.no, own.reason = fmt.Errorf("container '%s' does not run", name), "NotRunning"
	case id != "" && own.id == "" && own.cgroup != "" && ofContainer(own.cgroup, id):
		own.id = id // remembered: under cgroup v2 its processes have left it
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

// admit asks for what the promise of a pod says, if that is not admitted yet. What it had before stays where that is refused.
func (a *Agent) admit(own *service, promise *api.Promise) {
	keys, err := promises.Keys(promise)
	switch {
	case err != nil:
	case bytes.Equal(keys, own.keys):
		own.refused = nil
	case bytes.Equal(keys, own.refused) && own.after == a.changes:
		err = own.why
	default:
		if err = a.Planner.Put(node, own.name, keys); err == nil {
			own.keys, own.refused = keys, nil
			a.changes++
			break
		}
		// The search for what would fit takes long, and the cause is the same as long as the words are.
		if !bytes.Equal(keys, own.refused) || own.why == nil || !strings.HasPrefix(own.why.Error(), err.Error()) {
			own.why, own.full = err, false
		}
		own.refused, own.after = keys, a.changes
		err = own.why
	}
	if err == nil {
		return
	}
	own.no, own.reason = err, "DoesNotFit"
	var input *planner.Input
	if errors.As(err, &input) {
		own.reason = "BadInput"
	}
	if own.keys != nil {
		own.no = fmt.Errorf("%w; what was admitted before stays in force", err)
	}
}

// explained is why a service was refused, with what would fit.
type explained struct {
	name string
	keys json.RawMessage
	why  error
}

// explain finds out what would fit in the place of what was refused, one after the other, while all else goes on.
func (a *Agent) explain() {
	if a.explained == nil {
		a.explained = make(chan explained, 1)
	}
	select {
	case found := <-a.explained:
		a.explaining = false
		for _, own := range a.services {
			if own.name == found.name && bytes.Equal(own.refused, found.keys) {
				own.full = true
				if found.why != nil {
					own.why = found.why
				}
			}
		}
	default:
	}
	for _, own := range a.services {
		var refused *planner.Refused
		if !a.explaining && own.refused != nil && !own.full && errors.As(own.why, &refused) {
			a.explaining = true
			asked := explained{name: own.name, keys: own.refused}
			go func() {
				err := a.Planner.Why(node, asked.name, asked.keys)
				if errors.As(err, &refused) {
					asked.why = refused
				}
				a.explained <- asked
			}()
		}
	}
}
