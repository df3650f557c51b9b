// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What operators and nsqadmin ask of nsqd's HTTP, where more is here than nsqd knows: what waits for tokens before it
// is released, and channels that are to be taken over.

// administer passes requests on to nsqd.
func (b *Broker) administer(nsqd http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path, name := r.URL.Path, r.URL.Query().Get("topic")
		looks := path == "/stats" || strings.HasPrefix(path, "/topic/") || strings.HasPrefix(path, "/channel/")
		if !looks {
			nsqd.ServeHTTP(w, r)
			return
		}
		if t := (*b.topics.Load())[name]; t != nil && r.Method == "POST" && (path == "/topic/empty" || path == "/topic/delete") {
			t.empty()
		}
		b.installing.RLock() // nsqd looks at its channels' queues
		nsqd.ServeHTTP(w, r)
		b.installing.RUnlock()
		if strings.HasSuffix(path, "/create") {
			if t, err := b.engine.GetExistingTopic(name); err == nil {
				b.adoptAll(t, name)
			}
		}
	}
}

// empty throws away what waits for tokens. Nothing that was taken to be released before goes to nsqd afterwards,
// unless its disk keeps it from being taken.
func (t *topic) empty() {
	t.mutex.Lock()
	t.gate.Flush(func(p pending) { t.settle(p, nil) })
	t.mutex.Unlock()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if t.handing.TryLock() {
			t.handing.Unlock()
			return
		}
	}
}

// amend changes what nsqd answers: the ports of /info are ours, since it knows only its sockets and nsqadmin connects
// where /info says; and the depths of /stats have what waits for tokens.
func (b *Broker) amend(r *http.Response) error {
	change := map[string]func(map[string]any){"/info": b.ports, "/stats": b.depths}[r.Request.URL.Path]
	if change == nil || r.StatusCode != 200 {
		return nil
	}
	text, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		var said map[string]any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err = decoder.Decode(&said); err == nil {
			change(said)
			text, err = json.Marshal(said)
		}
	default:
		text = b.textDepths(text)
	}
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

func (b *Broker) ports(info map[string]any) {
	info["tcp_port"], info["http_port"] = b.engine.options.BroadcastTCPPort, b.engine.options.BroadcastHTTPPort
}

// depths puts what waits for tokens into nsqd's own.
func (b *Broker) depths(stats map[string]any) {
	limited := *b.topics.Load()
	topics, _ := stats["topics"].([]any)
	for _, one := range topics {
		topic, _ := one.(map[string]any)
		name, _ := topic["topic_name"].(string)
		depth, is := topic["depth"].(json.Number)
		if t := limited[name]; t != nil && is {
			n, _ := depth.Int64() // nsqd's own
			topic["depth"] = n + int64(t.kept())
		}
	}
}

// textLine is the beginning of a topic's line in nsqd's text.
var textLine = regexp.MustCompile(`(?m)^(?:   |\*P )\[(\S+) *\] depth: (-?\d+) *`)

// textDepths does the same where /stats is text.
func (b *Broker) textDepths(text []byte) []byte {
	limited := *b.topics.Load()
	return textLine.ReplaceAllFunc(text, func(line []byte) []byte {
		found := textLine.FindSubmatchIndex(line)
		t := limited[string(line[found[2]:found[3]])]
		if t == nil {
			return line
		}
		depth, _ := strconv.Atoi(string(line[found[4]:found[5]]))
		return fmt.Appendf(line[:found[4]:found[4]], "%-5d ", depth+t.kept())
	})
}
