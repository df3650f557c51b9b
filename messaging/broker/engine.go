// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/settings"
)

// engine is the embedded nsqd. It listens on two unix sockets in a directory of ours alone: HTTP, for what we pass on, and V2,
// which no client uses, because consumers are handed over in process.
//
// What nsqd 1.3.0 does not export is reached by its name in nsqd's types: the handler of an accepted connection, a
// message's deferral, and of a channel (inside.go) its queues and the lock that is held while a message is put there.
// A nsqd without them is refused at start; go.sum pins the one that has them.
type engine struct {
	*nsqd.NSQD
	options *nsqd.Options
	handler interface{ Handle(net.Conn) }
	sockets string
	http    string
	version string
	ended   chan error
	made    func(t *nsqd.Topic, name string) // is told of topics
}

// Where a message's deferral is.
var deferral, hasDeferral = reflect.TypeOf(nsqd.Message{}).FieldByName("deferred")

// deferBy makes channels hold the message for so long.
func deferBy(m *nsqd.Message, wait time.Duration) {
	*(*time.Duration)(unsafe.Add(unsafe.Pointer(m), deferral.Offset)) = wait
}

// logger gives nsqd's lines to ours.
type logger func(format string, words ...any)

func (l logger) Output(_ int, line string) error {
	l("nsqd: %s", line)
	return nil
}

// tune changes nsqd's options; for tests.
var tune = func(*nsqd.Options) {}

// startEngine starts nsqd, which announces our public addresses.
func startEngine(s settings.Settings, tcp, http net.Addr, log logger, made func(*nsqd.Topic, string)) (*engine, error) {
	if !hasDeferral || deferral.Type != reflect.TypeOf(time.Duration(0)) {
		return nil, errors.New("this nsqd's messages have no deferral: build with nsqd 1.3.0, as go.mod says")
	}
	if err := errors.Join(inside(), timed()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Data, 0o755); err != nil {
		return nil, err
	}
	sweep()
	sockets, err := os.MkdirTemp("", fmt.Sprintf("giusto-broker-%d-", os.Getpid())) // mode 0700, and a path short enough for a socket
	if err != nil {
		return nil, err
	}
	e := &engine{sockets: sockets, http: filepath.Join(sockets, "http"), ended: make(chan error, 1), made: made}
	o := nsqd.NewOptions()
	e.options = o
	o.Logger, o.LogLevel = log, nsqd.LOG_WARN
	o.TCPAddress, o.HTTPAddress, o.HTTPSAddress = filepath.Join(sockets, "v2"), e.http, ""
	o.DataPath = s.Data
	if s.Node >= 0 {
		o.ID = s.Node
	}
	o.MaxMsgSize, o.MaxBodySize = int64(s.MaxMessage), int64(s.MaxBody)
	o.MemQueueSize, o.SyncEvery = s.MemQueue, s.SyncEvery
	o.MsgTimeout = time.Duration(s.MsgTimeout)
	o.ClientTimeout, o.MaxHeartbeatInterval = time.Duration(s.ClientTimeout), time.Duration(s.MaxHeartbeat)
	o.NSQLookupdTCPAddresses = append([]string{}, s.Lookupd...)
	tune(o)
	if err = announce(o, s, tcp, http); err == nil {
		e.NSQD, err = nsqd.New(o)
	}
	if e.NSQD == nil {
		os.RemoveAll(sockets)
		return nil, fmt.Errorf("nsqd: %w", err)
	}
	server := reflect.ValueOf(e.NSQD).Elem().FieldByName("tcpServer")
	if server.IsValid() {
		e.handler, _ = reflect.NewAt(server.Type(), server.Addr().UnsafePointer()).Elem().Interface().(interface{ Handle(net.Conn) })
	}
	if e.handler == nil {
		err = errors.New("this nsqd takes no connections in process: build with nsqd 1.3.0, as go.mod says")
	} else if err = errors.Join(mend(s.Data), e.LoadMetadata()); err == nil {
		err = e.PersistMetadata()
	}
	if err != nil {
		e.Exit()
		os.RemoveAll(sockets)
		return nil, fmt.Errorf("nsqd: %w", err)
	}
	e.version = e.GetMetadata(false).Version
	go func() { e.ended <- e.Main() }()
	return e, nil
}

// sweep removes the sockets' directories of brokers that were killed.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "giusto-broker-*-*"))
	for _, directory := range left {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(directory), "giusto-broker-%d-", &pid); err != nil || pid <= 0 {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, os.ErrNotExist) {
			os.RemoveAll(directory) // fails if another user owns it
		}
	}
}

// announce sets what nsqlookupd is told: host and ports of `announce`, else the host's name and the ports we listen on.
func announce(o *nsqd.Options, s settings.Settings, tcp, http net.Addr) error {
	o.BroadcastTCPPort, o.BroadcastHTTPPort = port(tcp), port(http)
	if s.Announce == "" {
		return nil
	}
	o.BroadcastAddress = s.Announce
	if host, number, err := net.SplitHostPort(s.Announce); err == nil {
		o.BroadcastAddress = host
		if o.BroadcastTCPPort, err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("announce: %q has no port number", s.Announce)
		}
	}
	return nil
}

func port(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// topic is nsqd's topic; it is made if need be.
func (e *engine) topic(name string) *nsqd.Topic {
	if t, err := e.GetExistingTopic(name); err == nil {
		return t
	}
	e.prepare(name)
	t := e.GetTopic(name)
	e.made(t, name) // nsqlookupd may have named channels
	return t
}

// prepare makes the record that nsqd's disk queue of this name starts from, where there is none. nsqd writes it only after two
// seconds or `sync_every` messages; killed before, it would start the file anew when it comes back, and lose what is in it.
func (e *engine) prepare(queue string) {
	if strings.HasSuffix(queue, "#ephemeral") {
		return
	}
	path := filepath.Join(e.options.DataPath, queue+".diskqueue.meta.dat")
	if _, err := os.Lstat(path); err == nil {
		return
	}
	// Whole or not at all: another connection may make the same topic now.
	file, err := os.CreateTemp(e.options.DataPath, "prepared-*.tmp")
	if err != nil {
		return // nsqd will say what is wrong
	}
	fmt.Fprint(file, "0\n0,0\n0,0\n")
	file.Close()
	os.Link(file.Name(), path)
	os.Remove(file.Name())
}

// stop writes what is in memory to disk and ends nsqd.
func (e *engine) stop() {
	e.Exit()
	<-e.ended
	os.RemoveAll(e.sockets)
}
