// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"golang.org/x/sys/unix"
)

// When the wall clock is set, nsqd's queues of messages that are with a consumer, and of those that are deferred, are
// set with it: they are by the wall clock, and what was to be sent again in a minute would be sent in an hour, or now.

// Where in nsqd's types these are.
var (
	flightQueue, _   = reflect.TypeOf(nsqd.Channel{}).FieldByName("inFlightPQ")
	flightMutex, _   = reflect.TypeOf(nsqd.Channel{}).FieldByName("inFlightMutex")
	deferredQueue, _ = reflect.TypeOf(nsqd.Channel{}).FieldByName("deferredPQ")
	deferredMutex, _ = reflect.TypeOf(nsqd.Channel{}).FieldByName("deferredMutex")
	messageGiven, _  = reflect.TypeOf(nsqd.Message{}).FieldByName("deliveryTS")
	messageDue, _    = reflect.TypeOf(nsqd.Message{}).FieldByName("pri")
	messageIndex, _  = reflect.TypeOf(nsqd.Message{}).FieldByName("index")
)

// item is one of nsqd's pqueue, whose package is its own.
type item struct {
	Value    any
	Priority int64
	Index    int
}

// timed says whether all of it is there, and of the types that are expected.
func timed() error {
	items := reflect.TypeOf(([]*item)(nil))
	same := deferredQueue.Type != nil && deferredQueue.Type.Kind() == reflect.Slice &&
		deferredQueue.Type.Elem().Kind() == reflect.Pointer &&
		deferredQueue.Type.Elem().Elem().ConvertibleTo(items.Elem().Elem())
	if !same || flightQueue.Type == nil || !flightQueue.Type.ConvertibleTo(reflect.TypeOf([]*nsqd.Message{})) {
		return errors.New("this nsqd's channels have no queues of messages by time: build with nsqd 1.3.0, as go.mod says")
	}
	for _, field := range []struct {
		found reflect.StructField
		want  any
	}{
		{flightMutex, (*sync.Mutex)(nil)}, {deferredMutex, (*sync.Mutex)(nil)}, {messageGiven, (*time.Time)(nil)},
		{messageDue, (*int64)(nil)}, {messageIndex, (*int)(nil)},
	} {
		if want := reflect.TypeOf(field.want).Elem(); field.found.Type != want {
			return fmt.Errorf("this nsqd has no %s where it is expected: build with nsqd 1.3.0, as go.mod says", want)
		}
	}
	return nil
}

// stepped sets a channel's queues, when the clock was set by so much.
func stepped(c *nsqd.Channel, by time.Duration) {
	flights := part[sync.Mutex](c, flightMutex)
	flights.Lock()
	queue := *part[[]*nsqd.Message](c, flightQueue)
	for _, m := range queue { // exactly: some may have been given since, by the new time
		given, due := *part[time.Time](m, messageGiven), part[int64](m, messageDue)
		now := time.Now()
		*due = now.UnixNano() - int64(now.Sub(given)) + *due - given.UnixNano()
	}
	slices.SortFunc(queue, func(a, b *nsqd.Message) int {
		return cmp.Compare(*part[int64](a, messageDue), *part[int64](b, messageDue))
	})
	for n, m := range queue { // what is sorted is a heap
		*part[int](m, messageIndex) = n
	}
	flights.Unlock()
	deferred := part[sync.Mutex](c, deferredMutex)
	deferred.Lock()
	defer deferred.Unlock()
	for _, one := range *part[[]*item](c, deferredQueue) {
		one.Priority += int64(by)
	}
}

// watchClock tells all channels when the clock is set, which the kernel tells at once, until the file is closed.
func (b *Broker) watchClock() (*os.File, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	never := unix.ItimerSpec{Value: unix.Timespec{Sec: 1 << 33}} // in three hundred years
	arm := func() error {
		return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET,
			&never, nil))
	}
	if err := arm(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	began := time.Now()
	ahead := func() time.Duration {
		now := time.Now()
		return time.Duration(now.UnixNano()-began.UnixNano()) - now.Sub(began)
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	go func() {
		was := ahead()
		for {
			var count [8]byte
			if _, err := file.Read(count[:]); !errors.Is(err, unix.ECANCELED) {
				return
			}
			is := ahead()
			if by := is - was; by > time.Millisecond || by < -time.Millisecond { // less is a sleep's rounding
				b.log("the wall clock was set by %v", by.Round(time.Millisecond))
				b.everyChannel(func(c *nsqd.Channel) { stepped(c, by) })
			}
			was = is
		}
	}()
	return file, nil
}

// everyChannel of nsqd's.
func (b *Broker) everyChannel(do func(*nsqd.Channel)) {
	for _, t := range b.engine.GetMetadata(true).Topics {
		if nsq, err := b.engine.GetExistingTopic(t.Name); err == nil {
			for _, c := range b.engine.channels(nsq) {
				do(c)
			}
		}
	}
}
