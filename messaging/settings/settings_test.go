// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"strings"
	"testing"
	"time"

	"giusto.dev/messaging/bucket"
)

// The spelling of rates, tokens and times is that of site files, and exact.
func TestValuesAreExact(t *testing.T) {
	for text, want := range map[string]bucket.Rate{
		"11k/s": {Num: 11_000, Den: 1}, "0.004/ms": {Num: 4, Den: 1}, "11000/3/s": {Num: 11_000, Den: 3}, "1.5M/s": {Num: 1_500_000, Den: 1},
		"1/3/ms": {Num: 1000, Den: 3}, "40 / s": {Num: 40, Den: 1}, "4./s": {Num: 4, Den: 1}, "0.1/s": {Num: 1, Den: 10},
		"240/min": {Num: 4, Den: 1}, "2/d": {Num: 1, Den: 43_200},
	} {
		if got, err := ParseRate(text); err != nil || got.Rate != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "40", "40/y", "-1/s", "1e3/s", "0/s", "0.0/s", "1/0/s", "k/s", "11k/3/s", "1.5/2/s",
		"99999999999/ns", strings.Repeat("9", 50) + "/s", "nan/s", "inf/s", "0x10/s", "1_0/s"} {
		if got, err := ParseRate(bad); err == nil {
			t.Errorf("%s is taken as %v", bad, got)
		}
	}
	for text, want := range map[string]Tokens{"26": 26 << 20, "4.5": 9 << 19, "13/3": 13 << 20 / 3, "1": 1 << 20, "4398046511104": 1 << 62} {
		if got, err := ParseTokens(text); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "0", "0.99", "-1", "1e3", "1/0", "4398046511105", "x"} {
		if got, err := ParseTokens(bad); err == nil {
			t.Errorf("%s is taken as %v", bad, got)
		}
	}
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1.5ms": 1500 * time.Microsecond, "0.001us": 1, "7 ns": 7,
		"1.5min": 90 * time.Second, "2h": 2 * time.Hour, "0.5d": 12 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "30", "1m", "0.5ns", "-1s", "99999999999s"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%s is taken as %v", bad, got)
		}
	}
	if got, err := ParseSize("512MiB"); err != nil || got != 512<<20 {
		t.Error(got, err)
	}
}

// What is wrong is refused, and named with its line or key.
func TestWhatIsWrongIsNamed(t *testing.T) {
	for text, named := range map[string]string{
		"lissten: 1.2.3.4:5":                           "lissten",
		"listen: nowhere":                              "listen",
		"distributor: [nowhere]":                       "distributor: \"nowhere\" is not HOST:PORT",
		"distributor: [':4170']":                       "distributor",
		"distributor: a:1":                             "line 1",
		"distributor: [{a: 1}]":                        "line 1",
		"distributor: [a:1]\nname: a/b":                "name: \"a/b\"",
		"distributor: [a:1]\ncapacity: 10":             "\"10\" is not a rate",
		"distributor: [a:1]\ncapacity: -1/s":           "-1/s",
		"name: edge-1":                                 "name: it is for a distributor",
		"capacity: 10k/s":                              "capacity: it is for a distributor",
		"topics: {a: {depth: 2}}":                      "a: it has no rate",
		"topics: {a: {rate: 1/s}}":                     "a: it has no depth",
		"topics: {a: {rate: 1/y, depth: 2}}":           "1/y",
		"topics:\n  a: {rate: 1/s, depth: [2]}":        "line 2",
		"topics: {a: {rate: 1/s, depth: 2, ok: soon}}": "soon",
		"topics: {a b: {rate: 1/s, depth: 2}}":         "a b",
		"topics: {a: {rate: 1/s, depth: 2, limit: x}}": "neither publishing nor delivery",
		"topics: {a: {limit: delivery}}":               "a: it has no rate",
		"topics: {a: {rate: 1/s, depth: 2, queue: 3}}": "queue and ok are for limit: publishing",
		"topics: {a: {limit: publishing, channels: {b: {rate: 1/s, depth: 1}}}}": "publishing needs rate and depth",
		"topics: {a: {rate: 1/s, depth: 2, limit: delivery, queue: 3}}":          "queue and ok are for limit: publishing",
		"topics: {a: {rate: 1/s, depth: 2, limit: delivery, ok: released}}":      "queue and ok are for limit: publishing",
		"topics: {a: {channels: {b c: {rate: 1/s, depth: 1}}}}":                  "b c",
		"topics: {a: {channels: {b: {rate: 1/s}}}}":                              "b: it has no depth",
		"topics: {a: {channels: {b: {depth: 1}}}}":                               "b: it has no rate",
		"topics: {a: {channels: {b: {rate: 1/s, depth: 1, queue: 4}}}}":          "'queue' is not a key here; expected one of rate, depth",
		"memory: 1MiB":   "memory",
		"max_body: 1KiB": "max_body",
		"patience: 31s":  "patience",
		"node: 1024":     "node",
		"tls: {key: k}":  "tls",
		"tls: {key: k, certificate: c, required: tcp}":               "required: \"tcp\" is none of",
		"tls: {key: k, certificate: c, client_auth: ask}":            "client_auth: \"ask\" is neither",
		"tls: {key: k, certificate: c, client_auth: require-verify}": "needs client_ca",
		"https: a:1":                    "https: \"a:1\": expected HOST:PORT, and tls",
		"client_timeout: 1s":            "client_timeout",
		"max_heartbeat_interval: 500ms": "max_heartbeat_interval",
		"data: a\n---\ndata: b":         "more than one document",
		"data: a\ndata: b":              "data",
		strings.Repeat("#", Largest+1):  "1 MiB",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	s, err := Parse(nil)
	if err != nil || s.Listen != "127.0.0.1:4150" || len(s.Topics) != 0 {
		t.Error(s, err)
	}
	s, err = Parse([]byte(`{"topics": {"a": {"rate": "1k/s", "depth": 4.5}}, "mem_queue": 0}`)) // JSON
	if err != nil || s.Topics["a"].Limit != Delivery || s.Topics["a"].Ok != Released || s.Topics["a"].Queue != 10_000 ||
		s.Topics["a"].Depth != 9<<19 {
		t.Error(s, err)
	}
	s, err = Parse([]byte("distributor: ['10.0.0.9:4170', '[::1]:4170']\nname: '[::1]:4150'\ncapacity: 12k/s"))
	if err != nil || len(s.Distributor) != 2 || s.Capacity.Rate != (bucket.Rate{Num: 12_000, Den: 1}) || Defaults().Differs(s) != "distributor" {
		t.Error(s, err)
	}
	text, _ := os.ReadFile("../broker.yaml")
	s, err = Parse(text)
	if err != nil || s.Topics["reports"].Ok != Released || s.Topics["alarms"].Limit != Delivery ||
		s.Topics["reports"].Limit != Publishing || Defaults().Differs(s) != "" {
		t.Error(s, err)
	}
}

func TestAMisspeltKeyIsToldWithThoseThereAre(t *testing.T) {
	for text, want := range map[string]string{
		"topics: {a: {rate: 11k/s, depht: 26}}": "line 1: 'depht' is not a key here; expected one of rate, depth, limit, channels, queue, ok",
		"tls: {cert: x}":                        "line 1: 'cert' is not a key here; expected one of certificate, key, client_ca, client_auth, required",
	} {
		if _, err := Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
}
