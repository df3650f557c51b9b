// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	owner = client.FieldOwner("giusto-agent")
	// heartbeat is how often the status is written where nothing of it changed.
	heartbeat = 10 * time.Second
	// numbers is how often it is written where only response times changed.
	numbers = 3 * time.Second
	// reach is how long writing may take.
	reach = 5 * time.Second
)

// told is what was written last.
type told struct {
	at time.Time
	// what matters at once, and all of it.
	facts, all []byte
	since      map[bool]metav1.Time
}

// tell writes the status, where there is something to tell. failed: what could not be put in force.
func (a *Agent) tell(ctx context.Context, failed error) error {
	pods := make([]api.PodStatus, 0, len(a.services))
	for _, own := range a.services {
		pods = append(pods, a.pod(own, failed))
	}
	slices.SortFunc(pods, func(one, other api.PodStatus) int {
		return cmp.Or(cmp.Compare(one.Namespace, other.Namespace), cmp.Compare(one.Name, other.Name),
			cmp.Compare(one.UID, other.UID))
	})
	status := api.GiustoNodeStatus{
		Cores: a.Cores, KeepFree: api.Share(a.KeepFree), Facts: &apiextensions.JSON{Raw: a.facts},
		Thousandths: a.thousandths, State: "idle", Pods: pods,
	}
	if a.running != nil {
		status.State = a.running.State
	}
	ready := metav1.Condition{Type: api.Ready, Status: metav1.ConditionTrue, Reason: "Ready",
		Message: "promises can be enforced here"}
	if a.wrong != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, a.wrong.reason, a.wrong.Error()
	} else if a.thousandths == 0 {
		ready.Status, ready.Reason = metav1.ConditionFalse, "NoBackend"
		ready.Message = "no backend can enforce here: giusto doctor says why"
	}
	all, err := json.Marshal(status)
	if err != nil {
		return err
	}
	without := slices.Clone(pods)
	for at := range without {
		without[at].Now, without[at].Verdict = "", ""
	}
	facts, err := json.Marshal([]any{status.State, without, ready.Status})
	if err != nil {
		return err
	}
	since := time.Since(a.told.at)
	if bytes.Equal(facts, a.told.facts) && since < numbers || bytes.Equal(all, a.told.all) && since < heartbeat {
		return nil
	}
	if a.told.since == nil {
		a.told.since = map[bool]metav1.Time{}
	}
	is := ready.Status == metav1.ConditionTrue
	if _, there := a.told.since[is]; !there {
		a.told.since = map[bool]metav1.Time{is: metav1.Now()}
	}
	ready.LastTransitionTime = a.told.since[is]
	status.Conditions, status.Heartbeat = []metav1.Condition{ready}, metav1.Now()
	// An API server that does not answer keeps nothing from being enforced.
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	if err := a.write(ctx, &status); err != nil {
		return err
	}
	a.told.at, a.told.facts, a.told.all = time.Now(), facts, all
	return nil
}

func (a *Agent) write(ctx context.Context, status *api.GiustoNodeStatus) error {
	object := map[string]any{
		"apiVersion": api.Group.String(), "kind": "GiustoNode",
		"metadata": map[string]any{"name": a.Node}, "status": status,
	}
	patch, err := json.Marshal(object)
	if err != nil {
		return err
	}
	own := &api.GiustoNode{ObjectMeta: metav1.ObjectMeta{Name: a.Node}}
	apply := client.RawPatch(types.ApplyPatchType, patch)
	err = a.Client.Status().Patch(ctx, own, apply, owner, client.ForceOwnership)
	if !apierrors.IsNotFound(err) {
		return err
	}
	own = &api.GiustoNode{ObjectMeta: metav1.ObjectMeta{Name: a.Node}}
	if err := a.Client.Create(ctx, own, owner); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return a.Client.Status().Patch(ctx, own, apply, owner, client.ForceOwnership)
}

