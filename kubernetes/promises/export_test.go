// SPDX-License-Identifier: Apache-2.0

package promises_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/promises"
	objects "giusto.dev/kubernetes/testing"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// What is no site of services that pods run, was not measured, or does not fit.
var refused = regexp.MustCompile("giusto-agent: 1|is a virtual machine|nothing was measured yet|does not fit")

// oddSite is written as few write sites; all of it means something.
var oddSite = `giusto: 1
hosts: {edge-1: {cores: 0-9}}
services:
  'on': {start: x, promise: as-if-alone, copies: "2", threads: "on", margin: 5 %,
    tasks: [{name: 1, wcet: 1  ms, period: 20 ms, copies: "2"}]}
  A_b: {start: x, promise: {p99: 500ms}, arrivals: {poisson: 4 / s, batch: "2"}, execution: {histogram: times.csv}, cap: soft}
  a-b: {start: x, promise: {supply: 1ms/10ms}, observe: {reported: {otlp: "127.0.0.1:4318"}}}
  ` + strings.Repeat("x", 63) + `y: {adopt: {pid: 4}, promise: leftovers}
  ` + strings.Repeat("x", 63) + `z: {adopt: {pid: 4}, promise: leftovers}
`

// Every example site becomes promises that the schema takes and that can be planned.
func TestSitesBecomePromises(t *testing.T) {
	plans := objects.Planner(t)
	valid := schema(t)
	sites, err := filepath.Glob("../../sites/*.yaml")
	if err != nil || len(sites) < 30 {
		t.Fatal(sites, err)
	}
	folder := t.TempDir()
	times := "execution_ns,transport_ns\n1000000,0\n1200000,0\n"
	for name, text := range map[string]string{"odd.yaml": oddSite, "times.csv": times} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sites = append(sites, filepath.Join(folder, "odd.yaml"))
	written, instead := 0, 0
	for _, site := range sites {
		text, err := exec.Command(objects.Giusto(t), "export", "kubernetes", site).Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if !refused.Match(exit.Stderr) {
				t.Errorf("%s: exit code %d: %s", site, exit.ExitCode(), exit.Stderr)
			}
			continue
		}
		if err != nil {
			t.Fatal(site, err)
		}
		instead += bytes.Count(text, []byte("# INSTEAD: "))
		for _, promise := range documents(t, site, text, valid) {
			keys, err := promises.Keys(promise)
			if err != nil {
				t.Fatal(err)
			}
			needs, err := plans.Needs(promise.Name, keys)
			leftovers := string(promise.Spec.Service.Promise.Raw) == `"leftovers"`
			if err != nil || needs < 0 || needs == 0 && !leftovers {
				t.Errorf("%s: %s: %d, %v: %s", site, promise.Name, needs, err, keys)
			}
			written++
		}
	}
	t.Logf("%d promises of %d sites, %d of them as processor time", written, len(sites), instead)
	if written < 60 || instead < 10 {
		t.Error("the sites prove less than this says")
	}
}

// documents are the promises of a stream, read strictly.
func documents(t *testing.T, site string, text []byte, valid *validate.SchemaValidator) []*api.Promise {
	t.Helper()
	var all []*api.Promise
	names := map[string]bool{}
	for stream := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := stream.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(site, err)
		}
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatalf("%s: %v: %s", site, err, document)
		}
		if object == nil { // comments alone
			continue
		}
		promise := &api.Promise{}
		if err := yaml.UnmarshalStrict(document, promise); err != nil {
			t.Fatalf("%s: %v: %s", site, err, document)
		}
		if result := valid.Validate(object); !result.IsValid() {
			t.Errorf("%s: %v: %s", site, result.Errors, document)
		}
		if promise.Kind != "Promise" || len(validation.IsDNS1123Label(promise.Name)) > 0 || names[promise.Name] ||
			len(validation.IsValidLabelValue(promise.Spec.Selector.MatchLabels["app"])) > 0 {
			t.Errorf("%s: %s", site, document)
		}
		names[promise.Name] = true
		all = append(all, promise)
	}
}

// schema is that of a Promise, as the API server has it but for its rules (CEL).
func schema(t *testing.T) *validate.SchemaValidator {
	t.Helper()
	text, err := os.ReadFile("../deploy/base/giusto.io_promises.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kind apiextensions.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &kind); err != nil {
		t.Fatal(err)
	}
	form, err := json.Marshal(kind.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	var whole spec.Schema
	if err := json.Unmarshal(form, &whole); err != nil {
		t.Fatal(err)
	}
	return validate.NewSchemaValidator(&whole, nil, "", strfmt.Default)
}
