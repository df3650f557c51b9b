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
	"os"
	"os/signal"
	"syscall"
	"time"

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
	arguments := os.Args[1:]
	log.SetFlags(0)
	log.SetPrefix("giusto-distributor: ")
	if n := len(arguments); n > 1 && n <= 3 && arguments[0] == "dead" {
		dead(append(arguments[1:], "127.0.0.1:4170"))
		return
	}
	check := len(arguments) > 0 && arguments[0] == "--check"
	if check {
		arguments = arguments[1:]
	}
	if len(arguments) != 1 || arguments[0] == "" || arguments[0][0] == '-' {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	s, err := distributor.Read(arguments[0])
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	if check {
		fmt.Printf("%s: ok\n", arguments[0])
		return
	}
	d, err := distributor.Start(s, log.Printf)
	if err != nil {
		log.Print(err)
		os.Exit(4)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	fmt.Printf("giusto-distributor: ready: %s\n", d.Addr())
	select {
	case <-signals:
		d.Stop()
	case err := <-d.Failed():
		d.Stop()
		log.Print(err)
		os.Exit(4)
	}
}

// dead tells a distributor, or whom it names as leading, that a broker does not run any more.
func dead(arguments []string) {
	broker, address := arguments[0], arguments[1]
	if _, _, err := net.SplitHostPort(address); err != nil {
		log.Printf("%q is not HOST:PORT", address)
		os.Exit(2)
	}
	request, err := http.NewRequest("PUT", "http://"+address+"/brokers/"+url.PathEscape(broker)+"/dead", nil)
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		log.Print(err)
		os.Exit(4)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // what it says is shown as it is
	if answer.StatusCode != http.StatusOK {
		log.Printf("%s: %s: %s", address, answer.Status, text)
		os.Exit(4)
	}
	fmt.Printf("%s is dead: its shares are free\n", broker)
}