// pod is how a pod stands.
func (a *Agent) pod(own *service, failed error) api.PodStatus {
	status := api.PodStatus{
		UID: string(own.pod.UID), Namespace: own.pod.Namespace, Name: own.pod.Name, Promise: own.promise,
		Service: own.name, Promised: own.promised,
	}
	if own.keys != nil {
		status.Admitted = &apiextensions.JSON{Raw: own.keys}
	}
	if own.refused != nil {
		status.Refused = &apiextensions.JSON{Raw: own.refused}
	}
	no := func(reason string, why error) api.PodStatus {
		status.Enforced, status.Reason, status.Message = false, reason, why.Error()
		return status
	}
	var server *ServiceStatus
	if a.running != nil {
		for at := range a.running.Services {
			if a.running.Services[at].Name == own.name {
				server = &a.running.Services[at]
			}
		}
	}
	if server != nil {
		numbersOf(server, &status)
	}
	switch {
	case own.no != nil:
		return no(own.reason, own.no)
	case server == nil && failed != nil:
		return no("Failed", failed)
	case server == nil:
		return no("Starting", fmt.Errorf("giusto run does not have it yet"))
	case a.running.State == "starting" || a.running.State == "stopping":
		return no("Starting", fmt.Errorf("giusto run is %s", a.running.State))
	case server.Threads == 0 || server.State == "awaited" || server.State == "ended":
		return no("NotRunning", fmt.Errorf("giusto run waits for its container: %s", server.State))
	}
	for _, warning := range a.running.Warnings {
		if a.running.State == "degraded" && strings.Contains(warning, own.name) {
			return no("Degraded", fmt.Errorf("%s", warning))
		}
	}
	status.Enforced, status.Reason = true, "Enforced"
	return status
}

// numbersOf tells what a server is and how its promise stands in the last minute.
func numbersOf(server *ServiceStatus, status *api.PodStatus) {
	status.Core = server.Core
	if server.Budget != nil && server.Period != nil {
		status.Budget, status.Period = time.Duration(*server.Budget).String(), time.Duration(*server.Period).String()
	}
	var words, verdicts []string
	if responses := server.Responses; responses != nil {
		for _, one := range responses.Promised {
			if len(one.Past) > 0 {
				words = append(words, percentile(one.Percentile, one.Past[0].Now))
				verdicts = append(verdicts, one.Past[0].Verdict)
			}
		}
		if len(words) == 0 && len(responses.Past) > 0 {
			words = append(words, percentile(99, responses.Past[0].P99))
		}
	}
	if supply := server.Supply; supply != nil && len(supply.Past) > 0 {
		if len(verdicts) == 0 {
			verdicts = append(verdicts, supply.Past[0].Verdict)
		}
		if len(words) == 0 || supply.Past[0].Verdict == "missed" {
			past := supply.Past[0]
			words = append(words, fmt.Sprintf("%d of %d periods missed", past.Missed, past.Periods))
		}
	}
	if server.Demand != nil && server.Demand.Drifted != nil {
		words = append(words, "asks for more than planned")
	}
	status.Now = strings.Join(words, ", ")
	status.Verdict = "cannot-tell"
	switch {
	case slices.Contains(verdicts, "missed"):
		status.Verdict = "missed"
	case len(verdicts) > 0 && !slices.Contains(verdicts, "cannot-tell"):
		status.Verdict = "kept"
	}
}

func percentile(percent float64, now *int64) string {
	value := "-"
	if now != nil {
		length, unit := time.Duration(*now), time.Duration(1)
		for length/unit >= 10_000 { // four digits
			unit *= 10
		}
		value = length.Round(unit).String()
	}
	return "p" + strconv.FormatFloat(percent, 'f', -1, 64) + " " + value
}

// manager says why kubelet's CPU manager and Giusto would give the same cores to different containers; nil: they do not.
func (a *Agent) manager() error {
	if a.Kubelet == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(a.Kubelet, "cpu_manager_state"))
	if err != nil {
		return nil // kubelet writes it whatever the policy is; without it there is no CPU manager
	}
	var state struct {
		Policy string `json:"policyName"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("kubelet's cpu_manager_state: %w", err)
	}
	if state.Policy != "static" {
		return nil
	}
	reserved, err := cores(a.Reserved)
	if err != nil {
		return err
	}
	own, err := cores(a.Cores)
	if err != nil {
		return err
	}
	for _, core := range own {
		if !slices.Contains(reserved, core) {
			return fmt.Errorf("kubelet's CPU manager is static and may give core %d to a container alone: "+
				"keep giusto's cores out with reservedSystemCPUs in kubelet's configuration, "+
				"and name these with --reserved", core)
		}
	}
	return nil
}

// cores reads "0-2,5".
func cores(text string) ([]int, error) {
	var all []int
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		first, last, is := strings.Cut(part, "-")
		if !is {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err = cmp.Or(err, err2); err != nil || from > to || to > 8191 {
			return nil, fmt.Errorf("'%s' is no list of cores; expected one such as 0-2,5", text)
		}
		for core := from; core <= to; core++ {
			all = append(all, core)
		}
	}
	return all, nil
}
