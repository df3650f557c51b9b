// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"testing"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/promises"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// away is an API server that does not answer.
var away = interceptor.Funcs{
	Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errAway
	},
}

func keys(t *testing.T, promise *api.Promise) json.RawMessage {
	t.Helper()
	keys, err := promises.Keys(promise)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
