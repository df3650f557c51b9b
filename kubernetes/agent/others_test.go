// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	objects "giusto.dev/kubernetes/testing"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// One container is in its back-off while giusto run is started anew: all others have their shares at once, and it has its own as
// soon as it runs again.
func TestAContainerInBackOffKeepsNoOtherWaiting(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	bad, good := m.pod("web", 0), m.pod("web", 1)
	ok(t, m.step())
	m.requires(smallIn+cgroup(bad, id0), smallIn+cgroup(good, id0))
	m.kill()
	m.processes(bad, id0, "")
	ok(t, m.step())
	m.requires(smallIn + cgroup(good, id0))
	if own := m.told(bad); own.Enforced || own.Reason != "NotRunning" || own.Admitted == nil {
		t.Errorf("it says %+v", own)
	}
	if own := m.told(good); !own.Enforced {
		t.Errorf("it says %+v", own)
	}
	m.container(bad, "decaf")
	ok(t, m.step())
	m.requires(smallIn+cgroup(bad, "decaf"), smallIn+cgroup(good, id0))
	// While giusto run goes on the share of a container that has ended stays.
	m.processes(bad, "decaf", "")
	third := m.pod("web", 2)
	ok(t, m.step())
	m.requires(smallIn+cgroup(bad, "decaf"), smallIn+cgroup(good, id0), smallIn+cgroup(third, id0))
}

// What giusto run cannot take, for whichever reason, is left alone for a while.
func TestWhatGiustoRunCannotTakeKeepsNoOtherWaiting(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	good := m.pod("web", 0)
	ok(t, m.step())
	bad := m.pod("web", 1)
	elsewhere := filepath.Join(m.Cgroups.Root, "nothing")
	ok(t, os.MkdirAll(elsewhere, 0o755))
	t.Setenv("TEST_CGROUPS", elsewhere) // for the next giusto run no cgroup has a process
	m.kill()
	if err := m.step(); err == nil {
		t.Error("none can be taken, and that is no error")
	}
	t.Setenv("TEST_CGROUPS", m.Cgroups.Root)
	for range 2 {
		_ = m.step()
	}
	if all := m.inForce(); len(all) != 1 {
		t.Errorf("in force: %q; expected the one of the two that was not blamed", all)
	}
	for _, own := range m.services {
		own.until = time.Time{} // some time later
	}
	ok(t, m.step())
	m.requires(smallIn+cgroup(good, id0), smallIn+cgroup(bad, id0))
}

// A giusto run of the host's own is not touched, and nothing is enforced beside it.
func TestAGiustoRunOfTheHostIsLeftAlone(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	own := &Giusto{Program: m.Giusto.Program, Self: m.Giusto.Self, Folder: m.Host, State: m.Host}
	ok(t, own.Enforce(context.Background(), []byte("# the host's\n{\"services\": {}}\n")))
	before, err := own.Status()
	ok(t, err)
	defer func() { ok(t, own.Stop(context.Background())) }()
	if err := m.another(); err == nil || !has(err.Error(), "giusto.service") || !has(err.Error(), fmt.Sprint(before.Pid)) {
		t.Fatalf("it says %v", err)
	}
	m.wrong = &wrong{"AnotherGiusto", m.another()}
	ok(t, m.step())
	m.requires()
	if told := m.told(pod); told.Enforced || told.Reason != "NodeNotReady" || !has(told.Message, "giusto.service") {
		t.Errorf("it says %+v", told)
	}
	if after, err := own.Status(); err != nil || after.Pid != before.Pid || len(after.Services) != 0 {
		t.Errorf("the host's own is another one: %+v, %v", after, err)
	}
}

// What has ended is told before it is tried to mend it, and one that stands still is told soon.
func TestWhatHasEndedIsTold(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	if !m.told(pod).Enforced {
		t.Fatal("it is in force")
	}
	m.kill()
	m.Giusto.Self = "/bin/false" // nor can it be started again
	if err := m.step(); err == nil {
		t.Error("it cannot be started, and that is no error")
	}
	if own := m.told(pod); own.Enforced {
		t.Errorf("it says %+v", own)
	}
	m.Giusto.Self = m.Giusto.Program
	for _, own := range m.services {
		own.until = time.Time{}
	}
	ok(t, m.step())
	m.requires(smallIn + cgroup(pod, id0))
	status, err := m.Giusto.Status()
	ok(t, err)
	ok(t, syscall.Kill(status.Pid, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(status.Pid, syscall.SIGCONT) }()
	if err := m.step(); err == nil {
		t.Error("it stands still, and that is no error")
	}
	if own := m.told(pod); own.Enforced || !has(own.Message, "does not answer") {
		t.Errorf("it says %+v", own)
	}
}

// While the status is being written, what is wrong is not enforced later: an agent that starts giusto run says so before.
func TestTheDeathOfGiustoRunIsToldBeforeItIsMended(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	m.kill()
	// giusto plan waits for this pipe's reader, and so does the agent.
	fifo := filepath.Join(t.TempDir(), "giusto")
	ok(t, syscall.Mkfifo(fifo, 0o600))
	script := filepath.Join(t.TempDir(), "slow")
	text := "#!/bin/sh\n[ \"$1\" = plan ] && read -r _ <" + fifo + "\nexec " + m.Giusto.Program + " \"$@\"\n"
	ok(t, os.WriteFile(script, []byte(text), 0o700))
	m.Giusto.Program = script
	done := make(chan error, 1)
	go func() { done <- m.step() }()
	for m.told(pod).Enforced {
		select {
		case err := <-done:
			t.Fatalf("it was mended first (%v)", err)
		case <-time.After(time.Millisecond):
		}
	}
	ok(t, os.WriteFile(fifo, []byte("go on\n"), 0o600))
	ok(t, <-done)
	m.requires(smallIn + cgroup(pod, id0))
}

// Nothing is taken over at the place where another giusto run was before: the socket there is this agent's own.
func TestTheSocketOfTheHostIsNotTheAgents(t *testing.T) {
	m := newMachine(t)
	ok(t, os.MkdirAll(m.Host, 0o700))
	listener, err := net.Listen("unix", filepath.Join(m.Host, "control"))
	ok(t, err)
	listener.Close()
	if err := m.another(); err != nil {
		t.Errorf("none listens there: %v", err)
	}
}

// Agents go with their DaemonSet, and only then is the node left.
func TestAgentsKnowWhetherTheyAreReplacedOrTakenAway(t *testing.T) {
	ctx := context.Background()
	set := &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "agent", UID: "first"}}
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "agent-x"}}
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{
		{Kind: "DaemonSet", Name: "agent", UID: types.UID("first"), Controller: &yes}}
	to := fake.NewClientBuilder().WithScheme(objects.Scheme(t)).WithObjects(set, pod).Build()
	own, err := SetOf(ctx, to, "own", "agent-x")
	ok(t, err)
	gone := func(expected bool) {
		t.Helper()
		if is, err := own.Gone(ctx, to); err != nil || is != expected {
			t.Errorf("gone: %v, %v; expected %v", is, err, expected)
		}
	}
	gone(false)
	ok(t, to.Delete(ctx, set))
	gone(true)
	ok(t, to.Create(ctx, &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "agent", UID: "second"}}))
	gone(true)
	if none, err := SetOf(ctx, to, "", ""); none != nil || err != nil {
		t.Error(none, err)
	}
	if is, err := (*Set)(nil).Gone(ctx, to); is || err != nil {
		t.Error("a process that is no pod of a DaemonSet is never taken away")
	}
}
