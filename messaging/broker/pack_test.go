// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
)

// Clients that ask for compression have it, with TLS and without, in both directions: all comes as it was sent,
// small and large, alone and in
// batches, under a limit at publishing, at delivery and without.
func TestCompressedConnections(t *testing.T) {
	b := start(t,
		"tls: {"+certificate(t)+"}\ntopics: {p: {rate: 100k/s, depth: 1000, limit: publishing}, "+
			"d: {rate: 100k/s, depth: 1000, limit: delivery}}")
	defer b.Stop()
	for _, secured := range []bool{false, true} {
		for _, way := range []string{"snappy", "deflate"} {
			config := nsq.NewConfig()
			config.Snappy, config.Deflate, config.DeflateLevel = way == "snappy", way == "deflate", 3
			if config.TlsV1 = secured; secured {
				config.TlsConfig = &tls.Config{InsecureSkipVerify: true}
			}
			p := producer(t, b.Addr().String(), config)
			for _, topic := range []string{"p", "d", "n"} {
				topic, name := topic, fmt.Sprintf("%s, TLS %v, %s", way, secured, topic)
				config := *config
				config.MaxInFlight = 200
				c, got := consume(t, b.Addr().String(), topic, &config)
				sent := map[string]bool{}
				add := func(body string) []byte {
					sent[body] = true
					return []byte(body)
				}
				for n := range 50 {
					if err := p.Publish(topic, add(fmt.Sprint(name, n))); err != nil {
						t.Fatal(name, err)
					}
				}
				var batch [][]byte
				for n := range 200 {
					batch = append(batch, add(fmt.Sprint(name, "batch", n, strings.Repeat("x", n*10))))
				}
				if err := p.MultiPublish(topic, batch); err != nil {
					t.Fatal(name, err)
				}
				if err := p.Publish(topic, add(name+strings.Repeat("large", 150_000))); err != nil {
					t.Fatal(name, err)
				}
				for range 251 {
					select {
					case r := <-got:
						if !sent[r.body] {
							t.Fatalf("%s: %.40q came, which was not sent, or twice", name, r.body)
						}
						delete(sent, r.body)
					case <-time.After(10 * time.Second):
						t.Fatalf("%s: %d did not come", name, len(sent))
					}
				}
				c.Stop()
				<-c.StopChan
			}
			p.Stop()
		}
	}
}

// What is no compressed stream ends its connection, and nothing else.
func TestNonsenseInACompressedConnection(t *testing.T) {
	b := start(t, "")
	defer b.Stop()
	for _, way := range []string{`"snappy":true`, `"deflate":true`} {
		for _, bytes := range []string{"PUB t\n" + sized("x"), strings.Repeat("\xff", 70_000), strings.Repeat("\x00", 70_000), "\xff\x06\x00\x00sNaPpY\xff\xff\xff\xff"} {
			text := said(t, b.Addr().String(), []string{v2 + identify(`{"feature_negotiation":true,`+way+`}`), bytes}, true)
			if !strings.Contains(text, "no frame") && !strings.Contains(text, "closed") {
				t.Errorf("%s: %.80q", way, text)
			}
		}
	}
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	if err := p.Publish("t", []byte("x")); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if all, _ := b.connections(); all <= 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("connections stay")
		}
	}
}
