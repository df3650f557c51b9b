// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Set is the DaemonSet of the agents: when it is deleted, they leave their nodes as they were found.
type Set struct {
	name types.NamespacedName
	uid  types.UID
}

// SetOf is the DaemonSet of the pod of this name, read from the API server itself; nil: it has none, or no name is known. Errors:
// it cannot be read now, and so could not be when it is deleted.
func SetOf(ctx context.Context, live client.Reader, namespace, pod string) (*Set, error) {
	if pod == "" {
		return nil, nil
	}
	var own core.Pod
	if err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: pod}, &own); err != nil {
		return nil, err
	}
	owner := metav1.GetControllerOf(&own)
	if owner == nil || owner.Kind != "DaemonSet" {
		return nil, nil
	}
	set := &Set{types.NamespacedName{Namespace: namespace, Name: owner.Name}, owner.UID}
	var daemons apps.DaemonSet
	if err := live.Get(ctx, set.name, &daemons); err != nil {
		return nil, fmt.Errorf("DaemonSet %s: agents have to read it to know when they are taken away: %w", set.name, err)
	}
	return set, nil
}

// Gone tells whether it is deleted, or all that was installed with it: what lets an agent read it goes, too. Errors: it is not
// known.
func (s *Set) Gone(ctx context.Context, live client.Reader) (bool, error) {
	if s == nil {
		return false, nil
	}
	var daemons apps.DaemonSet
	err := live.Get(ctx, s.name, &daemons)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("DaemonSet %s: %w; what is in force stays", s.name, err)
	}
	return daemons.UID != s.uid || daemons.DeletionTimestamp != nil, nil
}
