// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// A leader's death is certain at once to processes of the same kernel: it listens on an abstract socket of its own name for
// as long as its process lives, and the kernel refuses connections to it from then on. Elsewhere only its term tells.

// home names this kernel since it started, and the network namespace, in which abstract names are; "": it cannot be told.
func home() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, failed := os.Readlink("/proc/self/ns/net")
	if err != nil || failed != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}

func proofName(id string) string { return "@giusto-distributor-" + id }

// prove begins to listen. nil: it cannot, and nothing is to be said of a home.
func prove(id string) net.Listener {
	l, err := net.Listen("unix", proofName(id))
	if err != nil {
		return nil
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l
}

// dead says that the process with this name, of this home, is no more.
func dead(id string) bool {
	c, err := net.Dial("unix", proofName(id))
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
