// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// The files of limiters can be read. Envoy's has no key that Envoy's own definitions do not have, and what it
// describes is what the limiter beside it
// has a rule for.
func TestTheExampleFiles(t *testing.T) {
	files, err := filepath.Glob("../examples/limit-*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "../limit.yaml") {
		if _, err := Read(file); err != nil {
			t.Error(err)
		}
	}
	rules, err := Read("../examples/limit-http.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../examples/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := yaml.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(plain); err != nil {
		t.Fatal(err)
	}
	var envoy bootstrap.Bootstrap
	if err := protojson.Unmarshal(text, &envoy); err != nil {
		t.Fatal(err)
	}
	if err := envoy.ValidateAll(); err != nil {
		t.Error(err)
	}
	var front manager.HttpConnectionManager
	if err := envoy.StaticResources.Listeners[0].FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(&front); err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, r := range front.GetRouteConfig().VirtualHosts[0].Routes {
		for _, l := range r.GetRoute().GetRateLimits() {
			entries := map[string]string{}
			for _, a := range l.Actions {
				switch a := a.ActionSpecifier.(type) {
				case *route.RateLimit_Action_GenericKey_:
					entries["generic_key"] = a.GenericKey.DescriptorValue
				case *route.RateLimit_Action_RequestHeaders_:
					entries[a.RequestHeaders.DescriptorKey] = "POST"
				}
			}
			name, has := rules.bucket("edge", entries)
			if !has {
				t.Errorf("no rule for %v", entries)
			}
			found = append(found, name)
		}
	}
	if fmt.Sprint(found) != "[orders logins]" {
		t.Error(found)
	}
}

// Lines pass at the bucket's rate, all of them and in order.
func TestThePythonExamplePassesLinesAtTheRate(t *testing.T) {
	d := distribute(t)
	v := serve(t, d)
	defer v.Stop()
	command := exec.Command("/usr/bin/python3", "../examples/limited.py", v.HTTP(), "orders")
	lines := ""
	for n := range 60 {
		lines += fmt.Sprintln(n)
	}
	command.Stdin = strings.NewReader(lines)
	began := time.Now()
	go func() {
		time.Sleep(300 * time.Millisecond) // it asks while there are no orders
		d.order(t, 1, time.Minute, part("orders", 50, 10))
	}()
	out, err := command.CombinedOutput()
	if err != nil || string(out) != lines {
		t.Errorf("%v: %s", err, out)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("60 lines at 50/s of a bucket that begins empty took %v", took)
	}
}
