// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/nsqio/nsq/nsqd"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"giusto.dev/messaging/settings"
)

// newWeb serves HTTP: /pub and /mpub under the limits, /metrics and /info our own, the rest nsqd's.
func (b *Broker) newWeb() *http.Server {
	dialer := net.Dialer{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "nsqd"
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", b.engine.http)
			},
			MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
		},
		ModifyResponse: b.amend,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", b.administer(proxy))
	mux.HandleFunc("POST /pub", b.bounded(b.handlePub))
	mux.HandleFunc("POST /mpub", b.bounded(b.handleMpub))
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.metrics.registry(), promhttp.HandlerOpts{}))
	return &http.Server{Handler: b.secured(mux), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
}

// secured answers plain HTTP as nsqd does where TLS is required.
func (b *Broker) secured(next http.Handler) http.Handler {
	t := b.settings.Load().TLS
	if t == nil || t.Required != settings.Everywhere {
		return next
	}
	port := 0
	if at, is := b.HTTPSAddr().(*net.TCPAddr); is {
		port = at.Port
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-NSQ-Content-Type", "nsq; version=1.0")
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"message": "TLS_REQUIRED", "https_port": %d}`, port)
	})
}

// webError is nsqd's: a status and a word.
type webError struct {
	status int
	word   string
}

func (e webError) Error() string { return e.word }

func respond(w http.ResponseWriter, err error) {
	w.Header().Set("X-NSQ-Content-Type", "nsq; version=1.0")
	if err == nil {
		io.WriteString(w, "OK")
		return
	}
	failed := webError{503, "EXITING"}
	if err == errFull {
		failed = webError{429, "QUEUE_FULL"}
	} else if err != errStopping && !errors.As(err, &failed) {
		failed = webError{500, "INTERNAL_ERROR"}
	}
	text, _ := json.Marshal(struct {
		Message string `json:"message"`
	}{failed.word})
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(failed.status)
	w.Write(text)
}

// webTarget is the topic of a request, and its parameters.
func (b *Broker) webTarget(r *http.Request) (target, *nsqd.Topic, url.Values, error) {
	parameters, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return target{}, nil, nil, webError{400, "INVALID_REQUEST"}
	}
	names, given := parameters["topic"]
	if !given {
		return target{}, nil, nil, webError{400, "MISSING_ARG_TOPIC"}
	}
	if !settings.ValidName(names[0]) {
		return target{}, nil, nil, webError{400, "INVALID_TOPIC"}
	}
	if t := b.limited(names[0]); t != nil {
		return target{t, names[0]}, t.nsq.Load(), parameters, nil
	}
	return target{nil, names[0]}, b.engine.topic(names[0]), parameters, nil
}

func (b *Broker) webPublish(to target, topic *nsqd.Topic, messages []*nsqd.Message, deferral time.Duration) error {
	if b.stopping.Load() {
		return errStopping
	}
	if len(messages) == 0 {
		return nil
	}
	if err := b.spilling(to.name); err != nil {
		return err
	}
	now := time.Now()
	if to.limited == nil {
		if tally := b.tally(to.name); tally != nil {
			tally.Came(b.clock.At(now), len(messages), false, 0)
		}
		return b.unlimited(topic, messages, deferral)
	}
	return to.limited.publish(messages, deferral, arrival{now.UnixNano(), now, false}, func() error { return nil })
}

// bounded refuses what would need more memory for bodies than there is for all connections together.
func (b *Broker) bounded(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		takes := b.engine.options.MaxBodySize
		if r.ContentLength >= 0 {
			takes = min(takes, r.ContentLength)
		}
		defer b.assembling.Add(-takes)
		if b.assembling.Add(takes) > b.crowded {
			respond(w, webError{503, "TOO_MUCH_AT_ONCE"})
			return
		}
		handle(w, r)
	}
}

// handlePub does POST /pub?topic=T[&defer=MS].
func (b *Broker) handlePub(w http.ResponseWriter, r *http.Request) {
	respond(w, func() error {
		most := b.engine.options.MaxMsgSize
		body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
		switch {
		case r.ContentLength > most || int64(len(body)) > most:
			return webError{413, "MSG_TOO_BIG"}
		case err != nil:
			return webError{500, "INTERNAL_ERROR"}
		case len(body) == 0:
			return webError{400, "MSG_EMPTY"}
		}
		to, topic, parameters, err := b.webTarget(r)
		if err != nil {
			return err
		}
		deferral := time.Duration(0)
		if text, given := parameters["defer"]; given {
			ms, err := strconv.ParseInt(text[0], 10, 64)
			if deferral = time.Duration(ms) * time.Millisecond; err != nil || deferral < 0 || deferral > b.engine.options.MaxReqTimeout {
				return webError{400, "INVALID_DEFER"}
			}
		}
		return b.webPublish(to, topic, []*nsqd.Message{nsqd.NewMessage(b.ids.next(), body)}, deferral)
	}())
}

// handleMpub does POST /mpub?topic=T[&binary=true]: a message a line, or as MPUB has them.
func (b *Broker) handleMpub(w http.ResponseWriter, r *http.Request) {
	respond(w, func() error {
		o := b.engine.options
		if r.ContentLength > o.MaxBodySize {
			return webError{413, "BODY_TOO_BIG"}
		}
		to, topic, parameters, err := b.webTarget(r)
		if err != nil {
			return err
		}
		body := bufio.NewReader(io.LimitReader(r.Body, o.MaxBodySize+1))
		var messages []*nsqd.Message
		if form, given := parameters["binary"]; given && form[0] != "false" && form[0] != "0" {
			messages, err = readBatch(webBody{body}, o, &b.ids)
			if refused, yes := err.(*refusal); yes {
				return webError{413, refused.code[2:]}
			}
		} else {
			messages, err = readLines(body, o, &b.ids)
		}
		if err != nil {
			return err
		}
		return b.webPublish(to, topic, messages, 0)
	}())
}

// readLines reads messages, one a line; empty lines are none.
func readLines(body *bufio.Reader, o *nsqd.Options, ids *ids) ([]*nsqd.Message, error) {
	var messages []*nsqd.Message
	total := int64(0)
	for {
		line, err := body.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, webError{500, "INTERNAL_ERROR"}
		}
		if total += int64(len(line)); total > o.MaxBodySize {
			return nil, webError{413, "BODY_TOO_BIG"}
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if int64(len(line)) > o.MaxMsgSize {
			return nil, webError{413, "MSG_TOO_BIG"}
		}
		if len(line) > 0 {
			messages = append(messages, nsqd.NewMessage(ids.next(), line))
		}
		if err == io.EOF {
			return messages, nil
		}
	}
}

// webBody reads a batch from a request.
type webBody struct{ *bufio.Reader }

func (w webBody) length() (n int32, err error) {
	err = binary.Read(w.Reader, binary.BigEndian, &n)
	return n, err
}

func (w webBody) body(n int) ([]byte, error) {
	var body bytes.Buffer
	_, err := io.CopyN(&body, w.Reader, int64(n))
	return body.Bytes(), err
}
