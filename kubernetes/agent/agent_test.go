// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	objects "giusto.dev/kubernetes/testing"
	core "k8s.io/api/core/v1"
)

const uid, id = "0a1b2c3d-0000-4000-8000-123456789abc", "f00dfeed"

// tree makes cgroups, those that end with '!' with a process.
func tree(t *testing.T, names ...string) Cgroups {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		name, peopled := strings.CutSuffix(name, "!")
		folder := filepath.Join(root, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		text := ""
		if peopled {
			text = "4711\n"
		}
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Cgroups{root}
}

func TestContainersAreFoundUnderEachDriverAndHierarchy(t *testing.T) {
	slice := strings.ReplaceAll(uid, "-", "_")
	bestEffort := "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice"
	for _, one := range []struct {
		class    core.PodQOSClass
		tree     []string
		expected string
	}{
		{core.PodQOSBurstable, []string{"cpu/kubepods/burstable/pod" + uid + "/" + id + "!"},
			"kubepods/burstable/pod" + uid + "/" + id},
		{core.PodQOSGuaranteed, []string{"systemd/kubepods/pod" + uid + "/" + id + "!"}, "kubepods/pod" + uid + "/" + id},
		{core.PodQOSBestEffort, []string{bestEffort + "/cri-containerd-" + id + ".scope!"},
			bestEffort + "/cri-containerd-" + id + ".scope"},
		// A program in the container may have made cgroups below its own (v2).
		{core.PodQOSGuaranteed, []string{"kubepods/pod" + uid + "/" + id, "kubepods/pod" + uid + "/" + id + "/init!"},
			"kubepods/pod" + uid + "/" + id},
		// kubelet was told a cgroup root of its own.
		{core.PodQOSBurstable, []string{"cpu/nested/kubelet/kubepods/burstable/pod" + uid + "/" + id + "!"},
			"nested/kubelet/kubepods/burstable/pod" + uid + "/" + id},
		{core.PodQOSBurstable, []string{"cpu/kubepods/burstable/pod" + uid + "/" + id}, ""},
		{core.PodQOSBurstable, []string{"cpu/kubepods/burstable/podother/" + id + "!"}, ""},
	} {
		pod := objects.Pod("web", 0)
		pod.UID, pod.Status.QOSClass = uid, one.class
		found, err := tree(t, one.tree...).Find(pod, "containerd://"+id)
		if found != one.expected || (err == nil) != (one.expected != "") {
			t.Errorf("%v: found %q, %v", one.tree, found, err)
		}
	}
	for _, id := range []string{"", "containerd://", "containerd://../../x"} {
		if found, err := tree(t).Find(objects.Pod("web", 0), id); err == nil {
			t.Errorf("%q: found %q", id, found)
		}
	}
}

func TestAStaticCPUManagerKeepsGiustoOffUnlessItsCoresAreKeptOut(t *testing.T) {
	for _, one := range []struct {
		state, cores, reserved, why string
	}{
		{`{"policyName":"none"}`, "0-3", "", ""},
		{"", "0-3", "", ""},
		{`{"policyName":"static"}`, "0-3", "", "core 0"},
		{`{"policyName":"static"}`, "2-3", "0,2", "core 3"},
		{`{"policyName":"static"}`, "2-3", "0,2-3", ""},
		{`{"policyName":"static"}`, "2-3", "x", "no list of cores"},
	} {
		folder := t.TempDir()
		if one.state != "" {
			if err := os.WriteFile(filepath.Join(folder, "cpu_manager_state"), []byte(one.state), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := (&Agent{Kubelet: folder, Cores: one.cores, Reserved: one.reserved}).manager()
		if (err == nil) != (one.why == "") || err != nil && !strings.Contains(err.Error(), one.why) {
			t.Errorf("%+v: %v", one, err)
		}
	}
}

func TestListsOfCores(t *testing.T) {
	if all, err := cores("0-2, 5"); err != nil || !slices.Equal(all, []int{0, 1, 2, 5}) {
		t.Error(all, err)
	}
	for _, bad := range []string{"a", "3-1", "1-", "0-99999"} {
		if all, err := cores(bad); err == nil {
			t.Errorf("%q: %v", bad, all)
		}
	}
}

// A verdict is no better than what was observed.
func TestVerdicts(t *testing.T) {
	now := int64(12_345_678)
	server := func(verdicts ...string) *ServiceStatus {
		var one ServiceStatus
		if err := unmarshal(`{"responses": {"past": [{"requests": 9, "p99_ns": 5}], "promised": []}}`, &one); err != nil {
			t.Fatal(err)
		}
		for _, verdict := range verdicts {
			var promised ServiceStatus
			text := `{"responses": {"promised": [{"percentile": 99.9, "past": [{"verdict": "` + verdict + `"}]}]}}`
			if err := unmarshal(text, &promised); err != nil {
				t.Fatal(err)
			}
			promised.Responses.Promised[0].Past[0].Now = &now
			one.Responses.Promised = append(one.Responses.Promised, promised.Responses.Promised[0])
		}
		return &one
	}
	for _, one := range []struct {
		verdicts      []string
		expected, now string
	}{
		{nil, "cannot-tell", "p99 5ns"},
		{[]string{"kept"}, "kept", "p99.9 12.35ms"},
		{[]string{"kept", "cannot-tell"}, "cannot-tell", "p99.9 12.35ms, p99.9 12.35ms"},
		{[]string{"cannot-tell", "missed"}, "missed", "p99.9 12.35ms, p99.9 12.35ms"},
	} {
		status := podStatus(server(one.verdicts...))
		if status.Verdict != one.expected || status.Now != one.now {
			t.Errorf("%v: %s, %s", one.verdicts, status.Verdict, status.Now)
		}
	}
}
