// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	core "k8s.io/api/core/v1"
)

// Cgroups finds containers in the trees below Root, which is /sys/fs/cgroup: v2, or a hierarchy each controller (v1).
type Cgroups struct{ Root string }

// hierarchies are where giusto looks for a cgroup that it is to adopt.
var hierarchies = []string{"", "systemd", "cpu"}

// scopes is how runtimes call a container's cgroup under systemd's driver.
var scopes = []string{"cri-containerd-%s.scope", "crio-%s.scope", "docker-%s.scope"}

// Find is the cgroup of a container, as a path below a hierarchy's root. An id is "containerd://0123…", as a pod's status has it.
// Errors: there is none with a process in it.
func (c Cgroups) Find(pod *core.Pod, id string) (string, error) {
	_, id, _ = strings.Cut(id, "://")
	if id == "" || strings.ContainsAny(id, "/.") {
		return "", errors.New("the container has no id yet")
	}
	var names []string
	for _, parent := range parents(pod) {
		names = append(names, filepath.Join(parent, id))
		for _, scope := range scopes {
			names = append(names, filepath.Join(parent, fmt.Sprintf(scope, id)))
		}
	}
	for _, name := range names {
		if c.Peopled(name) {
			return name, nil
		}
	}
	// kubelet may have been told to put all of them below another cgroup. Below the root of v1 are the other hierarchies.
	for _, hierarchy := range slices.Backward(hierarchies) {
		if name := c.search(hierarchy, pod, id); name != "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("no cgroup of container %.12s has a process below %s", id, c.Root)
}

// ofContainer tells whether a cgroup is that of a container.
func ofContainer(name, id string) bool {
	_, id, _ = strings.Cut(id, "://")
	return id != "" && strings.Contains(filepath.Base(name), id)
}

// parents is where a pod's containers are: under the driver cgroupfs, and under systemd's.
func parents(pod *core.Pod) []string {
	uid := string(pod.UID)
	slice := strings.ReplaceAll(uid, "-", "_")
	switch pod.Status.QOSClass {
	case core.PodQOSGuaranteed:
		return []string{"kubepods/pod" + uid, "kubepods.slice/kubepods-pod" + slice + ".slice"}
	default:
		class := strings.ToLower(string(pod.Status.QOSClass))
		return []string{
			fmt.Sprintf("kubepods/%s/pod%s", class, uid),
			fmt.Sprintf("kubepods.slice/kubepods-%s.slice/kubepods-%s-pod%s.slice", class, class, slice),
		}
	}
}

// deepest is how far below a root containers are looked for.
const deepest = 8

func (c Cgroups) search(hierarchy string, pod *core.Pod, id string) string {
	root := filepath.Join(c.Root, hierarchy)
	uid := string(pod.UID)
	slice := strings.ReplaceAll(uid, "-", "_")
	found := ""
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		name, _ := filepath.Rel(root, path)
		if strings.Count(name, "/") >= deepest {
			return fs.SkipDir
		}
		ofPod := strings.Contains(name, "pod"+uid) || strings.Contains(name, "pod"+slice)
		if ofPod && strings.Contains(entry.Name(), id) && c.peopled(hierarchy, name) {
			found = name
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// Peopled tells whether a container's cgroup has a process, where giusto looks for it.
func (c Cgroups) Peopled(name string) bool {
	return slices.ContainsFunc(hierarchies, func(hierarchy string) bool { return c.peopled(hierarchy, name) })
}

// peopled tells whether a cgroup has a process in it or below it.
func (c Cgroups) peopled(hierarchy, name string) bool {
	folder := filepath.Join(c.Root, hierarchy, name)
	if text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs")); err == nil && len(text) > 0 {
		return true
	}
	below, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, entry := range below {
		if entry.IsDir() && c.peopled(hierarchy, filepath.Join(name, entry.Name())) {
			return true
		}
	}
	return false
}

// Bound tells whether threads of a container may have no real-time priorities: in a cpu cgroup of v1 without real-time runtime,
// which a kernel with RT_GROUP_SCHED gives to each new one, they may not.
func (c Cgroups) Bound(name string) bool {
	runtime, err := os.ReadFile(filepath.Join(c.Root, "cpu", name, "cpu.rt_runtime_us"))
	return err == nil && strings.TrimSpace(string(runtime)) == "0"
}

// Free lets them: the processes of a container that is bound go to that hierarchy's root, where shares and quotas of the
// container do not hold them; the budget of the promise does.
func (c Cgroups) Free(name string) error {
	return c.move(processes(filepath.Join(c.Root, "cpu", name)), filepath.Join(c.Root, "cpu"))
}

// Back takes back what Free did, of those processes that are in the container's cgroups of other hierarchies.
func (c Cgroups) Back(name string) error {
	folder := filepath.Join(c.Root, "cpu", name)
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	return c.move(processes(filepath.Join(c.Root, "systemd", name)), folder)
}

func (c Cgroups) move(all []string, to string) error {
	var failed error
	for _, process := range all {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(process), 0)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = err
		}
	}
	return failed
}

// processes are those in a cgroup and below it.
func processes(folder string) []string {
	var all []string
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			all = append(all, strings.Fields(string(text))...)
		}
		return nil
	})
	return all
}

// Leave takes this process out of its container's cgroups, into the roots: what it starts outlives the container.
func (c Cgroups) Leave() error {
	folders := []string{c.Root}
	below, err := os.ReadDir(c.Root)
	if err != nil {
		return err
	}
	for _, entry := range below {
		if entry.IsDir() {
			folders = append(folders, filepath.Join(c.Root, entry.Name()))
		}
	}
	left := 0
	for at, folder := range folders {
		// Below a root of v2 are cgroups, not hierarchies.
		if _, err := os.Stat(filepath.Join(folder, "cgroup.type")); at > 0 && err == nil {
			continue
		}
		if os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0) == nil {
			left++
		}
	}
	if left == 0 {
		return fmt.Errorf("no cgroup below %s could be left for its root", c.Root)
	}
	return nil
}
