// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"giusto.dev/messaging/fleet"
)

// Broker is a running giusto-broker, or the stock nsqd of bench/stock.
type Broker struct {
	command *exec.Cmd
	// Address for producers and consumers.
	Address string
	// HTTP is where statistics are.
	HTTP string
}

// Start runs a program that prints its two addresses in its first line. The program ends with the process that started it.
func Start(path string, arguments ...string) (*Broker, error) {
	command := exec.Command(path, arguments...)
	line, err := fleet.Ready(command)
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %v", path, err)
	}
	words := strings.Fields(line)
	if len(words) < 5 {
		command.Process.Kill()
		command.Wait()
		return nil, fmt.Errorf("%s did not start: %s", path, line)
	}
	return &Broker{command, strings.TrimSuffix(words[2], ","), words[4]}, nil
}

// CPU is the processor time it has used, and the time its threads have waited for a processor.
func (b *Broker) CPU() (used, waited time.Duration) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", b.command.Process.Pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		var ran, delay int64
		fmt.Sscan(string(text), &ran, &delay)
		used, waited = used+time.Duration(ran), waited+time.Duration(delay)
	}
	return used, waited
}

// Signal sends it one.
func (b *Broker) Signal(signal os.Signal) { b.command.Process.Signal(signal) }

// End asks it to end, and waits.
func (b *Broker) End() {
	b.Signal(syscall.SIGTERM)
	b.command.Wait()
}

// Memory is what is resident now, and the most that ever was, in MiB.
func (b *Broker) Memory() (now, peak int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.command.Process.Pid))
	for _, line := range strings.Split(string(text), "\n") {
		fmt.Sscanf(line, "VmRSS: %d kB", &now)
		fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	return now >> 10, peak >> 10
}

// Files is how many it has open.
func (b *Broker) Files() int {
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.command.Process.Pid))
	return len(open)
}
