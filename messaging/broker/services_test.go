// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/settings"
)

// certificate writes a key and a certificate for 127.0.0.1, and gives the file's `tls`.
func certificate(t testing.TB) string {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	made, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := x509.MarshalECPrivateKey(key)
	directory := t.TempDir()
	os.WriteFile(filepath.Join(directory, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600)
	os.WriteFile(filepath.Join(directory, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600)
	return fmt.Sprintf("certificate: %s/cert.pem, key: %s/key.pem", directory, directory)
}

// authServer grants the secret "good" the topic "mine"; it counts questions.
func authServer(t testing.TB) (address string, asked *[]string) {
	asked = &[]string{}
	var mutex sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		*asked = append(*asked, r.URL.RawQuery)
		if r.FormValue("secret") != "good" {
			w.WriteHeader(403)
			return
		}
		io.WriteString(w, `{"ttl":3600,"identity":"me","identity_url":"u","authorizations":[`+
			`{"permissions":["publish","subscribe"],"topic":"^mine$","channels":[".*"]}]}`)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), asked
}

// TLS and AUTH with real clients: what is allowed passes, under the limit, and nothing else does.
func TestTLSAndAuth(t *testing.T) {
	auth, asked := authServer(t)
	b := start(t, fmt.Sprintf("tls: {%s, required: true}\nauth: [%s]\ntopics: {mine: {rate: 1k/s, depth: 5, limit: publishing}}",
		certificate(t), auth))
	defer b.Stop()
	config := func(secret string) *nsq.Config {
		c := nsq.NewConfig()
		c.TlsV1, c.TlsConfig, c.AuthSecret = true, &tls.Config{InsecureSkipVerify: true}, secret
		return c
	}
	p := producer(t, b.Addr().String(), config("good"))
	defer p.Stop()
	c, got := consume(t, b.Addr().String(), "mine", config("good"))
	defer c.Stop()
	for n := range 50 {
		if err := p.Publish("mine", []byte(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		<-got
	}
	if err := p.Publish("yours", []byte("x")); err == nil || !strings.Contains(err.Error(), "E_UNAUTHORIZED") {
		t.Error("published where it may not:", err)
	}
	bad := producer(t, b.Addr().String(), config("bad"))
	defer bad.Stop()
	if err := bad.Publish("mine", []byte("x")); err == nil {
		t.Error("published with a bad secret")
	}
	if len(*asked) < 3 || !strings.Contains((*asked)[0], "remote_ip=127.0.0.1") || !strings.Contains((*asked)[0], "tls=true") {
		t.Error("asked:", *asked)
	}
	fmt.Printf("broker: TLS and AUTH: 50 messages, 2 refusals, %d questions to the auth server\n", len(*asked))
}

func post(t testing.TB, address, path, body string) string {
	t.Helper()
	var failed error
	for range 10 {
		r, err := http.Post("http://"+address+path, "text/plain", strings.NewReader(body))
		if err != nil { // it answered, and closed before it had read all
			failed = err
			continue
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return fmt.Sprintf("%d %s", r.StatusCode, text)
	}
	t.Fatal(failed)
	return ""
}

func get(t testing.TB, address, path string) string {
	t.Helper()
	r, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// HTTP publishes under the limit, answers as nsqd does, and passes the rest on.
func TestHTTP(t *testing.T) {
	n := stock(t, nil)
	b := start(t, "topics: {limited: {rate: 100/s, depth: 4, limit: publishing}}")
	defer b.Stop()
	ours, theirs := b.HTTPAddr().String(), n.RealHTTPAddr().String()
	large, same := strings.Repeat("x", 1<<20+1), 0
	for _, request := range [][2]string{
		{"/pub?topic=t", "x"}, {"/pub?topic=t", ""}, {"/pub", "x"}, {"/pub?topic=a*b", "x"}, {"/pub?topic=t", large},
		{"/pub?topic=t&defer=10", "x"}, {"/pub?topic=t&defer=x", "x"}, {"/pub?topic=t&defer=-1", "x"}, {"/pub?topic=t&defer=3600001", "x"},
		{"/mpub?topic=t", "a\nb\n\nc"}, {"/mpub?topic=t", ""}, {"/mpub?topic=t", large + "\n"}, {"/mpub", "a"}, {"/mpub?topic=t", strings.Repeat(large, 6)},
		{"/mpub?topic=t&binary=true", be(2) + sized("a") + sized("b")}, {"/mpub?topic=t&binary=true", be(0)}, {"/mpub?topic=t&binary=true", "x"},
		{"/mpub?topic=t&binary=true", be(1) + be(0xffffffff)}, {"/topic/create?topic=new", ""}, {"/channel/create?topic=new&channel=c", ""},
		{"/topic/delete?topic=none", ""}, {"/none", ""}, {"/topic/pause?topic=new", ""},
	} {
		// nsqd closes before it has read what is too large, so that a client may see a broken pipe instead of the answer.
		if len(request[1]) > 5<<20 {
			continue
		}
		if a, b := post(t, ours, request[0], request[1]), post(t, theirs, request[0], request[1]); a != b {
			t.Errorf("%s: ours %s, nsqd %s", request[0], a, b)
		}
		same++
	}
	if !strings.Contains(get(t, ours, "/info"), fmt.Sprintf(`"tcp_port":%d`, b.Addr().(*net.TCPAddr).Port)) || get(t, ours, "/ping") != "OK" {
		t.Error(get(t, ours, "/info"), get(t, ours, "/ping"))
	}
	began := time.Now()
	if got := post(t, ours, "/mpub?topic=limited", strings.Repeat("x\n", 11)); got != "200 OK" {
		t.Fatal(got)
	}
	for _, spelled := range []string{"/%70ub?topic=limited", "//pub?topic=limited", "/PUB?topic=limited"} { // however it is spelled
		if got := post(t, ours, spelled, "x"); got != "200 OK" {
			t.Error(spelled, got)
		}
	}
	c, got := consume(t, b.Addr().String(), "limited", nil)
	defer c.Stop()
	for range 14 {
		<-got
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Error("HTTP passed the limit:", took)
	}
	var stats struct {
		Topics []struct {
			Name    string `json:"topic_name"`
			Message int    `json:"message_count"`
		} `json:"topics"`
	}
	json.Unmarshal([]byte(get(t, ours, "/stats?format=json&topic=limited")), &stats)
	if len(stats.Topics) != 1 || stats.Topics[0].Message != 14 {
		t.Error(stats)
	}
	shown := get(t, ours, "/metrics")
	for _, line := range []string{
		`giusto_broker_accepted_messages_total{topic="limited"} 14`, `giusto_broker_released_messages_total{topic="limited"} 14`,
		`giusto_broker_delayed_messages_total{topic="limited"} 10`, `giusto_broker_access_seconds_count{topic="limited"} 14`,
		`giusto_broker_kept_messages{topic="limited"} 0`, `giusto_broker_connections{role="consumer"} 1`} {
		if !strings.Contains(shown, line+"\n") {
			t.Error("no metric", line, shown)
		}
	}
	fmt.Printf("broker: %d requests answered as nsqd does, 14 messages by HTTP under the limit\n", same)
}

// A reload changes topics alone; a bad file changes nothing.
func TestReload(t *testing.T) {
	b := start(t, "topics: {a: {rate: 10/s, depth: 1, limit: publishing}, gone: {rate: 1/s, depth: 1, limit: publishing}}")
	defer b.Stop()
	path := filepath.Join(t.TempDir(), "broker.yaml")
	now := *b.settings.Load()
	write := func(rest string) error {
		os.WriteFile(path, []byte(fmt.Sprintf("listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\nnode: 1\ndata: %s\n%s", now.Data, rest)), 0o600)
		return b.Reload(path)
	}
	p := producer(t, b.Addr().String(), nil)
	defer p.Stop()
	c, got := consume(t, b.Addr().String(), "gone", nil)
	defer c.Stop()
	for range 20 {
		p.Publish("gone", []byte("x"))
	}
	for _, bad := range []string{"topics: {a: {rate: 0/s, depth: 1, limit: publishing}}", "topics: {a: {rate: 1/s}}",
		"no_such_key: 1", "memory: 1GiB",
		"topics: {a: {rate: 10/s, depth: 0.5, limit: publishing}}", "topics: {'a*b': {rate: 10/s, depth: 1, limit: publishing}}",
		"topics: {a: {rate: 10/s, depth: 1, limit: publishing}, a: {rate: 1/s, depth: 1, limit: publishing}}"} {
		if err := write(bad); err == nil {
			t.Error("taken:", bad)
		}
	}
	if len(*b.topics.Load()) != 2 || len(got) > 2 {
		t.Fatal("a bad file changed something", len(got))
	}
	if err := write("topics: {a: {rate: 1k/s, depth: 50, queue: 5, limit: publishing}, " +
		"b: {rate: 1/s, depth: 1, limit: publishing}}"); err != nil {
		t.Fatal(err)
	}
	for range 20 { // what waited for the limit that is gone comes at once
		select {
		case <-got:
		case <-time.After(5 * time.Second):
			t.Fatal("it still waits")
		}
	}
	topics := *b.topics.Load()
	if topics["a"].limit != 5 || topics["b"] == nil || topics["gone"] != nil {
		t.Error("not taken over")
	}
	fmt.Println("broker: reload: 7 bad files refused, one taken over")
}

// Nothing that was acknowledged is lost at a graceful stop, though it waits in the bucket's queue, in nsqd's memory, and in flight.
func TestNothingAcknowledgedIsLostAtStop(t *testing.T) {
	for _, drain := range []string{"0s", "100ms"} {
		b := start(t, "drain: "+drain+"\ntopics: {slow: {rate: 50/s, depth: 10, limit: publishing}}")
		data := b.settings.Load().Data
		p := producer(t, b.Addr().String(), nil)
		c, got := consume(t, b.Addr().String(), "slow", nil)
		acknowledged := map[string]bool{}
		for n := range 300 {
			if err := p.Publish("slow", []byte(fmt.Sprint(n))); err != nil {
				t.Fatal(err)
			}
			acknowledged[fmt.Sprint(n)] = true
		}
		waited := (*b.topics.Load())["slow"].kept()
		began := time.Now()
		b.Stop()
		took := time.Since(began)
		c.Stop()
		<-c.StopChan
		p.Stop()
		before := len(got)
		for range before {
			delete(acknowledged, (<-got).body)
		}
		s, _ := settings.Parse([]byte(fmt.Sprintf("listen: 127.0.0.1:0\nhttp: 127.0.0.1:0\ndata: %s\nnode: 1", data)))
		again, err := Start(s, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		c, got = consume(t, again.Addr().String(), "slow", nil)
		for len(acknowledged) > 0 {
			select {
			case m := <-got:
				delete(acknowledged, m.body)
			case <-time.After(5 * time.Second):
				t.Fatalf("drain %s: lost %d", drain, len(acknowledged))
			}
		}
		c.Stop()
		again.Stop()
		if waited < 100 || before > 200 {
			t.Error("nothing waited", waited, before)
		}
		fmt.Printf("broker: stop with drain %s took %v; %d of 300 waited, %d came before, none was lost\n", drain, took.Round(time.Millisecond), waited, before)
	}
}
