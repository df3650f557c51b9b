// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"giusto.dev/messaging/broker"
	"giusto.dev/messaging/settings"
)

// The example for other languages publishes all its lines through real brokers, and moves when its broker is drained.
func TestThePythonExampleMoves(t *testing.T) {
	python := "../clients/.venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		t.Skip("pynsq is not installed; tests/messaging.sh does it")
	}
	d := start(t, "store: memory\ngather: 0s\ncalm: 0s\nround: 1s")
	defer d.Stop()
	brokers := map[string]*broker.Broker{}
	for n, name := range []string{"a", "b"} {
		s, err := settings.Parse([]byte(fmt.Sprintf("{listen: '127.0.0.1:0', http: '127.0.0.1:0', announce: 127.0.0.1, node: %d, name: %s, data: %s, distributor: ['%s']}",
			n, name, t.TempDir(), d.Addr())))
		if err != nil {
			t.Fatal(err)
		}
		b, err := broker.Start(s, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Stop()
		brokers[name] = b
	}
	settled(t, "both report", func() bool {
		_, text := call(t, "GET", d.Addr()+"/brokers", "")
		return strings.Count(text, `"alive":true`) == 2
	})
	if status, text := call(t, "PUT", d.Addr()+"/topics/lines", `{"rate": "1k/s", "depth": 100, "each": "100/s"}`); status != 200 {
		t.Fatal(status, text)
	}
	command := exec.Command(python, "../examples/assign.py", d.Addr(), "lines", "p1")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	at := func() string {
		_, text := call(t, "GET", d.Addr()+"/topics/lines", "")
		for name := range brokers {
			if strings.Contains(text, fmt.Sprintf(`{"broker":%q,"publishers":1`, name)) {
				return name
			}
		}
		return ""
	}
	fmt.Fprintln(in, "0")
	settled(t, "it publishes", func() bool { return at() != "" })
	first := at()
	call(t, "PUT", d.Addr()+"/brokers/"+first+"/drain", "")
	for n := 1; n < 100 || at() == first && n < 3000; n++ {
		fmt.Fprintln(in, n)
		time.Sleep(10 * time.Millisecond)
	}
	in.Close()
	if err := command.Wait(); err != nil || !strings.Contains(said.String(), "moved to") || !strings.Contains(said.String(), "all lines were told OK") {
		t.Errorf("%v\n%s", err, said.String())
	}
	for name, b := range brokers {
		_, text := call(t, "GET", b.HTTPAddr().String()+"/stats?format=json&topic=lines", "")
		if !strings.Contains(text, `"message_count"`) || strings.Contains(text, `"message_count":0,`) {
			t.Error("nothing came to ", name, ": ", text)
		}
	}
}

// died plays distributors that die at the first question and at a later one: neither is taken for the broker's death. That of the broker,
// which refuses the second move, is told.
const died = `
import asyncio, http.client, sys, types
sys.modules["nsq"] = types.ModuleType("nsq")
sys.path.insert(0, "../examples")
import assign
questions, told = [], [http.client.RemoteDisconnected(), {"broker": "a", "v2": "a:1", "version": 1}, ConnectionRefusedError(),
    {"broker": "b", "v2": "b:1", "version": 2}, KeyboardInterrupt()]
def ask(distributor, **question):
    questions.append(question)
    if isinstance(told[0], KeyboardInterrupt):
        raise asyncio.CancelledError
    now = told.pop(0)
    if isinstance(now, Exception):
        raise now
    return now
async def move(to):
    if to["broker"] == "b":
        raise ConnectionError("b:1")
assign.ask = ask
p = assign.Publisher("d:1", "t", "p")
p.move = move
try:
    asyncio.run(asyncio.wait_for(p.follow(), 20))
except asyncio.CancelledError:
    pass
print([q.get("failed", "") for q in questions])
`

func TestThePythonExampleTellsWhoDied(t *testing.T) {
	text, err := exec.Command("python3", "-c", died).CombinedOutput()
	if got := strings.TrimSpace(string(text)); err != nil || got != "['', '', '', '', 'b']" {
		t.Errorf("%v\n%s", err, got)
	}
}
