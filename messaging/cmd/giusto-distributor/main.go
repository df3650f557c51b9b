// SPDX-License-Identifier: Apache-2.0

// giusto-distributor says which publisher of a topic sends to which broker, and what share of the topic's limit each broker has. See README.md.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"

	"giusto.dev/messaging/command"
	"giusto.dev/messaging/distributor"
)

const usage = `giusto-distributor FILE          runs a distributor by a file, until SIGTERM
giusto-distributor --check FILE  says what is wrong with a file, if anything
giusto-distributor dead BROKER [HOST:PORT]
                                 tells the distributor there (127.0.0.1:4170) that a broker does not run any more: others get its
                                 shares at once, not when its lease is over. If it runs, limits are broken until then

  curl -X PUT http://127.0.0.1:4170/topics/alarms -d '{"rate": "11k/s", "depth": "26", "promise": {"p99": "1ms"}, "each": "10/s"}'
`

func main() {
	arguments := command.Arguments("giusto-distributor")
	if n := len(arguments); n > 1 && n <= 3 && arguments[0] == "dead" {
		dead(append(arguments[1:], "127.0.0.1:4170"))
		return
	}
	path, flag := command.File(arguments, usage, "--check")
	s, err := distributor.Read(path)
	command.Must(err, command.BadInput)
	if flag == "--check" {
		fmt.Printf("%s: ok\n", path)
		return
	}
	d, err := distributor.Start(s, log.Printf)
	command.Must(err, command.Failed)
	ends := command.Ends()
	fmt.Printf("giusto-distributor: ready: %s\n", d.Addr())
	select {
	case <-ends:
		d.Stop()
	case err := <-d.Failed():
		d.Stop()
		command.Must(err, command.Failed)
	}
}

// dead tells a distributor, or whom it names as leading, that a broker does not run any more.
func dead(arguments []string) {
	broker, address := arguments[0], arguments[1]
	if _, _, err := net.SplitHostPort(address); err != nil {
		command.Must(fmt.Errorf("%q is not HOST:PORT", address), command.BadInput)
	}
	request, err := http.NewRequest("PUT", "http://"+address+"/brokers/"+url.PathEscape(broker)+"/dead", nil)
	command.Must(err, command.BadInput)
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	command.Must(err, command.Failed)
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // what it says is shown as it is
	if answer.StatusCode != http.StatusOK {
		command.Must(fmt.Errorf("%s: %s: %s", address, answer.Status, text), command.Failed)
	}
	fmt.Printf("%s is dead: its shares are free\n", broker)
}
