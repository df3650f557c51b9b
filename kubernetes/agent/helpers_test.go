// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func unmarshal(text string, to any) error { return json.Unmarshal([]byte(text), to) }

func podStatus(server *ServiceStatus) (status api.PodStatus) {
	numbersOf(server, &status)
	return status
}

// This program is also the giusto of the tests: its plan is the site, and its run does nothing but take sites as giusto does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case "--version":
			fmt.Println("giusto", os.Getenv("TEST_VERSION"))
			os.Exit(0)
		case "plan":
			var site []byte
			if site, err = os.ReadFile(os.Args[2]); err == nil {
				err = os.WriteFile(os.Args[4], site, 0o600)
			}
		case "launch":
			err = run(os.Getenv("GIUSTO_STATE"), os.Args[4])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "giusto:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// take reads a site; what was not there before needs a process in its cgroup.
func take(path string, before map[string]placed) (map[string]placed, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, text, _ = bytes.Cut(text, []byte("\n"))
	var site struct {
		Services map[string]struct {
			Promise json.RawMessage
			Adopt   struct{ Cgroup string }
		}
	}
	if err := json.Unmarshal(text, &site); err != nil {
		return nil, err
	}
	all := map[string]placed{}
	for name, one := range site.Services {
		all[name] = placed{one.Promise, one.Adopt.Cgroup}
		if before[name].Cgroup != one.Adopt.Cgroup && !(Cgroups{os.Getenv("TEST_CGROUPS")}).Peopled(one.Adopt.Cgroup) {
			return nil, fmt.Errorf("service '%s': there is no process in cgroup %s", name, one.Adopt.Cgroup)
		}
	}
	return all, nil
}

func run(state, site string) error {
	services, err := take(site, nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(state, "control"))
	listener, err := net.Listen("unix", filepath.Join(state, "control"))
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		line, _ := bufio.NewReader(connection).ReadBytes('\n')
		var asked struct{ Do, Site string }
		if err := json.Unmarshal(line, &asked); err != nil {
			return err
		}
		var answer any = map[string]any{}
		switch asked.Do {
		case "status":
			var all []map[string]any
			for name, one := range services {
				all = append(all, map[string]any{
					"name": name, "threads": 1, "state": "runs", "backend": string(one.Keys) + one.Cgroup})
			}
			answer = map[string]any{"status": map[string]any{
				"version": os.Getenv("TEST_VERSION"), "pid": os.Getpid(), "state": "enforcing", "services": all}}
		case "reload":
			if took, err := take(asked.Site, services); err != nil {
				answer = map[string]any{"error": map[string]any{"reason": err.Error()}}
			} else {
				services = took
			}
		}
		_ = json.NewEncoder(connection).Encode(answer)
		connection.Close()
		if asked.Do == "stop" {
			return nil
		}
	}
}

// machine is a node with an agent.
type machine struct {
	t      *testing.T
	client client.Client
	*Agent
}

const id0 = "c0ffee"

