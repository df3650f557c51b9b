// SPDX-License-Identifier: Apache-2.0

// Giusto-kubernetes gives pods the promises that they were made: `scheduler` beside a stock kube-scheduler, `agent` on each node.
// What either decides, giusto's planner has decided (`giusto place`).
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"

	"github.com/go-logr/logr"
	"giusto.dev/kubernetes/agent"
	api "giusto.dev/kubernetes/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
)

const usage = `giusto-kubernetes scheduler [options]   answers a kube-scheduler, and writes the status of promises
giusto-kubernetes agent [options]       enforces promises on this node
Options: giusto-kubernetes scheduler --help, giusto-kubernetes agent --help
`

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	verbs := map[string]func([]string) error{"scheduler": scheduler, "agent": node, "launch": launch}
	verb, known := verbs[os.Args[1]]
	if !known {
		fmt.Fprintf(os.Stderr, "'%s' is not a verb; expected one of\n%s", os.Args[1], usage)
		os.Exit(2)
	}
	if err := verb(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "giusto-kubernetes:", err)
		os.Exit(1)
	}
}

// scheme is of all kinds that are read and written.
func scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgo.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, api.AddToScheme(scheme)
}

// flags are a verb's own. Those of packages (--kubeconfig) are among them.
func flags(verb string) *flag.FlagSet {
	set := flag.NewFlagSet("giusto-kubernetes "+verb, flag.ExitOnError)
	flag.CommandLine.VisitAll(func(one *flag.Flag) { set.Var(one.Value, one.Name, one.Usage) })
	return set
}

// launch leaves the cgroups of this container, and becomes another program.
func launch(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("launch: expected a program")
	}
	if err := (agent.Cgroups{Root: "/sys/fs/cgroup"}).Leave(); err != nil {
		return err
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, words, os.Environ())
}
