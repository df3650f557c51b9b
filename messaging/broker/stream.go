// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
)

var (
	errLongLine = errors.New("a command line of more than 16 KiB")
	errCrowded  = errors.New("too much is being read")
)

// quickly is how much of a body is allocated before any of it is here.
const quickly = 64 << 10

// stream reads commands from a connection, TLS or not, compressed or not. It holds a buffer only while that has unread bytes.
type stream struct {
	conn   *stampedConn
	tls    *tls.Conn
	packed io.Reader // what unpacks it; nil: it is not compressed
	buffer *[bufferSize]byte
	data   []byte // the unread part of buffer
	// before is called when nothing more can be had without a read.
	before func() error
	// What all connections have allocated for bodies that are not here yet, and how much that may be.
	assembling *atomic.Int64
	crowded    int64
}

// fill gets more bytes.
func (s *stream) fill() error {
	if err := s.before(); err != nil {
		return err
	}
	if len(s.data) == 0 {
		s.drop()
		if s.tls == nil && s.packed == nil {
			n, buffer, err := s.conn.fetch(nil)
			if err != nil {
				return err
			}
			s.buffer, s.data = buffer, buffer[:n]
			return nil
		}
		s.buffer = buffers.Get().(*[bufferSize]byte)
		s.data = s.buffer[:0]
	}
	held := copy(s.buffer[:], s.data)
	s.data = s.buffer[:held]
	if held == bufferSize {
		return errLongLine
	}
	n, err := s.read(s.buffer[held:])
	s.data = s.buffer[:held+n]
	return err
}

func (s *stream) read(into []byte) (int, error) {
	if s.packed != nil {
		return s.packed.Read(into)
	}
	return s.plain(into)
}

// plain reads what is not to be unpacked.
func (s *stream) plain(into []byte) (int, error) {
	if s.tls != nil {
		return s.tls.Read(into)
	}
	n, _, err := s.conn.fetch(into)
	return n, err
}

// drop gives the buffer back.
func (s *stream) drop() {
	if s.buffer != nil {
		buffers.Put(s.buffer)
		s.buffer, s.data = nil, nil
	}
}

// line is the next command line without its end (\n or \r\n), valid until the next call.
func (s *stream) line() ([]byte, error) {
	seen := 0
	for {
		if at := bytes.IndexByte(s.data[seen:], '\n'); at >= 0 {
			line := s.data[:seen+at]
			s.data = s.data[seen+at+1:]
			if last := len(line) - 1; last >= 0 && line[last] == '\r' {
				line = line[:last]
			}
			return line, nil
		}
		seen = len(s.data)
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// ready says whether a whole line is here already.
func (s *stream) ready() bool { return bytes.IndexByte(s.data, '\n') >= 0 }

// length reads a size of 4 bytes. As in nsqd it is signed.
func (s *stream) length() (int32, error) {
	for len(s.data) < 4 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := int32(binary.BigEndian.Uint32(s.data))
	s.data = s.data[4:]
	return n, nil
}

// body reads n bytes into memory of its own. That grows with what has come: a length alone takes little.
func (s *stream) body(n int) ([]byte, error) {
	body := make([]byte, min(n, quickly))
	got := copy(body, s.data)
	s.data = s.data[got:]
	counted := int64(0)
	defer func() { s.assembling.Add(-counted) }()
	for got < n {
		if got == len(body) {
			more := make([]byte, min(n, 2*len(body)))
			grown := int64(len(more)) - counted
			counted += grown
			if s.assembling.Add(grown) > s.crowded {
				return nil, errCrowded
			}
			copy(more, body)
			body = more
		}
		if err := s.before(); err != nil {
			return nil, err
		}
		read, err := s.read(body[got:])
		got += read
		if got < n && err != nil {
			return nil, err
		}
	}
	return body, nil
}
