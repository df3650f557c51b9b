// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"giusto.dev/kubernetes/controller"
	"giusto.dev/kubernetes/extender"
	"giusto.dev/kubernetes/ledger"
	"giusto.dev/kubernetes/planner"
	core "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func scheduler(words []string) error {
	set := flags("scheduler")
	listen := set.String("listen", "127.0.0.1:9471", "`address` where kube-scheduler asks")
	program := set.String("giusto", "giusto", "the `program` giusto")
	_ = set.Parse(words)
	scheme, err := scheme()
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000
	m, err := ctrl.NewManager(config, manager.Options{
		Scheme:  scheme,
		Metrics: metrics.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&core.Pod{}: {Transform: slim}}},
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	plans := planner.New(*program)
	defer plans.Close()
	books := ledger.New(plans, m.GetClient())
	follows := &controller.Controller{Ledger: books}
	asked := &extender.Extender{
		Ledger: books, Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorderFor("giusto"),
		Ready: follows.Ready,
	}
	follows.Extender = asked
	if err := controller.Index(ctx, m); err != nil {
		return err
	}
	if err := follows.AddTo(m); err != nil {
		return err
	}
	if err := m.Add(serve(*listen, asked.Handler())); err != nil {
		return err
	}
	return m.Start(ctx)
}

// slim leaves out of pods what is not read here.
func slim(object any) (any, error) {
	if pod, is := object.(*core.Pod); is {
		pod.ManagedFields, pod.Annotations = nil, nil
		pod.Spec.Volumes, pod.Spec.Tolerations, pod.Spec.Affinity = nil, nil, nil
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.Conditions = nil, nil, nil
		for at := range pod.Spec.Containers {
			own := &pod.Spec.Containers[at]
			*own = core.Container{Name: own.Name, Resources: core.ResourceRequirements{Limits: own.Resources.Limits}}
		}
		pod.Spec.InitContainers = nil
	}
	return object, nil
}

// serve answers over HTTP as long as a manager runs.
func serve(address string, handler http.Handler) manager.RunnableFunc {
	return func(ctx context.Context) error {
		server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second,
			BaseContext: func(net.Listener) context.Context { return ctx }}
		ended := make(chan error, 1)
		go func() { ended <- server.ListenAndServe() }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := server.Shutdown(last)
		if got := <-ended; !errors.Is(got, http.ErrServerClosed) {
			return errors.Join(err, got)
		}
		return err
	}
}
