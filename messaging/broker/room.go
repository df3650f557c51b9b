// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"os"
	"syscall"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"golang.org/x/sys/unix"
)

// nsqd's disk queue writes a record that finds the disk full in part, and its reader may have read that part ahead:
// what is written there later is then lost, with all that the file has behind it. So nothing is given to a disk queue
// that there may be no room for.
const (
	// spare is what must be free besides: the queues' own records, and the end of a block.
	spare = 64 << 10
	// plenty is so much that it lasts for `briefly`, however fast others write.
	plenty  = 64 << 20
	briefly = 10 * time.Millisecond
)

// room says why messages of so many bytes must not be written now; nil: there is room. The caller says when they are (wrote).
func (b *Broker) room(bytes int64) error {
	waiting := b.writing.Add(bytes)
	now := b.clock.At(time.Now())
	if now < b.roomy.Load() && waiting < plenty/2 {
		return nil
	}
	var disk unix.Statfs_t
	data := b.settings.Load().Data
	if unix.Statfs(data, &disk) != nil {
		return nil // nsqd will say what is wrong
	}
	free := int64(disk.Bavail) * disk.Bsize
	if free > plenty {
		b.roomy.Store(now + uint64(briefly))
	}
	if free < spare+waiting {
		return &os.PathError{Op: "write", Path: data, Err: syscall.ENOSPC}
	}
	return nil
}

func (b *Broker) wrote(bytes int64) { b.writing.Add(-bytes) }

// hand gives messages to nsqd's topic, unless they would go to a disk that is full.
func (b *Broker) hand(topic *nsqd.Topic, messages ...*nsqd.Message) error {
	most := b.engine.options.MemQueueSize
	if most == 0 || topic.Depth()+int64(len(messages)) > most {
		bytes := int64(0)
		for _, m := range messages {
			bytes += int64(len(m.Body)) + 64
		}
		defer b.wrote(bytes)
		if err := b.room(bytes); err != nil {
			b.engine.SetHealth(err)
			return err
		}
	}
	if len(messages) == 1 {
		return topic.PutMessage(messages[0])
	}
	return topic.PutMessages(messages)
}

// store writes a message to nsqd's disk queue, if there is room. With the channel's lock held or not.
func (c *channel) store(data []byte) error {
	bytes := int64(len(data)) + 64
	defer c.broker.wrote(bytes)
	if err := c.broker.room(bytes); err != nil {
		return err
	}
	return c.inner.Put(data)
}
