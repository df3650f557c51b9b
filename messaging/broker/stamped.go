// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bufferSize is what a read takes at most, and the longest command line, as in nsqd.
const bufferSize = 16 << 10

// buffers are pooled: a connection without traffic holds none.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// stampedConn is a TCP connection that knows when the kernel got the last byte of the last read (SO_TIMESTAMPNS).
type stampedConn struct {
	*net.TCPConn
	raw syscall.RawConn
	// The last read: the kernel's stamp, ns of CLOCK_REALTIME, and when it returned, by both clocks.
	stamp   int64
	read    time.Time
	message unix.Msghdr
	vector  unix.Iovec
	control [8]uint64 // aligned as its header must be
	into    []byte    // where the read under way puts bytes; nil: into a pooled buffer
	pooled  *[bufferSize]byte
	count   int
	failed  error
	attempt func(fd uintptr) bool
}

// stampAll asks for stamps on what a listener accepts, which inherits it.
func stampAll(_, _ string, raw syscall.RawConn) (err error) {
	told := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err == nil {
		err = told
	}
	return os.NewSyscallError("SO_TIMESTAMPNS", err)
}

func newStampedConn(conn *net.TCPConn) (*stampedConn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &stampedConn{TCPConn: conn, raw: raw}
	c.attempt = c.receive
	return c, nil
}

// receive tries once; false: nothing is there yet.
func (c *stampedConn) receive(fd uintptr) bool {
	into := c.into
	if into == nil {
		c.pooled = buffers.Get().(*[bufferSize]byte)
		into = c.pooled[:]
	}
	for {
		c.vector.Base = &into[0]
		c.vector.SetLen(len(into))
		c.message = unix.Msghdr{Iov: &c.vector, Iovlen: 1, Control: (*byte)(unsafe.Pointer(&c.control))}
		c.message.SetControllen(int(unsafe.Sizeof(c.control)))
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&c.message)), 0)
		switch errno {
		case 0:
			c.count = int(n)
			return true
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			if c.into == nil {
				buffers.Put(c.pooled)
				c.pooled = nil
			}
			return false
		}
		c.count, c.failed = 0, os.NewSyscallError("recvmsg", errno)
		return true
	}
}

// fetch reads into `into`, or, if that is nil, into a pooled buffer, which is then the caller's.
func (c *stampedConn) fetch(into []byte) (int, *[bufferSize]byte, error) {
	c.into, c.failed, c.count = into, nil, 0
	err := c.raw.Read(c.attempt)
	pooled := c.pooled
	c.into, c.pooled, c.vector.Base = nil, nil, nil
	if err == nil {
		err = c.failed
	}
	if err == nil && c.count == 0 {
		err = io.EOF
	}
	if err != nil {
		if pooled != nil {
			buffers.Put(pooled)
		}
		return 0, nil, err
	}
	c.read = time.Now()
	c.stamp = c.told()
	return c.count, pooled, nil
}

// told is the kernel's stamp of the last read; when it was read, if the kernel gave none.
func (c *stampedConn) told() int64 {
	const size = int(unsafe.Sizeof(unix.Timespec{}))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&c.control))
	if !kernelStamps || int(c.message.Controllen) < unix.CmsgLen(size) || header.Level != unix.SOL_SOCKET || header.Type != unix.SCM_TIMESTAMPNS {
		return c.read.UnixNano()
	}
	return (*unix.Timespec)(unsafe.Add(unsafe.Pointer(&c.control), unix.CmsgLen(0))).Nano()
}

// Read is for TLS, which reads its records through it.
func (c *stampedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, _, err := c.fetch(p)
	return n, err
}
