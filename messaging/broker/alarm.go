// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes a goroutine at a time. It is a timerfd, because Go's timers are late by up to a millisecond where nothing else
// wakes the process: it then sleeps in whole milliseconds.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timerfd"), fd}, nil
}

// set makes wait return after so long, and not at a time set before.
func (a *alarm) set(after time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(a.fd, 0, &spec, nil))
}

// wait returns when the time has come; an error: closed.
func (a *alarm) wait() error {
	var count [8]byte
	_, err := a.file.Read(count[:])
	return err
}

// close makes wait return. The caller sees to it that set is not called again.
func (a *alarm) close() { a.file.Close() }
