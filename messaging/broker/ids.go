// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// ids gives messages their ids, in nsqd's form: when (units of 2^20 ns since 2012), the node, and a number. nsqd's own
// generator waits while the wall clock is behind that of its last id, and all who publish with it: for an hour when the
// clock was put back by one. Here no id is below the last one, whatever the clock says.
type ids struct {
	node uint64
	last atomic.Uint64 // when, and the number
}

// Of nsqd's ids.
const (
	idEpoch   = 1288834974288
	idNumbers = 12 // bits
	idNodes   = 10 // bits
)

func (i *ids) next() (id nsqd.MessageID) {
	clock := uint64(max(0, time.Now().UnixNano()>>20-idEpoch)) << idNumbers
	for {
		last := i.last.Load()
		next := max(last+1, clock)
		if !i.last.CompareAndSwap(last, next) {
			continue
		}
		var bytes [8]byte
		when, number := next>>idNumbers, next&(1<<idNumbers-1)
		binary.BigEndian.PutUint64(bytes[:], when<<(idNumbers+idNodes)|i.node<<idNumbers|number)
		hex.Encode(id[:], bytes[:])
		return id
	}
}
