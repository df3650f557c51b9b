// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"giusto.dev/messaging/clock"
	"giusto.dev/messaging/report"
	"giusto.dev/messaging/settings"
	"giusto.dev/messaging/wire"
)

// guard runs a broker as its child. When that has ended, and not by itself in order, its distributors are told: nothing
// of it passes any more, since the kernel says that it is gone, so others get its shares at once rather than when its
// lease is over. The child ends in order when the guard dies.
func guard(path string, s settings.Settings) (code int) {
	if len(s.Distributor) == 0 || s.Name == "" {
		log.Printf("%s: --guarded needs distributor, and the name by which the distributor knows the broker", path)
		return 2
	}
	runtime.LockOSThread() // its end would be the child's
	self, err := os.Executable()
	if err != nil {
		log.Print(err)
		return 4
	}
	child := exec.Command(self, path)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	if err := child.Start(); err != nil {
		log.Print(err)
		return 4
	}
	go func() {
		for one := range signals {
			child.Process.Signal(one)
		}
	}()
	var how *exec.ExitError
	if err := child.Wait(); err == nil {
		return 0
	} else if !errors.As(err, &how) {
		log.Print(err)
		return 4
	}
	if code = how.ExitCode(); code < 0 {
		code = 128 + int(how.Sys().(syscall.WaitStatus).Signal())
	}
	text, err := os.ReadFile(filepath.Join(s.Data, "giusto-broker.incarnation"))
	if err != nil {
		return code // it never reported
	}
	about := wire.Report{Broker: s.Name, Incarnation: strings.TrimSpace(string(text)), V2: s.Listen}
	if err := report.New(about, s.Distributor, clock.New(), log.Printf).Farewell(); err != nil {
		log.Printf("the broker has ended (%v), and no distributor could be told: %v", how, err)
	} else {
		log.Printf("the broker has ended (%v): its shares are free", how)
	}
	return code
}
