// SPDX-License-Identifier: Apache-2.0

// giusto-distributor says which publisher of a topic sends to which broker, and what share of the topic's limit each broker has. See README.md.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"giusto.dev/messaging/distributor"
)

const usage = `giusto-distributor FILE          runs a distributor by a file, until SIGTERM
giusto-distributor --check FILE  says what is wrong with a file, if anything

  curl -X PUT http://127.0.0.1:4170/topics/alarms -d '{"rate": "11k/s", "depth": "26", "promise": {"p99": "1ms"}, "each": "10/s"}'
`

func main() {
	arguments := os.Args[1:]
	check := len(arguments) > 0 && arguments[0] == "--check"
	if check {
		arguments = arguments[1:]
	}
	if len(arguments) != 1 || arguments[0] == "" || arguments[0][0] == '-' {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	log.SetFlags(0)
	log.SetPrefix("giusto-distributor: ")
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
