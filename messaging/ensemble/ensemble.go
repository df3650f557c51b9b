// SPDX-License-Identifier: Apache-2.0

// Package ensemble starts real ensembles of giusto-zookeeper on loopback, for tests and studies.
package ensemble

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is one of them.
type Server struct {
	// Address is where clients connect.
	Address string
	config  string
	command *exec.Cmd
}

// Ensemble is all of them.
type Ensemble struct{ Servers []*Server }

// Start starts servers and waits until all serve; the test ends them. It skips the test where they are not built.
func Start(t testing.TB, size int) *Ensemble {
	t.Helper()
	e, err := Open(t.TempDir(), size)
	if errors.Is(err, ErrBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Kill)
	return e
}

// ErrBuilt says that there is nothing to start.
var ErrBuilt = errors.New("giusto-zookeeper is not built: mvn -B -q -f coordination/pom.xml -pl server package")

// Open starts servers below a directory and waits until all serve. Kill ends them.
func Open(directory string, size int) (*Ensemble, error) {
	_, file, _, _ := runtime.Caller(0)
	room := filepath.Join(filepath.Dir(file), "..", "..", "coordination")
	if built, _ := filepath.Glob(room + "/server/target/giusto-zookeeper-*.jar"); len(built) == 0 {
		return nil, ErrBuilt
	}
	e := &Ensemble{}
	var peers strings.Builder
	for n := range size {
		client, quorum, election := port(), port(), port()
		e.Servers = append(e.Servers, &Server{Address: fmt.Sprintf("127.0.0.1:%d", client)})
		fmt.Fprintf(&peers, "server.%d=127.0.0.1:%d:%d\n", n+1, quorum, election)
	}
	for n, s := range e.Servers {
		dir := filepath.Join(directory, fmt.Sprint("zookeeper-", n+1))
		_, client, _ := net.SplitHostPort(s.Address)
		text := fmt.Sprintf("tickTime=1000\ninitLimit=10\nsyncLimit=4\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
			"admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n%s", dir, client, peers.String())
		s.config = filepath.Join(dir, "zoo.cfg")
		err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(s.config, []byte(text), 0o600),
			os.WriteFile(filepath.Join(dir, "myid"), []byte(fmt.Sprint(n+1)), 0o600))
		s.command = exec.Command(filepath.Join(room, "bin", "giusto-zookeeper"), "start-foreground", s.config)
		if err == nil {
			err = s.Begin()
		}
		if err != nil {
			e.Kill()
			return nil, err
		}
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		serving := 0
		for _, s := range e.Servers {
			if s.Mode() != "" {
				serving++
			}
		}
		if serving == size && e.Leader() != nil {
			return e, nil
		}
		if time.Now().After(end) {
			e.Kill()
			return nil, errors.New("the ensemble does not come up")
		}
	}
}

// Kill kills all of them.
func (e *Ensemble) Kill() {
	for _, s := range e.Servers {
		if s.command.Process != nil {
			s.Kill()
		}
	}
}

// Begin starts a server, again.
func (s *Server) Begin() error {
	s.command = exec.Command(s.command.Path, "start-foreground", s.config)
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// One line tells of any reason why it does not start.
	log, err := os.OpenFile(s.config+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.command.Stdout, s.command.Stderr = log, log
	return s.command.Start()
}

// Kill is kill -9.
func (s *Server) Kill() {
	s.command.Process.Kill()
	s.command.Wait()
}

// Signal sends one to a server's process.
func (s *Server) Signal(which syscall.Signal) { s.command.Process.Signal(which) }

// Mode is leader or follower; "" while it does not serve.
func (s *Server) Mode() string {
	conn, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(conn, "srvr")
	text, _ := io.ReadAll(conn)
	_, after, _ := strings.Cut(string(text), "Mode: ")
	mode, _, _ := strings.Cut(after, "\n")
	return mode
}

// Leader is the server that leads; nil: none.
func (e *Ensemble) Leader() *Server {
	for _, s := range e.Servers {
		if s.Mode() == "leader" {
			return s
		}
	}
	return nil
}

// Addresses are where clients connect.
func (e *Ensemble) Addresses() (all []string) {
	for _, s := range e.Servers {
		all = append(all, s.Address)
	}
	return all
}

// given are the ports of this process's ensembles.
var given sync.Map

// port is a free one below those that the kernel gives out by itself, which neither this process nor another of its kind has given before; 0
// where there is none.
func port() int {
	for range 1000 {
		number := 15000 + rand.IntN(2124)*8 + os.Getpid()%8
		if _, twice := given.LoadOrStore(number, true); twice {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", number)); err == nil {
			l.Close()
			return number
		}
	}
	return 0
}
