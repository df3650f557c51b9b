// SPDX-License-Identifier: Apache-2.0

// giusto-limit says whether requests may pass: to Envoy over gRPC, to others over HTTP. All of them together keep
// the limits that a
// distributor has. See README.md.
package main

import (
	"fmt"
	"log"

	"giusto.dev/messaging/command"
	"giusto.dev/messaging/limit"
)

const usage = `giusto-limit FILE          runs a limiter by a file, until SIGTERM
giusto-limit --check FILE  says what is wrong with a file, if anything

  curl -X PUT http://127.0.0.1:4170/topics/orders -d '{"limit": "requests", "rate": "200/s", "depth": "20"}'    # at its distributor
  curl 'http://127.0.0.1:4181/take?bucket=orders&hits=1&wait=1s'
`

func main() {
	path, flag := command.File(command.Arguments("giusto-limit"), usage, "--check")
	s, err := limit.Read(path)
	command.Must(err, command.BadInput)
	if flag == "--check" {
		fmt.Printf("%s: ok\n", path)
		return
	}
	v, err := limit.Serve(s, log.Printf)
	command.Must(err, command.Failed)
	ends := command.Ends()
	fmt.Printf("giusto-limit: ready: %s, http %s\n", v.GRPC(), v.HTTP())
	select {
	case <-ends:
		if err := v.Stop(); err != nil {
			log.Printf("others get this limiter's shares when its lease is over: %v", err)
		}
	case err := <-v.Failed():
		v.Stop()
		command.Must(err, command.Failed)
	}
}
