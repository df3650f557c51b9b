// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// begin starts a command that ends with the process that started it. What it prints is there to be read.
func begin(command *exec.Cmd) (io.Reader, error) {
	if command.Stderr == nil {
		command.Stderr = os.Stderr
	}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return out, command.Start()
}

// Ready starts a command that ends with the process that started it, and waits for the first line that it prints. On an
// error it does not run.
func Ready(command *exec.Cmd) (line string, err error) {
	out, err := begin(command)
	if err != nil {
		return "", err
	}
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		command.Process.Kill()
		command.Wait()
	}
	return line, err
}

// Self is this program once more, as the server of a file: the package's TestMain has to be Main.
func Self(file string) *exec.Cmd { return exec.Command(os.Args[0], serves, file) }

const serves = "serves"

// Main runs the tests (m.Run) of a package that kills servers of its own kind. As Self, the program is such a server: serve
// starts it from a file and returns what it then says in a line, and how it is stopped; it ends at SIGTERM.
func Main(run func() int, serve func(file string) (says string, stop func(), err error)) {
	if len(os.Args) != 3 || os.Args[1] != serves {
		os.Exit(run())
	}
	says, stop, err := serve(os.Args[2])
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(says + "\n")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	stop()
}
