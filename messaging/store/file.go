// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// File keeps records in a directory of this machine. The process that holds the lock leads; the kernel takes it from a
// process that died, and from no other. A network's file system may do neither.
type File struct {
	dir    string
	closed chan struct{}
	leads  atomic.Pointer[inFile]
}

// state is what the one file says.
type state struct {
	Epoch   uint64            `json:"epoch"`
	Records map[string][]byte `json:"records"`
}

const (
	lockName  = "lock"
	stateName = "state.json"
	// How often who waits looks whether the lock is free.
	look = 50 * time.Millisecond
)

// NewFile makes the directory if need be.
func NewFile(dir string) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &File{dir: dir, closed: make(chan struct{})}, nil
}

// Lead waits for the lock.
func (f *File) Lead(ctx context.Context, address string) (Leadership, error) {
	lock, err := os.OpenFile(filepath.Join(f.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			lock.Close()
			return nil, fmt.Errorf("%s: %w", lock.Name(), err)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			lock.Close()
			return nil, ctx.Err()
		case <-f.closed:
			lock.Close()
			return nil, os.ErrClosed
		}
	}
	l := &inFile{loss: newLoss(), of: f, lock: lock}
	if err := l.begin(address); err != nil {
		lock.Close()
		return nil, err
	}
	f.leads.Store(l)
	return l, nil
}

// Leader is what the holder wrote into the lock.
func (f *File) Leader() string {
	text, _ := os.ReadFile(filepath.Join(f.dir, lockName))
	return strings.TrimSpace(string(text))
}

// Close resigns.
func (f *File) Close() error {
	close(f.closed)
	if l := f.leads.Load(); l != nil {
		l.Resign()
	}
	return nil
}

type inFile struct {
	loss
	of   *File
	lock *os.File

	mutex sync.Mutex
	state state
}

// begin raises the epoch, on disk, before it becomes visible.
func (l *inFile) begin(address string) error {
	path := filepath.Join(l.of.dir, stateName)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		l.state = state{first(), map[string][]byte{}}
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, &l.state); err != nil {
			return fmt.Errorf("%s: %w: it was not written by a distributor; put back a copy, or remove it to begin anew, but not before all brokers' leases have run out (lease, 120s): none knows any more what they hold", path, err)
		}
	}
	if err := l.write(state{l.state.Epoch + 1, l.state.Records}); err != nil {
		return err
	}
	// The address is a hint for redirects; a full disk does not end a leadership for it.
	if l.lock.Truncate(0) == nil {
		l.lock.WriteAt([]byte(address), 0)
	}
	return nil
}

// write puts a state in place of the one before, whole, and on disk when it returns.
func (l *inFile) write(s state) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(l.of.dir, stateName)
	if err := replace(path, text); err != nil {
		return err
	}
	l.state = s
	return nil
}

func replace(path string, text []byte) error {
	next := path + ".next"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next) // what is there of it would keep a full disk full
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func (l *inFile) Epoch() uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.state.Epoch
}

func (l *inFile) Until() time.Duration { return until(&l.loss) }

func (l *inFile) Load(context.Context) ([]Record, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.gone() {
		return nil, ErrFenced
	}
	return sorted(l.state.Records), nil
}

func (l *inFile) Save(_ context.Context, records ...Record) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.gone() {
		return ErrFenced
	}
	changed, err := with(l.state.Records, records)
	if err != nil {
		return err
	}
	return l.write(state{l.state.Epoch, changed})
}

func (l *inFile) Resign() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.gone() {
		l.lose()
		l.lock.Truncate(0)
		l.lock.Close() // and with it the lock
	}
}
