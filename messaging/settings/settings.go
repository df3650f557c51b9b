// SPDX-License-Identifier: Apache-2.0

// Package settings is the broker's static file: YAML (or JSON, which is YAML). README.md says what each key means.
package settings

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"giusto.dev/messaging/wire"
	"go.yaml.in/yaml/v3"
)

// Largest is the most bytes a file may have.
const Largest = 1 << 20

// Bucket is a token bucket: in any window of length t at most Depth + Rate·t messages pass.
type Bucket struct {
	Rate  Rate   `yaml:"rate"`
	Depth Tokens `yaml:"depth"`
}

// Topic is one topic's limit.
type Topic struct {
	// Rate and Depth of its token bucket; none where only channels have limits.
	Rate  Rate   `yaml:"rate"`
	Depth Tokens `yaml:"depth"`
	// Limit says what passes the bucket: what is sent to the consumers of each channel (delivery, the default), each
	// with a bucket of its own, or what is published (publishing).
	Limit string `yaml:"limit"`
	// Channels are those with another limit at delivery than their topic's.
	Channels map[string]Bucket `yaml:"channels"`
	// Queue bounds what waits, in messages; one of more than 1 KiB counts once for each KiB begun.
	Queue int64 `yaml:"queue"`
	// Ok says when a producer is answered: accepted (default), or released.
	Ok string `yaml:"ok"`
}

// TLS is what the listener needs to speak it.
type TLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// ClientCA, when given, makes clients show a certificate signed by it, unless ClientAuth says otherwise.
	ClientCA string `yaml:"client_ca"`
	// ClientAuth is nsqd's tls-client-auth-policy: require (any certificate), or require-verify (one of ClientCA).
	// TLS is required then.
	ClientAuth string `yaml:"client_auth"`
	// Required refuses every command but IDENTIFY until TLS is on, and HTTP, unless it is tcp-https.
	Required Required `yaml:"required"`
}

// Settings is the whole file, with defaults filled in.
type Settings struct {
	Listen     string   `yaml:"listen"`
	HTTP       string   `yaml:"http"`
	HTTPS      string   `yaml:"https"`
	Announce   string   `yaml:"announce"`
	Lookupd    []string `yaml:"lookupd"`
	Data       string   `yaml:"data"`
	Node       int64    `yaml:"node"`
	Memory     Size     `yaml:"memory"`
	MaxMessage Size     `yaml:"max_message"`
	MaxBody    Size     `yaml:"max_body"`
	MemQueue   int64    `yaml:"mem_queue"`
	SyncEvery  int64    `yaml:"sync_every"`
	MsgTimeout Duration `yaml:"msg_timeout"`
	// ClientTimeout is twice the interval of heartbeats where a client says nothing, MaxHeartbeat the longest that it may ask for.
	ClientTimeout Duration `yaml:"client_timeout"`
	MaxHeartbeat  Duration `yaml:"max_heartbeat_interval"`

	Patience Duration `yaml:"patience"`
	Drain    Duration `yaml:"drain"`
	TLS      *TLS     `yaml:"tls"`
	Auth     []string `yaml:"auth"`
	// Distributor, when given, says what the limits of all topics are that the file does not name. Name is what it calls this broker,
	// Capacity the messages a second that the broker can handle; 0: as the distributor thinks.
	Distributor []string         `yaml:"distributor"`
	Name        string           `yaml:"name"`
	Capacity    Rate             `yaml:"capacity"`
	Topics      map[string]Topic `yaml:"topics"`
}

// Defaults is what holds for keys that the file does not have.
func Defaults() Settings {
	return Settings{
		Listen: "127.0.0.1:4150", HTTP: "127.0.0.1:4151", Data: "giusto-broker.data", Node: -1,
		Memory: 512 << 20, MaxMessage: 1 << 20, MaxBody: 5 << 20, MemQueue: 10_000, SyncEvery: 2_500,
		MsgTimeout: Duration(60 * time.Second), ClientTimeout: Duration(60 * time.Second), MaxHeartbeat: Duration(60 * time.Second),
		// Less than go-nsq's write time-out of one second.
		Patience: Duration(500 * time.Millisecond),
		Drain:    Duration(5 * time.Second),
	}
}

