// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
)

// apart is how long a service that giusto run could not take is left alone.
const apart = 30 * time.Second

// placed is a service as it is to be enforced, or is.
type placed struct {
	Keys   json.RawMessage `json:"keys"`
	Cgroup string          `json:"cgroup"`
}

func (p placed) equal(other placed) bool {
	return bytes.Equal(p.Keys, other.Keys) && p.Cgroup == other.Cgroup
}

// wanted is what is to be in force. A container that is gone, or that giusto run could not take, has what it had, or nothing: the
// others do not wait for it.
func (a *Agent) wanted() map[string]placed {
	all := map[string]placed{}
	for _, own := range a.services {
		if own.keys == nil || own.cgroup == "" {
			continue
		}
		want := placed{own.keys, own.cgroup}
		before, runs := a.memory.Services[own.name]
		if own.cause != nil && own.bad.equal(want) && time.Now().Before(own.until) {
			own.no, own.reason = own.cause, "Failed"
			if !runs {
				continue
			}
			want = before
		}
		if (!runs || want.Cgroup != before.Cgroup) && !a.Cgroups.Peopled(want.Cgroup) {
			if own.no == nil {
				own.no, own.reason = errors.New("its container has ended"), "NotRunning"
			}
			if !runs {
				continue
			}
			want.Cgroup = before.Cgroup
		}
		if err := a.free(want.Cgroup); err != nil {
			own.reason = "Failed"
			own.no = fmt.Errorf("its processes cannot leave their cpu cgroup, "+
				"which allows no real-time priority: %w", err)
			if !runs {
				continue
			}
		}
		all[own.name] = want
	}
	return all
}

// site is that of what is to be in force, in the order in which the scheduler's planner counts: that of the keys.
func (a *Agent) site(all map[string]placed) ([]byte, error) {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(one, other string) int {
		return cmp.Or(bytes.Compare(all[one].Keys, all[other].Keys), cmp.Compare(one, other))
	})
	host := map[string]any{"cores": a.Cores}
	if a.KeepFree != "" {
		host["keep-free"] = a.KeepFree
	}
	text, err := json.Marshal(host)
	if err != nil {
		return nil, err
	}
	var site bytes.Buffer
	fmt.Fprintf(&site, "# Written by giusto's agent for Kubernetes: what it knows of the pods of node %s.\n", a.Node)
	fmt.Fprintf(&site, "{\"giusto\": 1,\n\"hosts\": {%q: %s},\n\"services\": {", node, text)
	for at, name := range names {
		var keys map[string]any
		if err := json.Unmarshal(all[name].Keys, &keys); err != nil {
			return nil, err
		}
		keys["adopt"] = map[string]string{"cgroup": all[name].Cgroup}
		text, err := json.Marshal(keys)
		if err != nil {
			return nil, err
		}
		separator := ",\n"
		if at == 0 {
			separator = "\n"
		}
		fmt.Fprintf(&site, "%s%q: %s", separator, name, text)
	}
	site.WriteString("\n}}\n")
	return site.Bytes(), nil
}

// enforce puts what follow found in force. Errors: what was in force still is.
func (a *Agent) enforce(ctx context.Context) error {
	runs := a.running != nil
	if !runs {
		a.memory.Services, a.memory.Site = nil, ""
		if a.wrong != nil { // nothing will keep what is taken out of its cgroup
			return a.back()
		}
	}
	want := a.wanted()
	if len(want) == 0 {
		if runs {
			slog.Info("no pod with a promise is left: giusto run ends")
			if err := a.Giusto.Stop(ctx); err != nil {
				return err
			}
			a.memory.Services, a.memory.Site = nil, ""
		}
		return a.back()
	}
	if a.wrong != nil {
		return nil
	}
	site, err := a.site(want)
	if err != nil {
		return err
	}
	version, err := a.Giusto.Version(ctx)
	if err != nil {
		return err
	}
	if runs && a.running.Version != version {
		slog.Info("giusto run is replaced", "runs", a.running.Version, "new", version)
		if err := a.Giusto.Stop(ctx); err != nil {
			return err
		}
		runs = false
	}
	if runs && string(site) == a.memory.Site && a.running.State != "stopping" {
		return a.back()
	}
	begin := time.Now()
	if err := a.Giusto.Enforce(ctx, site); err != nil {
		a.memory.Site = ""
		a.blame(want, err)
		return err
	}
	a.memory.Services, a.memory.Site = want, string(site)
	slog.Info("in force", "services", len(want), "took", time.Since(begin).Round(time.Millisecond))
	return a.back()
}

// blame leaves the services alone that giusto run named when it could not do what it was asked.
func (a *Agent) blame(want map[string]placed, why error) {
	for _, own := range a.services {
		one, asked := want[own.name]
		if asked && !one.equal(a.memory.Services[own.name]) && strings.Contains(why.Error(), own.name) {
			own.bad, own.cause, own.until = one, why, time.Now().Add(apart)
		}
	}
}

// free lets the threads of a container have real-time priorities, and remembers that before.
func (a *Agent) free(cgroup string) error {
	if !a.Cgroups.Bound(cgroup) {
		return nil
	}
	if !slices.Contains(a.memory.Freed, cgroup) {
		a.memory.Freed = append(a.memory.Freed, cgroup)
		if err := a.save(); err != nil {
			return err
		}
	}
	return a.Cgroups.Free(cgroup)
}

// back takes back what free did, of containers that have no share any more.
func (a *Agent) back() error {
	var failed error
	held := map[string]bool{}
	for _, one := range a.memory.Services {
		held[one.Cgroup] = true
	}
	a.memory.Freed = slices.DeleteFunc(a.memory.Freed, func(cgroup string) bool {
		if held[cgroup] {
			return false
		}
		err := a.Cgroups.Back(cgroup)
		failed = errors.Join(failed, err)
		return err == nil
	})
	return failed
}

// TakeAway leaves the node as it was found.
func (a *Agent) TakeAway(ctx context.Context) error {
	if !a.restored {
		if err := a.recall(); err != nil {
			return err
		}
	}
	if err := a.Giusto.Stop(ctx); err != nil {
		return err
	}
	a.memory.Services = nil
	if err := a.back(); err != nil {
		return err
	}
	if a.services != nil {
		a.running, a.wrong = nil, &wrong{"NoAgent", errors.New("the agents were taken away")}
		for _, own := range a.services {
			own.no, own.reason = a.wrong, "NodeNotReady"
		}
		_ = a.tell(ctx, nil) // where all of Giusto is taken away, nothing is told any more
	}
	return os.RemoveAll(a.Giusto.Folder)
}
