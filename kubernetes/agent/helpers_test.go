// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"

	api "giusto.dev/kubernetes/api/v1alpha1"
)

func unmarshal(text string, to any) error { return json.Unmarshal([]byte(text), to) }

func podStatus(server *ServiceStatus) (status api.PodStatus) {
	numbersOf(server, &status)
	return status
}