// Queue is how much may wait where nothing else is said.
const Queue = 10_000

// Where `ok` may stand.
const (
	Accepted = "accepted"
	Released = "released"
)

// Where `limit` may stand.
const (
	Publishing = "publishing"
	Delivery   = "delivery"
	Requests   = "requests" // a distributor's alone: of limiters, not brokers
)

// How `client_auth` may be spelled.
const (
	Require       = "require"
	RequireVerify = "require-verify"
)

// Required is where TLS is required; empty: nowhere.
type Required string

const (
	Everywhere Required = "true"
	ButHTTP    Required = "tcp-https"
)

// UnmarshalYAML reads true, false or tcp-https.
func (r *Required) UnmarshalYAML(node *yaml.Node) error {
	switch {
	case node.Kind == yaml.ScalarNode && node.Value == "false":
		*r = ""
	case node.Kind == yaml.ScalarNode && (node.Value == string(Everywhere) || node.Value == string(ButHTTP)):
		*r = Required(node.Value)
	default:
		return fmt.Errorf("line %d: required: %q is none of true, false and %s", node.Line, node.Value, ButHTTP)
	}
	return nil
}

// ValidName says whether a topic or channel may be called so.
func ValidName(text string) bool { return wire.ValidName(text) }

// Read reads a file.
func Read(path string) (Settings, error) { return ReadFile(path, Parse) }

// Parse reads a file's text.
func Parse(text []byte) (Settings, error) {
	s := Defaults()
	if err := Decode(text, &s, Topic{}, Bucket{}, TLS{}); err != nil {
		return s, err
	}
	return s, s.check()
}

func (s *Settings) check() error {
	for key, address := range map[string]string{"listen": s.Listen, "http": s.HTTP} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s: %q is not HOST:PORT", key, address)
		}
	}
	for _, bound := range []struct {
		key               string
		value, least, top int64
	}{
		{"memory", int64(s.Memory), 32 << 20, 1 << 40},
		{"max_message", int64(s.MaxMessage), 1, 1 << 30},
		{"max_body", int64(s.MaxBody), int64(s.MaxMessage), 1 << 30},
		{"mem_queue", s.MemQueue, 0, 1 << 24},
		{"sync_every", s.SyncEvery, 1, 1 << 30},
		{"node", s.Node, -1, 1023},
		{"patience", int64(s.Patience), 0, int64(30 * time.Second)},
		{"drain", int64(s.Drain), 0, int64(time.Hour)},
		{"msg_timeout", int64(s.MsgTimeout), int64(time.Second), int64(15 * time.Minute)},
		{"client_timeout", int64(s.ClientTimeout), int64(2 * time.Second), int64(time.Hour)},
		{"max_heartbeat_interval", int64(s.MaxHeartbeat), int64(time.Second), int64(time.Hour)},
	} {
		if bound.value < bound.least || bound.value > bound.top {
			return fmt.Errorf("%s: %d is not in %d to %d", bound.key, bound.value, bound.least, bound.top)
		}
	}
	if err := s.TLS.check(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(s.HTTPS); s.HTTPS != "" && (err != nil || s.TLS == nil) {
		return fmt.Errorf("https: %q: expected HOST:PORT, and tls with a certificate and a key", s.HTTPS)
	}
	for _, address := range s.Distributor {
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" {
			return fmt.Errorf("distributor: %q is not HOST:PORT", address)
		}
	}
	switch {
	case s.Name != "" && !wire.ValidBroker(s.Name):
		return fmt.Errorf("name: %q is not a broker's name: 1 to 255 of . a-z A-Z 0-9 _ - : [ ]", s.Name)
	case len(s.Distributor) == 0 && s.Name != "":
		return errors.New("name: it is for a distributor; give one, or leave it out")
	case len(s.Distributor) == 0 && s.Capacity.Num > 0:
		return errors.New("capacity: it is for a distributor; give one, or leave it out")
	}
	for topic, t := range s.Topics {
		if !ValidName(topic) {
			return fmt.Errorf("topics: %q is not a topic's name: 1 to 64 of . a-z A-Z 0-9 _ -, perhaps #ephemeral", topic)
		}
		none := t.Rate.Num == 0 && t.Depth == 0 && len(t.Channels) > 0
		if t.Limit == "" {
			t.Limit = Delivery
		}
		switch {
		case t.Rate.Num == 0 && !none:
			return fmt.Errorf("topics: %s: it has no rate (leave the topic out, if it has no limit)", topic)
		case t.Depth == 0 && !none:
			return fmt.Errorf("topics: %s: it has no depth", topic)
		case t.Limit != Publishing && t.Limit != Delivery:
			return fmt.Errorf("topics: %s: limit: %q is neither %s nor %s", topic, t.Limit, Publishing, Delivery)
		case none && t.Limit == Publishing:
			return fmt.Errorf("topics: %s: limit: %s needs rate and depth", topic, Publishing)
		case t.Queue < 0 || t.Queue > 1<<24:
			return fmt.Errorf("topics: %s: queue: %d is not in 1 to %d", topic, t.Queue, 1<<24)
		case t.Ok != "" && t.Ok != Accepted && t.Ok != Released:
			return fmt.Errorf("topics: %s: ok: %q is neither %s nor %s", topic, t.Ok, Accepted, Released)
		case t.Limit == Delivery && (t.Queue != 0 || t.Ok != ""):
			return fmt.Errorf("topics: %s: queue and ok are for limit: %s; what waits for delivery is in nsqd's queues", topic, Publishing)
		}
		for name, c := range t.Channels {
			switch {
			case !ValidName(name):
				return fmt.Errorf("topics: %s: channels: %q is not a channel's name: 1 to 64 of . a-z A-Z 0-9 _ -, perhaps #ephemeral", topic, name)
			case c.Rate.Num == 0:
				return fmt.Errorf("topics: %s: channels: %s: it has no rate", topic, name)
			case c.Depth == 0:
				return fmt.Errorf("topics: %s: channels: %s: it has no depth", topic, name)
			}
		}
		if t.Queue == 0 {
			t.Queue = Queue
		}
		if t.Ok == "" {
			t.Ok = s.Answer()
		}
		s.Topics[topic] = t
	}
	return nil
}