func newMachine(t *testing.T, all ...client.Object) *machine {
	t.Helper()
	// A socket's path has 100 letters at most.
	folder, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_CGROUPS", filepath.Join(folder, "cgroups"))
	t.Setenv("TEST_VERSION", "1.0")
	m := &machine{t: t}
	m.client = fake.NewClientBuilder().WithScheme(objects.Scheme(t)).WithObjects(all...).
		WithStatusSubresource(&api.GiustoNode{}).Build()
	giusto := &Giusto{Program: self, Self: self,
		Folder: filepath.Join(folder, "run"), State: filepath.Join(folder, "run/state")}
	m.Agent = &Agent{Giusto: giusto, Cgroups: Cgroups{filepath.Join(folder, "cgroups")}, Host: filepath.Join(folder, "host")}
	m.restart()
	t.Cleanup(func() {
		if err := m.Giusto.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// restart is the end of an agent and the start of the next one, while giusto run goes on.
func (m *machine) restart() {
	m.t.Helper()
	old := m.Agent
	giusto := *old.Giusto
	giusto.version = ""
	m.Agent = &Agent{
		Node: "node-0", Cores: "0-3", KeepFree: "5%", Host: old.Host, Client: m.client, Planner: typical(m.t),
		Giusto: &giusto, Cgroups: old.Cgroups,
	}
	// The machine is always the same one.
	m.probed, m.facts = time.Now(), json.RawMessage(objects.Facts)
	thousandths, err := m.Planner.Node(node, m.Cores, m.KeepFree, m.facts)
	if err != nil {
		m.t.Fatal(err)
	}
	m.thousandths = thousandths
}

func typical(t *testing.T) *planner.Planner { return objects.Planner(t) }

// pod is one whose container runs, in a cgroup of its own.
func (m *machine) pod(of string, number int) *core.Pod {
	m.t.Helper()
	pod := objects.Pod(of, number)
	pod.Spec.NodeName = "node-0"
	if err := m.client.Create(context.Background(), pod); err != nil {
		m.t.Fatal(err)
	}
	m.container(pod, id0)
	return pod
}

// container starts one of a pod, after the last one.
func (m *machine) container(pod *core.Pod, id string) {
	m.t.Helper()
	m.processes(pod, id, "4711\n")
	pod.Status.ContainerStatuses = []core.ContainerStatus{{Name: "main", ContainerID: "containerd://" + id,
		State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}
	pod.Status.QOSClass = core.PodQOSGuaranteed
	if err := m.client.Status().Update(context.Background(), pod); err != nil {
		m.t.Fatal(err)
	}
}

func cgroup(pod *core.Pod, id string) string { return fmt.Sprintf("kubepods/pod%s/%s", pod.UID, id) }

// processes are those in a container's cgroup from now on. Its threads may have no real-time priorities.
func (m *machine) processes(pod *core.Pod, id, text string) {
	m.t.Helper()
	for _, hierarchy := range []string{"cpu", "systemd"} {
		folder := filepath.Join(m.Cgroups.Root, hierarchy, cgroup(pod, id))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			m.t.Fatal(err)
		}
		for name, text := range map[string]string{"cgroup.procs": text, "cpu.rt_runtime_us": "0\n"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

func (m *machine) step() error { return m.Step(context.Background()) }

// inForce is what giusto run has: promise and cgroup of each service.
func (m *machine) inForce() []string {
	m.t.Helper()
	status, err := m.Giusto.Status()
	if err != nil {
		return nil
	}
	var all []string
	for _, one := range status.Services {
		all = append(all, one.Backend)
	}
	slices.Sort(all)
	return all
}

func (m *machine) requires(expected ...string) {
	m.t.Helper()
	if all := m.inForce(); !slices.Equal(all, expected) {
		m.t.Errorf("in force: %q; expected %q", all, expected)
	}
}

// told is what the node's status says of a pod.
func (m *machine) told(pod *core.Pod) api.PodStatus {
	m.t.Helper()
	var own api.GiustoNode
	if err := m.client.Get(context.Background(), types.NamespacedName{Name: "node-0"}, &own); err != nil {
		m.t.Fatal(err)
	}
	for _, one := range own.Status.Pods {
		if one.UID == string(pod.UID) {
			return one
		}
	}
	m.t.Fatalf("the node tells nothing of pod %s", pod.Name)
	return api.PodStatus{}
}

func (m *machine) change(name, keys string) {
	m.t.Helper()
	var promise api.Promise
	key := types.NamespacedName{Namespace: "default", Name: name}
	if err := m.client.Get(context.Background(), key, &promise); err != nil {
		m.t.Fatal(err)
	}
	promise.Spec = objects.Promise(m.t, name, keys).Spec
	if err := m.client.Update(context.Background(), &promise); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) kill() {
	m.t.Helper()
	status, err := m.Giusto.Status()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := syscall.Kill(status.Pid, syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
	for m.inForce() != nil {
		time.Sleep(time.Millisecond)
	}
}

func has(text, part string) bool { return strings.Contains(text, part) }
