// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Root is where everything is in ZooKeeper.
const Root = "/giusto/messaging"

// ZooKeeper keeps records in an ensemble:
//
//	/giusto/messaging/leader         who leads: {"epoch", "address", "id"}; written once by each leader: its version is the fence
//	/giusto/messaging/beat           {"term"}: written again and again by the leader, for as long as it means to lead
//	/giusto/messaging/FOLDER/NAME    the records; every save checks the fence in the same transaction
//
// Sessions and ephemeral znodes are not used: a server that a client talks to tells the ensemble's leader only now and then that the
// session is alive, so that its client may be sure of its session for longer than the ensemble is. A term is agreed on by clients alone, and
// all it needs is that a transaction is one, and clocks whose rates differ by less than 1 %. It may be shorter than a session, too.
type ZooKeeper struct {
	conn   *zk.Conn
	term   time.Duration
	closed atomic.Bool

	mutex   sync.Mutex
	socket  net.Conn
	dialled time.Duration

	leader atomic.Pointer[known]
	leads  atomic.Pointer[inZooKeeper]
}

// known is what a waiting process knows of the leader, and until when it may still lead.
type known struct {
	address string
	until   time.Duration
}

// Term is how long a leader that is not heard of still leads.
const Term = 2 * time.Second

// NewZooKeeper talks to any of the servers (HOST:PORT), once one can be reached. Term: 0 is the default.
func NewZooKeeper(servers []string, term time.Duration, log func(string, ...any)) (*ZooKeeper, error) {
	if term == 0 {
		term = Term
	}
	z := &ZooKeeper{term: term}
	z.leader.Store(&known{})
	var err error
	z.conn, _, err = zk.Connect(servers, 2*term, zk.WithHostProvider(&hosts{}), zk.WithDialer(z.dial), zk.WithLogInfo(false),
		zk.WithLogger(&quiet{log: log}))
	return z, err
}

// quiet says what the library says once in ten seconds: it says of every attempt that it failed.
type quiet struct {
	log  func(string, ...any)
	said sync.Map // when, by format
}

func (q *quiet) Printf(format string, values ...any) {
	if at, said := q.said.Load(format); !said || Now()-at.(time.Duration) > 10*time.Second {
		q.said.Store(format, Now())
		q.log("zookeeper: "+format, values...)
	}
}

// hosts goes around the servers without the second of sleep that the library has after each round: an ensemble recovers in a fraction of it.
type hosts struct {
	mutex   sync.Mutex
	servers []string
	next    int
	failed  int
}

func (h *hosts) Init(servers []string) error { h.servers = servers; return nil }
func (h *hosts) Len() int                    { return len(h.servers) }

func (h *hosts) Connected() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.failed = 0
}

// Next rests after each round: 10 ms, then twice as long, up to 160.
func (h *hosts) Next() (string, bool) {
	h.mutex.Lock()
	rounds := h.failed / len(h.servers)
	rest := h.failed > 0 && h.failed%len(h.servers) == 0
	h.failed++
	server := h.servers[h.next%len(h.servers)]
	h.next++
	h.mutex.Unlock()
	if rest {
		time.Sleep(10 * time.Millisecond << min(rounds-1, 4))
	}
	return server, false
}

func (z *ZooKeeper) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	socket, err := net.DialTimeout(network, address, min(timeout, z.term/4))
	z.mutex.Lock()
	z.socket, z.dialled = socket, Now()
	z.mutex.Unlock()
	return socket, err
}

// hangUp leaves a server that does not answer, for another, if it had so much time.
func (z *ZooKeeper) hangUp(after time.Duration) {
	z.mutex.Lock()
	defer z.mutex.Unlock()
	if z.socket != nil && Now()-z.dialled > after {
		z.socket.Close()
		z.dialled = Now() // once is enough
	}
}

var errAway = errors.New("no server of the ensemble answers")

// ask waits for an answer, at most as long as the context allows and a third of the term. What is not waited for may still be done.
func ask[T any](ctx context.Context, z *ZooKeeper, question func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if z.conn.State() != zk.StateHasSession { // the library would keep the question until it has
		z.hangUp(z.term) // a session is made on disk; the library would wait for it much longer
		return none, errAway
	}
	came := make(chan answer, 1)
	go func() {
		value, err := question()
		came <- answer{value, err}
	}()
	timer := time.NewTimer(z.term / 3)
	defer timer.Stop()
	select {
	case a := <-came:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-timer.C:
		z.hangUp(z.term / 3)
		return none, errAway
	}
}

type node struct {
	data    []byte
	version int32
}

func (z *ZooKeeper) get(ctx context.Context, path string) (node, error) {
	return ask(ctx, z, func() (node, error) {
		data, stat, err := z.conn.Get(path)
		if err != nil {
			return node{}, err
		}
		return node{data, stat.Version}, nil
	})
}

// multi does all or nothing. Where it failed is the number of the operation, -1: unknown, and perhaps it was done.
func (z *ZooKeeper) multi(ctx context.Context, operations ...any) (versions []int32, failed int, err error) {
	answers, err := ask(ctx, z, func() ([]zk.MultiResponse, error) { return z.conn.Multi(operations...) })
	if err != nil {
		for n, answer := range answers {
			if answer.Error != nil {
				return nil, n, answer.Error
			}
		}
		return nil, -1, err
	}
	for _, answer := range answers {
		version := int32(0)
		if answer.Stat != nil {
			version = answer.Stat.Version
		}
		versions = append(versions, version)
	}
	return versions, -1, nil
}

// make makes a znode that is not there, empty.
func (z *ZooKeeper) make(ctx context.Context, path string) error {
	_, err := ask(ctx, z, func() (string, error) { return z.conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)) })
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Close resigns and leaves the ensemble.
func (z *ZooKeeper) Close() error {
	if l := z.leads.Load(); l != nil {
		l.Resign()
	}
	z.closed.Store(true)
	z.conn.Close()
	return nil
}

// Leader is who leads, as far as who waits knows.
func (z *ZooKeeper) Leader() string {
	if l := z.leads.Load(); l != nil && Now() < l.Until() {
		return l.address
	}
	if k := z.leader.Load(); Now() < k.until {
		return k.address
	}
	return ""
}
