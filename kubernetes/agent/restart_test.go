// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	objects "giusto.dev/kubernetes/testing"
)

const (
	smallIn, largeIn = `{"supply":"1ms/10ms"}`, `{"supply":"8ms/10ms"}`
	small, large     = `{"promise":` + smallIn + `}`, `{"promise":` + largeIn + `}`
	over             = `{"promise":{"supply":"99ms/100ms"}}`
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A promise that is raised to what does not fit keeps what it had, also when the agent starts again, and also where giusto run
// has died meanwhile.
func TestWhatIsInForceStaysSoWhenTheAgentStartsAgain(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	m.requires(smallIn + cgroup(pod, id0))
	m.change("web", over)
	says := func() {
		t.Helper()
		ok(t, m.step())
		m.requires(smallIn + cgroup(pod, id0))
		own := m.told(pod)
		if own.Enforced || own.Reason != "DoesNotFit" || !has(own.Message, "stays in force") {
			t.Errorf("it says %+v", own)
		}
		if own.Admitted == nil || string(own.Admitted.Raw) != small ||
			own.Refused == nil || string(own.Refused.Raw) != over {
			t.Errorf("admitted %s, refused %s", own.Admitted, own.Refused)
		}
	}
	says()
	m.restart()
	says()
	m.restart()
	m.kill()
	says()
	for !has(m.told(pod).Message, "it fits with") { // what would fit is found out while all else goes on
		time.Sleep(time.Millisecond)
		ok(t, m.step())
		m.Agent.told.at = time.Time{}
	}
	m.change("web", large)
	ok(t, m.step())
	m.requires(largeIn + cgroup(pod, id0))
	if own := m.told(pod); !own.Enforced || own.Refused != nil {
		t.Errorf("it says %+v", own)
	}
}

// Under cgroup v2 giusto run has moved the processes out of their container's cgroup: what is in force is so all the same.
func TestContainersWhoseProcessesHaveLeftStayInForce(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	m.processes(pod, id0, "")
	m.restart()
	ok(t, m.step())
	m.requires(smallIn + cgroup(pod, id0))
	if own := m.told(pod); !own.Enforced {
		t.Errorf("it says %+v", own)
	}
}

// The room of a container that does not run is kept when the agent starts again; that of pods that went meanwhile is not.
func TestRoomIsKeptForPodsThatAreThere(t *testing.T) {
	ctx := context.Background()
	m := newMachine(t, objects.Promise(t, "web", large), objects.Promise(t, "rest", large))
	gone, stays := m.pod("web", 0), m.pod("web", 1)
	m.processes(stays, id0, "") // it has ended, and kubelet has not told yet
	ok(t, m.step())
	m.requires(largeIn + cgroup(gone, id0))
	for number := range 2 {
		m.pod("rest", number)
	}
	ok(t, m.step())
	ok(t, m.client.Delete(ctx, gone))
	m.restart()
	late, early := m.pod("rest", 9), m.pod("rest", 8)
	ok(t, m.step())
	if own := m.told(stays); own.Admitted == nil {
		t.Errorf("the room of a container that does not run was given away: %+v", own)
	}
	if one, other := m.told(late).Admitted != nil, m.told(early).Admitted != nil; one == other {
		t.Errorf("of two pods one has the room of the one that went: %v, %v", one, other)
	}
}

// Processes that left their cpu cgroup go back when their container has no share any more, also when another agent looks then.
func TestWhatWasFreedGoesBackAfterARestart(t *testing.T) {
	ctx := context.Background()
	m := newMachine(t, objects.Promise(t, "web", small), objects.Promise(t, "db", small))
	gone, other := m.pod("web", 0), m.pod("db", 0)
	ok(t, m.step())
	ok(t, m.client.Delete(ctx, gone))
	m.restart()
	back := filepath.Join(m.Cgroups.Root, "cpu", cgroup(gone, id0), "cgroup.procs")
	ok(t, os.WriteFile(back, nil, 0o600))
	ok(t, m.step())
	m.requires(smallIn + cgroup(other, id0))
	if text, err := os.ReadFile(back); err != nil || string(text) != "4711" {
		t.Errorf("its processes are not back: %q, %v", text, err)
	}
	// The DaemonSet is deleted, as another agent has just come.
	m.restart()
	ok(t, m.step())
	back = filepath.Join(m.Cgroups.Root, "cpu", cgroup(other, id0), "cgroup.procs")
	ok(t, os.WriteFile(back, nil, 0o600))
	ok(t, m.TakeAway(ctx))
	m.requires()
	if own := m.told(other); own.Enforced || own.Reason != "NodeNotReady" {
		t.Errorf("it says %+v", own)
	}
	if text, err := os.ReadFile(back); err != nil || string(text) != "4711" {
		t.Errorf("its processes are not back: %q, %v", text, err)
	}
	if _, err := os.Stat(m.Giusto.Folder); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", m.Giusto.Folder, err)
	}
}

// Nothing can enforce on the node any more: what was taken out of its cgroup for that goes back.
func TestWhatNothingWillEnforceGoesBack(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	back := filepath.Join(m.Cgroups.Root, "cpu", cgroup(pod, id0), "cgroup.procs")
	ok(t, os.WriteFile(back, nil, 0o600))
	m.wrong = &wrong{"AnotherGiusto", errors.New("a giusto run of the host's own")}
	m.kill()
	ok(t, m.step())
	m.requires()
	if text, err := os.ReadFile(back); err != nil || string(text) != "4711" {
		t.Errorf("its processes are not back: %q, %v", text, err)
	}
}

// Another container of the pod is meant: the first one has what it had.
func TestAContainerThatIsNotMeantAnyMoreGoesBack(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	back := filepath.Join(m.Cgroups.Root, "cpu", cgroup(pod, id0), "cgroup.procs")
	ok(t, os.WriteFile(back, nil, 0o600))
	m.container(pod, "decaf")
	ok(t, m.step())
	m.requires(smallIn + cgroup(pod, "decaf"))
	if text, err := os.ReadFile(back); err != nil || string(text) != "4711" {
		t.Errorf("its processes are not back: %q, %v", text, err)
	}
}

// A giusto run of another version does not know the plans of this one.
func TestAfterAnUpgradeGiustoRunIsReplaced(t *testing.T) {
	m := newMachine(t, objects.Promise(t, "web", small))
	pod := m.pod("web", 0)
	ok(t, m.step())
	old := m.running.Pid
	m.restart()
	ok(t, m.step())
	if m.running.Pid != old {
		t.Error("giusto run did not outlive its agent")
	}
	t.Setenv("TEST_VERSION", "1.1")
	m.restart()
	ok(t, m.step())
	m.requires(smallIn + cgroup(pod, id0))
	if m.running.Pid == old || m.running.Version != "1.1" {
		t.Errorf("process %d of version %s runs", m.running.Pid, m.running.Version)
	}
}
