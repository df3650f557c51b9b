// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"giusto.dev/messaging/fleet"
)

// grant is a request that was granted: at some instant between its question and its answer.
type grant struct{ asked, told time.Duration }

// record of what was granted, by any client.
type record struct {
	mutex  sync.Mutex
	began  time.Time
	grants []grant
	by     map[string]int
	quiet  atomic.Bool // no client asks, so that buckets fill
}

func (r *record) took(by string, asked, told time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.grants = append(r.grants, grant{asked.Sub(r.began), told.Sub(r.began)})
	r.by[by]++
}

// broken tells the worst window that had more than depth + rate·t. Of what was asked for and told within a window
// all was granted in it.
func (r *record) broken(rate, depth float64) (most float64, window time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	most = -depth
	byEnd := slices.Clone(r.grants)
	slices.SortFunc(byEnd, func(a, b grant) int { return int(a.told - b.told) })
	for _, first := range byEnd {
		count := 0
		for _, g := range byEnd {
			if g.asked < first.asked {
				continue
			}
			count++
			if over := float64(count) - depth - rate*(g.told-first.asked).Seconds(); over > most {
				most, window = over, g.told-first.asked
			}
		}
	}
	return most, window
}

// since is how many were granted of late.
func (r *record) since(at time.Time) (count int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, g := range r.grants {
		if g.asked > at.Sub(r.began) {
			count++
		}
	}
	return count
}

// envoys asks as Envoy does, again and again.
func envoys(ctx context.Context, r *record, at string) {
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	client := envoy.NewRateLimitServiceClient(conn)
	request := &envoy.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "generic_key", Value: "orders"}}},
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "generic_key", Value: "unknown"}}},
	}}
	for ctx.Err() == nil {
		if r.quiet.Load() {
			time.Sleep(time.Millisecond)
			continue
		}
		asked := time.Now()
		answer, err := client.ShouldRateLimit(ctx, request)
		switch {
		case err != nil:
			time.Sleep(10 * time.Millisecond)
		case answer.OverallCode == envoy.RateLimitResponse_OK:
			r.took("grpc", asked, time.Now())
		default:
			time.Sleep(time.Millisecond)
		}
	}
}

// callers ask over HTTP, and wait there for a token.
func callers(ctx context.Context, r *record, at string) {
	client := &http.Client{Timeout: 2 * time.Second}
	for ctx.Err() == nil {
		if r.quiet.Load() {
			time.Sleep(time.Millisecond)
			continue
		}
		asked := time.Now()
		request, _ := http.NewRequestWithContext(ctx, "GET", "http://"+at+"/take?bucket=orders&wait=100ms", nil)
		answer, err := client.Do(request)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			r.took("http", asked, time.Now())
		} else {
			time.Sleep(time.Millisecond)
		}
	}
}

// sidecars are processes below one distributor.
type sidecars struct {
	*fleet.Fleet
	processes  []*fleet.Process
	grpc, http []string
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func start(t *testing.T, count int) *sidecars {
	t.Helper()
	directory := t.TempDir()
	programs, err := fleet.Build(directory, "giusto.dev/messaging/cmd/giusto-limit", "giusto.dev/messaging/cmd/giusto-distributor")
	if err != nil {
		t.Fatal(err)
	}
	s := &sidecars{}
	if s.Fleet, err = fleet.New(programs, directory, 0, 1, "", "store: memory\nlease: 3s\n"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.End)
	if err := s.Ask("PUT", "/topics/orders", `{"limit": "requests", "rate": "200/s", "depth": "20"}`, nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	for n := range count {
		s.grpc, s.http = append(s.grpc, free(t)), append(s.http, free(t))
		file := filepath.Join(directory, fmt.Sprintf("limit-%d.yaml", n))
		text := fmt.Sprintf("grpc: %s\nhttp: %s\nname: l%d\ndata: %s\ndistributor: [%s]\ndomains: {edge: [{when: {generic_key: orders}, bucket: orders}]}\n",
			s.grpc[n], s.http[n], n, filepath.Join(directory, fmt.Sprint("l", n)), strings.Join(s.Addresses, ", "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := fleet.Launch(func(string) {}, programs.Path("giusto-limit"), file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		s.processes = append(s.processes, p)
	}
	return s
}

// Two limiters, one asked over gRPC by Envoy's protocol and one over HTTP, grant together what one bucket allows,
// whichever is asked, when one is
// killed, stopped for longer than its lease, and ended in order. And they grant again.
func TestTwoLimitersKeepOneLimit(t *testing.T) {
	s := start(t, 2)
	r := &record{began: time.Now(), by: map[string]int{}}
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	ask := func(how func(context.Context, *record, string), at string) {
		for range 4 {
			all.Add(1)
			go func() { defer all.Done(); how(ctx, r, at) }()
		}
	}
	ask(envoys, s.grpc[0])
	ask(callers, s.http[1])
	flows := func(what string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if from := time.Now(); true {
				time.Sleep(500 * time.Millisecond)
				if r.since(from) > 50 { // half of what there is
					return
				}
			}
			if time.Now().After(end) {
				t.Fatalf("%s: nothing much is granted", what)
			}
		}
	}
	flows("at the beginning")
	fill := func() {
		r.quiet.Store(true)
		time.Sleep(400 * time.Millisecond)
	}
	fill()
	r.quiet.Store(false)
	time.Sleep(time.Second)
	fill()
	s.processes[0].Kill()
	r.quiet.Store(false)
	time.Sleep(500 * time.Millisecond)
	s.processes[0].Start()
	flows("after a kill")
	fill()
	s.processes[1].Signal(syscall.SIGSTOP)
	r.quiet.Store(false)
	time.Sleep(4500 * time.Millisecond) // beyond its lease: the other has it all
	flows("with one that is stopped")
	fill()
	s.processes[1].Signal(syscall.SIGCONT)
	r.quiet.Store(false)
	time.Sleep(time.Second)
	s.processes[1].End()
	flows("with one that has ended")
	s.processes[1].Start()
	flows("with both")
	ask(callers, s.http[0]) // more is asked of the first
	time.Sleep(2 * time.Second)
	end()
	all.Wait()
	over, window := r.broken(200, 20)
	fmt.Printf("limit: %d granted, %v; the worst window of %v has %.2f tokens more than the limit\n", len(r.grants), r.by, window.Round(time.Millisecond), over)
	if over > 1e-6 {
		t.Errorf("a window of %v has %.2f more than depth + rate·t", window, over)
	}
	if r.by["grpc"] < 200 || r.by["http"] < 200 {
		t.Error("one of both was hardly asked")
	}
}
