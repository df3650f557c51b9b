// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of giusto.io: what pods were promised, and what nodes can keep.
//
// A Promise is written by people; its status by the controller (package controller) alone. A GiustoNode is written by the agent
// of its node alone. Manifests and copies are generated from this file: kubernetes/generate.sh.
//
// +kubebuilder:object:generate=true
// +groupName=giusto.io
package v1alpha1

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the version that this package has.
var Group = schema.GroupVersion{Group: "giusto.io", Version: "v1alpha1"}

// AddToScheme lets clients know these kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(Group, &Promise{}, &PromiseList{}, &GiustoNode{}, &GiustoNodeList{})
	metav1.AddToGroupVersion(scheme, Group)
	return nil
}

const (
	// Resource is what nodes publish of processor time for promises: thousandths of a core.
	Resource = "giusto.io/cpu"

	// Planned tells whether the promise can be planned at all: on a machine that has nothing else to do.
	Planned = "Planned"
	// Placed tells whether each of its pods has a node.
	Placed = "Placed"
	// Enforced tells whether each of its running pods has its share.
	Enforced = "Enforced"
	// Kept tells whether what was promised has been kept in the last minute, as far as it was observed.
	Kept = "Kept"
	// Ready tells whether a node's agent can enforce promises there.
	Ready = "Ready"
)

// Promise is what the pods that it selects were promised: each of them has a server of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=prom,categories=giusto
// +kubebuilder:printcolumn:name="Promised",type=string,JSONPath=`.status.promised`
// +kubebuilder:printcolumn:name="Now",type=string,JSONPath=`.status.now`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Kept",type=string,JSONPath=`.status.conditions[?(@.type=="Kept")].status`
// +kubebuilder:printcolumn:name="Milli",type=integer,JSONPath=`.status.thousandths`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Promise struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PromiseSpec `json:"spec"`
	// +optional
	Status PromiseStatus `json:"status,omitempty"`
}

// PromiseList is a list of them.
//
// +kubebuilder:object:root=true
type PromiseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Promise `json:"items"`
}

// PromiseSpec is what was promised to whom.
type PromiseSpec struct {
	// The pods of this namespace. Each pod is selected by one promise at most.
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="an empty selector would select every pod: name a label"
	Selector metav1.LabelSelector `json:"selector"`
	// Which container of the pod it is, where a pod has several; never one that runs before the others (init) or is added for
	// debugging (ephemeral).
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
	// The keys of a service as in Giusto's site file (formats/site.md).
	Service Service `json:"service"`
}

// Duration is a decimal number with its unit.
//
// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|min|h|d)$`
// +kubebuilder:validation:MaxLength=32
type Duration string

// Share of a core: 12.5% or 19/25.
//
// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)? *%$|^[0-9]+ */ *[0-9]+$`
// +kubebuilder:validation:MaxLength=32
type Share string

// Service is what a service of a site file has, but for what the pod says: where it comes from, on which host it is, its
// restarts.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tasks) && has(self.arrivals))",message="tasks or arrivals, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.copies) || has(self.threads)",message="copies need threads: worker names"
type Service struct {
	// every-deadline, as-if-alone, leftovers, {p99: 50ms} or {supply: 3ms/10ms}.
	Promise apiextensions.JSON `json:"promise"`
	// What it does again and again, for every-deadline and as-if-alone.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Tasks []Task `json:"tasks,omitempty"`
	// How requests come, for percentiles.
	// +optional
	Arrivals *Arrivals `json:"arrivals,omitempty"`
	// Processor time of a request: 8ms, or {mean: 2ms, wcet: 8ms}.
	// +optional
	Execution *apiextensions.JSON `json:"execution,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=any;rm;dm;edf
	Scheduler string `json:"scheduler,omitempty"`
	// +optional
	AtLeast Share `json:"at-least,omitempty"`
	// +optional
	AtMost Share `json:"at-most,omitempty"`
	// +optional
	Margin Share `json:"margin,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=periodic_strict;periodic_conserving;periodic_reclaiming;polling;deferrable;sporadic;constant_bandwidth
	Server string `json:"server,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=hard;soft
	Cap string `json:"cap,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=high;low
	Criticality string `json:"criticality,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Copies int32 `json:"copies,omitempty"`
	// How its workers are called; copies need it.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Threads string `json:"threads,omitempty"`
	// Where its response times come from while it runs: requests, wake-ups, supply, none or {reported: ...}.
	// +optional
	Observe *apiextensions.JSON `json:"observe,omitempty"`
}

// Task is what it does again and again.
type Task struct {
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Name   string   `json:"name,omitempty"`
	Wcet   Duration `json:"wcet"`
	Period Duration `json:"period"`
	// +optional
	Deadline Duration `json:"deadline,omitempty"`
	// +optional
	Offset Duration `json:"offset,omitempty"`
	// kept-offset: strictly periodic from the offset on; sporadic: at least a period apart.
	// +optional
	// +kubebuilder:validation:Enum=kept-offset;sporadic
	Release string `json:"release,omitempty"`
	// +optional
	WorstWcet Duration `json:"worst-wcet,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=1
	Copies int32 `json:"copies,omitempty"`
}

