// SPDX-License-Identifier: Apache-2.0

package predict

import "giusto.dev/messaging/simulate"

// Brokers that were fitted, by name: the paper's testbed, and our own on one core, to a first and to a second measured profile
// (simulate/testdata; TestBrokersAreWhatTheProfilesGive).
var Brokers = map[string]simulate.Broker{
	"testbed": simulate.Testbed,
	"first":   {Cores: 1, Message: 14_142, Wake: 5_000, Base: 25_547, Jitter: 84_853, Every: 12_500_000, Stall: 2_000_000},
	"second":  {Cores: 1, Message: 20_000, Wake: 18_340, Base: 21_022, Jitter: 110_040, Every: 11_462_551, Stall: 2_000_000},
}
