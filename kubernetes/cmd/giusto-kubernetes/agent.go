// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"giusto.dev/kubernetes/agent"
	api "giusto.dev/kubernetes/api/v1alpha1"
	"giusto.dev/kubernetes/planner"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	tools "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// looks is how often the node is looked at where nothing is told: containers come and go before the API server knows.
	looks = time.Second
	// leaving is how long it may take to leave the node, less than a pod has to end (terminationGracePeriodSeconds).
	leaving = 45 * time.Second
)

func node(words []string) error {
	set := flags("agent")
	name := set.String("node", os.Getenv("NODE_NAME"), "`name` of the node that this is [NODE_NAME]")
	cores := set.String("cores", "", "`cores` that promises may use, such as 1-3 [all]")
	keepFree := set.String("keep-free", "", "`share` of each of them that stays free for the kernel, kubelet and giusto [5%]")
	// Deadline would take cores out of the cpusets that kubelet and the runtime write.
	backend := set.String("backend", "manager", "the `backend` of all promises; manager touches no cpuset of kubelet's")
	reserved := set.String("reserved", "", "`cores` of kubelet's reservedSystemCPUs, where its CPU manager is static")
	kubelet := set.String("kubelet", "/var/lib/kubelet", "`folder` of kubelet's state")
	program := set.String("giusto", "giusto", "the `program` giusto")
	folder := set.String("folder", "/run/giusto-kubernetes", "`folder` of plans and the log of giusto run")
	state := set.String("state", "/run/giusto-kubernetes/state", "giusto's own `folder` (GIUSTO_STATE)")
	host := set.String("host", "/run/giusto", "`folder` of a giusto run of the host's own, beside which nothing is enforced")
	_ = set.Parse(words)
	if *name == "" {
		return errors.New("which node is this? say it with --node NAME or NODE_NAME")
	}
	if *cores == "" {
		online, err := os.ReadFile("/sys/devices/system/cpu/online")
		if err != nil {
			return err
		}
		*cores = strings.TrimSpace(string(online))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	scheme, err := scheme()
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	own := cache.ByObject{Field: fields.OneTermEqualSelector("spec.nodeName", *name)}
	m, err := ctrl.NewManager(config, manager.Options{
		Scheme:  scheme,
		Metrics: metrics.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&core.Pod{}: own}},
	})
	if err != nil {
		return err
	}
	plans := planner.New(*program)
	defer plans.Close()
	a := &agent.Agent{
		Node: *name, Cores: *cores, KeepFree: *keepFree, Kubelet: *kubelet, Reserved: *reserved,
		Client: m.GetClient(), Planner: plans,
		Giusto:  &agent.Giusto{Program: *program, Self: self, Folder: *folder, State: *state, Backend: *backend},
		Cgroups: agent.Cgroups{Root: "/sys/fs/cgroup"}, Host: *host,
	}
	ctx := ctrl.SetupSignalHandler()
	daemons, err := agent.SetOf(ctx, m.GetAPIReader(), os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME"))
	if err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	for _, kind := range []client.Object{&core.Pod{}, &api.Promise{}} {
		informer, err := m.GetCache().GetInformer(ctx, kind)
		if err != nil {
			return err
		}
		woken := func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		if _, err := informer.AddEventHandler(tools.ResourceEventHandlerFuncs{
			AddFunc: func(any) { woken() }, UpdateFunc: func(any, any) { woken() }, DeleteFunc: func(any) { woken() },
		}); err != nil {
			return err
		}
	}
	loop := func(ctx context.Context) error {
		said := ""
		for ctx.Err() == nil {
			// What fails is tried again, and told once.
			text := ""
			if err := a.Step(ctx); err != nil && ctx.Err() == nil {
				text = err.Error()
			}
			if text != said && text != "" {
				slog.Warn(text)
			}
			said = text
			select {
			case <-ctx.Done():
			case <-wake:
			case <-time.After(looks):
			}
		}
		return nil
	}
	if err := m.Add(manager.RunnableFunc(loop)); err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	return leave(a, m.GetAPIReader(), daemons)
}

// leave leaves the node as it was found, if agents are taken away for good; else giusto run goes on until the next one is there.
func leave(a *agent.Agent, live client.Reader, daemons *agent.Set) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	gone, err := daemons.Gone(ctx, live)
	if err != nil || !gone {
		return err
	}
	slog.Info("the agents' DaemonSet is deleted: giusto run ends")
	return a.TakeAway(ctx)
}
