// SPDX-License-Identifier: Apache-2.0

// giusto-limit says whether requests may pass: to Envoy over gRPC, to others over HTTP. All of them together keep
// the limits that a
// distributor has. See README.md.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"giusto.dev/messaging/limit"
)

const usage = `giusto-limit FILE          runs a limiter by a file, until SIGTERM
giusto-limit --check FILE  says what is wrong with a file, if anything

  curl -X PUT http://127.0.0.1:4170/topics/orders -d '{"limit": "requests", "rate": "200/s", "depth": "20"}'    # at its distributor
  curl 'http://127.0.0.1:4181/take?bucket=orders&hits=1&wait=1s'
`

func main() {
	arguments := os.Args[1:]
	log.SetFlags(0)
	log.SetPrefix("giusto-limit: ")
	check := len(arguments) > 0 && arguments[0] == "--check"
	if check {
		arguments = arguments[1:]
	}
	if len(arguments) != 1 || arguments[0] == "" || arguments[0][0] == '-' {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	s, err := limit.Read(arguments[0])
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	if check {
		fmt.Printf("%s: ok\n", arguments[0])
		return
	}
	v, err := limit.Serve(s, log.Printf)
	if err != nil {
		log.Print(err)
		os.Exit(4)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	fmt.Printf("giusto-limit: ready: %s, http %s\n", v.GRPC(), v.HTTP())
	select {
	case <-signals:
		if err := v.Stop(); err != nil {
			log.Printf("others get this limiter's shares when its lease is over: %v", err)
		}
	case err := <-v.Failed():
		v.Stop()
		log.Print(err)
		os.Exit(4)
	}
}