func (t *TLS) check() error {
	switch {
	case t == nil:
		return nil
	case t.Certificate == "" || t.Key == "":
		return errors.New("tls: certificate and key must both be given")
	case t.ClientAuth != "" && t.ClientAuth != Require && t.ClientAuth != RequireVerify:
		return fmt.Errorf("tls: client_auth: %q is neither %s nor %s", t.ClientAuth, Require, RequireVerify)
	case t.ClientAuth == RequireVerify && t.ClientCA == "":
		return fmt.Errorf("tls: client_auth: %s needs client_ca", RequireVerify)
	}
	if t.ClientAuth != "" && t.Required == "" {
		t.Required = Everywhere // as nsqd has it
	}
	return nil
}

// AtDelivery is the limit of a channel at delivery; false: it has none.
func (t Topic) AtDelivery(channel string) (Bucket, bool) {
	if own, has := t.Channels[channel]; has {
		return own, true
	}
	return Bucket{t.Rate, t.Depth}, t.Limit == Delivery && t.Rate.Num > 0
}

// Answer is when producers are answered where nothing else is said. What waits is in memory: where nsqd keeps nothing in memory, it
// is acknowledged when nsqd has it.
func (s *Settings) Answer() string {
	if s.MemQueue == 0 {
		return Released
	}
	return Accepted
}

// Differs names a key other than `topics` in which the two differ; empty: none.
func (s Settings) Differs(t Settings) string {
	s.Topics, t.Topics = nil, nil
	one, other := reflect.ValueOf(s), reflect.ValueOf(t)
	for n := range one.NumField() {
		if !reflect.DeepEqual(one.Field(n).Interface(), other.Field(n).Interface()) {
			return one.Type().Field(n).Tag.Get("yaml")
		}
	}
	return ""
}
