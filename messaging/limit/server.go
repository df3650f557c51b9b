// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"giusto.dev/messaging/settings"
)

// Server is a limiter that proxies ask: over gRPC as Envoy does, and over HTTP.
type Server struct {
	*Limiter
	rpc      *grpc.Server
	web      *http.Server
	at, http net.Listener
	failed   chan error
}

// longestWait of a request over HTTP.
const longestWait = time.Minute

// Serve starts one. log gets a line for what an operator should know.
func Serve(s Settings, log func(format string, words ...any)) (v *Server, err error) {
	v = &Server{rpc: grpc.NewServer(grpc.MaxRecvMsgSize(1 << 20)), failed: make(chan error, 2)}
	if v.at, err = net.Listen("tcp", s.GRPC); err != nil {
		return nil, err
	}
	if v.http, err = net.Listen("tcp", s.HTTP); err == nil {
		if v.Limiter, err = Start(s.Name, s.Data, v.http.Addr().String(), s.Distributor, log); err != nil {
			v.http.Close()
		}
	}
	if err != nil {
		v.at.Close()
		return nil, err
	}
	envoy.RegisterRateLimitServiceServer(v.rpc, &service{limiter: v.Limiter, rules: &s})
	routes := http.NewServeMux()
	routes.HandleFunc("/take", v.take)
	routes.Handle("GET /metrics", v.metrics())
	v.web = &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { v.failed <- v.rpc.Serve(v.at) }()
	go func() { v.failed <- v.web.Serve(v.http) }()
	return v, nil
}

// GRPC and HTTP are where it answers.
func (v *Server) GRPC() string { return v.at.Addr().String() }

func (v *Server) HTTP() string { return v.http.Addr().String() }

// Failed tells why it cannot go on.
func (v *Server) Failed() <-chan error { return v.failed }

// Stop ends it: its shares go to others.
func (v *Server) Stop() error {
	err := v.Limiter.Stop()
	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v.web.Shutdown(ending)
	v.web.Close()
	v.rpc.Stop()
	return err
}

// take answers /take?bucket=NAME, perhaps with hits=N and wait=TIME.
func (v *Server) take(w http.ResponseWriter, r *http.Request) {
	ask, wait := Ask{Hits: 1}, settings.Duration(0)
	say := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(body)
	}
	refuse := func(status int, err error) { say(status, map[string]string{"error": err.Error()}) }
	for key, values := range r.URL.Query() {
		var err error
		switch value := values[0]; key {
		case "bucket":
			ask.Bucket = value
		case "hits":
			ask.Hits, err = strconv.ParseUint(value, 10, 64)
		case "wait":
			if wait, err = settings.ParseDuration(value); err == nil && time.Duration(wait) > longestWait {
				err = fmt.Errorf("expected at most %v", longestWait)
			}
		default:
			err = errors.New("there is no such parameter; expected bucket, and perhaps hits and wait")
		}
		if err != nil {
			refuse(http.StatusBadRequest, fmt.Errorf("%s: %w", key, err))
			return
		}
	}
	if !settings.ValidName(ask.Bucket) {
		refuse(http.StatusBadRequest, fmt.Errorf("bucket: %q is not a bucket's name: 1 to 64 of . a-z A-Z 0-9 _ -", ask.Bucket))
		return
	}
	a, err := v.one(r.Context(), ask, time.Duration(wait))
	switch {
	case errors.Is(err, ErrLease):
		w.Header().Set("Retry-After", "1")
		refuse(http.StatusServiceUnavailable, err)
	case err != nil:
		refuse(http.StatusBadRequest, err)
	case a.Granted:
		say(http.StatusOK, told{Granted: true, Limited: a.Limited, Remaining: a.Remaining})
	default:
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, (a.Wait+time.Second-1)/time.Second))))
		say(http.StatusTooManyRequests, told{Limited: a.Limited, Remaining: a.Remaining, After: a.Wait})
	}
}

// one takes the tokens of one question, within some time.
func (v *Server) one(ctx context.Context, ask Ask, wait time.Duration) (Answer, error) {
	if wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		a, err := v.Wait(ctx, ask)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = nil // it is denied
		}
		return a, err
	}
	_, answers, err := v.Take(ask)
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// told is the body of an answer.
type told struct {
	Granted   bool          `json:"granted"`
	Limited   bool          `json:"limited"`
	Remaining uint64        `json:"remaining"`
	After     time.Duration `json:"retry_after_ns,omitempty"`
}
