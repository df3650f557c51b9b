// SPDX-License-Identifier: Apache-2.0

// stock runs nsqd 1.3.0 as its own program does: defaults, TCP and HTTP on free ports of loopback, data in DIRECTORY.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/nsqio/nsq/nsqd"
)

func main() {
	o := nsqd.NewOptions()
	o.TCPAddress, o.HTTPAddress, o.HTTPSAddress, o.DataPath = "127.0.0.1:0", "127.0.0.1:0", "", os.Args[1]
	o.LogLevel = nsqd.LOG_FATAL
	n, err := nsqd.New(o)
	if err != nil {
		log.Fatal(err)
	}
	go n.Main()
	fmt.Printf("nsqd: ready: %s, http %s\n", n.RealTCPAddr(), n.RealHTTPAddr())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	n.Exit()
}
