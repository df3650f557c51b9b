// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/nsqio/nsq/nsqd"
)

// Where in nsqd's types is what adopting a channel needs.
var (
	channelBackend, _ = reflect.TypeOf(nsqd.Channel{}).FieldByName("backend")
	channelMemory, _  = reflect.TypeOf(nsqd.Channel{}).FieldByName("memoryMsgChan")
	channelExit, _    = reflect.TypeOf(nsqd.Channel{}).FieldByName("exitMutex")
	topicChannels, _  = reflect.TypeOf(nsqd.Topic{}).FieldByName("channelMap")
)

// inside says whether all of it is there, and of the types that are expected.
func inside() error {
	for _, field := range []struct {
		found reflect.StructField
		want  any
	}{
		{channelBackend, (*nsqd.BackendQueue)(nil)}, {channelMemory, (*chan *nsqd.Message)(nil)},
		{channelExit, (*sync.RWMutex)(nil)}, {topicChannels, (*map[string]*nsqd.Channel)(nil)},
	} {
		if want := reflect.TypeOf(field.want).Elem(); field.found.Type != want {
			return fmt.Errorf("this nsqd's channels have no %s where it is expected: build with nsqd 1.3.0, as go.mod says", want)
		}
	}
	return nil
}

// part is a field of a struct.
func part[T, S any](of *S, field reflect.StructField) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(of), field.Offset))
}

// adopted is what took the place of a channel's disk queue; nil: nothing did.
func (e *engine) adopted(c *nsqd.Channel) *channel {
	mine, _ := (*part[nsqd.BackendQueue](c, channelBackend)).(*channel)
	return mine
}

// replace puts ours in the place of a channel's disk queue. It has no reader yet, and writers wait.
func (e *engine) replace(c *nsqd.Channel, by *channel) {
	exit := part[sync.RWMutex](c, channelExit)
	exit.Lock()
	defer exit.Unlock()
	backend := part[nsqd.BackendQueue](c, channelBackend)
	by.inner, *backend = *backend, by
}

// alone does something with a channel's memory while no message is put there.
func (e *engine) alone(c *nsqd.Channel, do func(memory *chan *nsqd.Message)) {
	exit := part[sync.RWMutex](c, channelExit)
	exit.Lock()
	defer exit.Unlock()
	do(part[chan *nsqd.Message](c, channelMemory))
}

// channels are those that a topic has now.
func (e *engine) channels(t *nsqd.Topic) map[string]*nsqd.Channel {
	t.RLock()
	defer t.RUnlock()
	now := map[string]*nsqd.Channel{}
	for name, c := range *part[map[string]*nsqd.Channel](t, topicChannels) {
		now[name] = c
	}
	return now
}

// encode is a message as nsqd writes it to its queues.
func encode(m *nsqd.Message) []byte {
	var text bytes.Buffer
	m.WriteTo(&text) // memory takes it
	return text.Bytes()
}
