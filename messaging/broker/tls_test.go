// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
	"github.com/nsqio/nsq/nsqd"
)

// authority signs certificates of clients, and is in a file.
type authority struct {
	path string
	form *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a := authority{filepath.Join(t.TempDir(), "ca.pem"), &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}, key}
	made, err := x509.CreateCertificate(rand.Reader, a.form, a.form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(a.path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600)
	return a
}

// sign makes a client's certificate.
func (a authority) sign(t *testing.T, name string) tls.Certificate {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	form := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	made, err := x509.CreateCertificate(rand.Reader, form, a.form, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}
}

// Who may publish by which certificate, over V2, HTTP and HTTPS, is as with nsqd of the same policy; and an auth
// server is told the
// certificate's name.
func TestClientsCertificatesAreAskedForAsByNsqd(t *testing.T) {
	pair, known, other := certificate(t), newAuthority(t), newAuthority(t)
	paths := strings.Fields(strings.NewReplacer(",", "", "certificate:", "", "key:", "").Replace(pair))
	good := known.sign(t, "sensor-17")
	clients := map[string][]tls.Certificate{"none": nil, "of another": {other.sign(t, "x")}, "of the authority": {good}}
	port := regexp.MustCompile(`"https_port": \d+`)
	cells := 0
	for _, policy := range []string{"", "require", "require-verify"} {
		for _, required := range []string{"false", "tcp-https", "true"} {
			auth, asked := authServer(t)
			n := stock(t, func(o *nsqd.Options) {
				o.TLSCert, o.TLSKey, o.TLSClientAuthPolicy, o.TLSRootCAFile, o.HTTPSAddress = paths[0], paths[1], policy, known.path, "127.0.0.1:0"
				o.TLSRequired = map[string]int{"false": nsqd.TLSNotRequired, "tcp-https": nsqd.TLSRequiredExceptHTTP, "true": nsqd.TLSRequired}[required]
				o.AuthHTTPAddresses = []string{auth}
			})
			text := fmt.Sprintf("https: '127.0.0.1:0'\nauth: [%s]\ntls: {%s, required: %s", auth, pair, required)
			if policy != "" {
				text += ", client_auth: " + policy + ", client_ca: " + known.path
			}
			b := start(t, text+"}")
			// tell says what comes of all ways.
			tell := func(v2, plain, secure string, shown []tls.Certificate, secured bool) (told string) {
				config := nsq.NewConfig()
				config.AuthSecret, config.TlsV1 = "good", secured
				if secured {
					config.TlsConfig = &tls.Config{InsecureSkipVerify: true, Certificates: shown}
				}
				p := producer(t, v2, config)
				defer p.Stop()
				told = fmt.Sprint("V2: ", p.Publish("mine", []byte("x")) == nil)
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: shown}}}
				for _, address := range []string{"http://" + plain, "https://" + secure} {
					answer, err := client.Post(address+"/pub?topic=mine", "text/plain", strings.NewReader("x"))
					if err != nil {
						told += ", none"
						continue
					}
					body, _ := io.ReadAll(answer.Body)
					answer.Body.Close()
					told += fmt.Sprintf(", %d %s", answer.StatusCode, port.ReplaceAll(body, []byte("port")))
				}
				return told
			}
			for name, shown := range clients {
				for _, secured := range []bool{true, false} {
					cells++
					before := len(*asked)
					theirs := tell(n.RealTCPAddr().String(), n.RealHTTPAddr().String(), n.RealHTTPSAddr().String(), shown, secured)
					between := len(*asked)
					ours := tell(b.Addr().String(), b.HTTPAddr().String(), b.HTTPSAddr().String(), shown, secured)
					if ours != theirs {
						t.Errorf("%q, required %s, certificate %s, TLS %v:\nours %s\nnsqd %s", policy, required, name, secured, ours, theirs)
					}
					if got, want := strings.Join((*asked)[between:], " "), strings.Join((*asked)[before:between], " "); got != want {
						t.Errorf("%q, required %s, certificate %s: asked %s, nsqd %s", policy, required, name, got, want)
					}
					if name == "of the authority" && secured && policy != "" && !strings.Contains(ours+strings.Join((*asked)[between:], " "), "common_name=sensor-17") {
						t.Error("the auth server was not told the name: ", ours, (*asked)[between:])
					}
				}
			}
			b.Stop()
		}
	}
	fmt.Printf("broker: %d ways to show a certificate answered as nsqd does\n", cells)
}

// Heartbeats are as nsqd's of the same settings: their interval, the longest that may be asked for, and the end of
// who does not answer.
func TestHeartbeatsAreThoseOfTheSettings(t *testing.T) {
	n := stock(t, func(o *nsqd.Options) { o.ClientTimeout, o.MaxHeartbeatInterval = 2*time.Second, 5*time.Second })
	b := start(t, "client_timeout: 2s\nmax_heartbeat_interval: 5s\n")
	defer b.Stop()
	one := func(name, sent, wants string) transcript {
		return transcript{name: name, sent: []string{v2 + sent}, wants: wants}
	}
	same, _ := beside(t, n.RealTCPAddr().String(), b.Addr().String(), []transcript{
		one("the longest", identify(`{"heartbeat_interval":5000}`), "0 OK"),
		one("longer", identify(`{"heartbeat_interval":5001}`), "E_BAD_BODY IDENTIFY heartbeat interval (5001) is invalid"),
	})
	for _, consumes := range []string{"", "SUB t c\n"} {
		for name, address := range map[string]string{"nsqd": n.RealTCPAddr().String(), "ours": b.Addr().String()} {
			began := time.Now()
			said := saidWithin(t, address, []string{v2 + consumes}, false, 10*time.Second)
			took := time.Since(began)
			if beats := strings.Count(said, "_heartbeat_"); beats < 1 || beats > 2 || took < 1500*time.Millisecond || took > 8*time.Second {
				t.Errorf("%s: %q: %d heartbeats, and the end after %v, expected after 2 s: %q", name, consumes, beats, took, said)
			}
		}
	}
	fmt.Printf("broker: %d transcripts of heartbeats answered as nsqd does\n", same)
}