// Arrivals is how requests come.
type Arrivals struct {
	// At random, so many in a time: 40/s.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(/[0-9]+)? *[kM]? */ *(ns|us|µs|ms|s|min|h|d)$`
	Poisson string `json:"poisson"`
	// Requests that come at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Batch int32 `json:"batch,omitempty"`
}

// PromiseStatus is how it stands.
type PromiseStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// What was promised, in a few words.
	// +optional
	Promised string `json:"promised,omitempty"`
	// The same as it is now, of the worst of its pods.
	// +optional
	Now string `json:"now,omitempty"`
	// What each of its pods reserves where nothing else runs, in thousandths of a core: what a pod may ask for as
	// giusto.io/cpu.
	// +optional
	Thousandths int64 `json:"thousandths,omitempty"`
	// How many pods it selects, and how many of them have their share.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// +optional
	Enforced int32 `json:"enforced,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GiustoNode is a node as its agent has probed it, and what is in force there. It has the node's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=gnode,categories=giusto
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Cores",type=string,JSONPath=`.status.cores`
// +kubebuilder:printcolumn:name="Milli",type=integer,JSONPath=`.status.thousandths`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GiustoNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Status GiustoNodeStatus `json:"status,omitempty"`
}

// GiustoNodeList is a list of them.
//
// +kubebuilder:object:root=true
type GiustoNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GiustoNode `json:"items"`
}

// GiustoNodeStatus is what its agent knows.
type GiustoNodeStatus struct {
	// Which cores promises may use.
	// +optional
	Cores string `json:"cores,omitempty"`
	// The share of each of them that stays free for the kernel and Giusto.
	// +optional
	KeepFree Share `json:"keepFree,omitempty"`
	// What the planner has to know of the machine, as giusto place reads it (formats/place.md).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Facts *apiextensions.JSON `json:"facts,omitempty"`
	// What reservations may take of it, in thousandths of a core.
	// +optional
	Thousandths int64 `json:"thousandths,omitempty"`
	// Of giusto run: enforcing, degraded, or idle where nothing is in force.
	// +optional
	State string `json:"state,omitempty"`
	// When the agent wrote this last; it does so every ten seconds at least.
	// +optional
	Heartbeat metav1.Time `json:"heartbeat,omitempty"`
	// The node's pods with promises.
	// +optional
	// +listType=map
	// +listMapKey=uid
	Pods []PodStatus `json:"pods,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodStatus is how the promise of a pod stands on its node.
type PodStatus struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Promise   string `json:"promise"`
	// What the service is called in giusto status.
	// +optional
	Service string `json:"service,omitempty"`
	// Whether it has its share, and why not.
	Enforced bool `json:"enforced"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Core *int32 `json:"core,omitempty"`
	// +optional
	Budget string `json:"budget,omitempty"`
	// +optional
	Period string `json:"period,omitempty"`
	// What was promised and what is, where it is observed.
	// +optional
	Promised string `json:"promised,omitempty"`
	// +optional
	Now string `json:"now,omitempty"`
	// kept, missed or cannot-tell.
	// +optional
	Verdict string `json:"verdict,omitempty"`
	// The keys of the service that its node has admitted last: the scheduler counts these.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Admitted *apiextensions.JSON `json:"admitted,omitempty"`
	// Those that its promise has now, where the node has no room for them: it keeps what was admitted before.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Refused *apiextensions.JSON `json:"refused,omitempty"`
}
